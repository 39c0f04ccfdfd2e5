// What answers: the engine in this page (client.ts), or a server (server.ts). A page that keeps to this needs not know which.
import type { Answer, GenerateOptions } from './client.ts';
import type { MediaFacts, MediaPart, Message, ModelFacts, Sampling, Stats } from './protocol.ts';

export interface AnswererFacts extends Pick<ModelFacts, 'name' | 'context' | 'chat' | 'takesPictures' | 'takesSounds'> {
  device: 'webgpu' | 'cpu' | 'server'; // where it computes
  deviceName: string; // for people
  whyNotGpu: string | null; // a sentence, where WebGPU was wanted and is not used
  sampling: Partial<Sampling>; // what the model's own files ask for, as far as it is known
}

export interface LanguageModel {
  readonly facts: AnswererFacts;
  // Fails with a sentence where an option cannot be honoured.
  generate(prompt: string | Message[], options?: GenerateOptions): Answer;
  // Looks at a picture or sound before a message shows it. Fails where the model does not take it.
  prepare(part: MediaPart): Promise<Pick<MediaFacts, 'seconds'>>;
  // The tokens that a prompt takes, about. Null: the model itself refuses what is too long.
  measure(prompt: string | Message[], variables?: Record<string, unknown>): Promise<number | null>;
  stats(): Promise<Stats | null>; // null: it tells none
  close(): void;
}
