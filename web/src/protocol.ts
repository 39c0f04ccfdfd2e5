// Every message between the page and the engine's worker. A request has an id, which its one answer and the events on the
// way carry, too. The two sides are client.ts and worker.ts.
import type { AdapterFacts, ExampleCounts, Part as PlacedPart, Sampling, TrainOptions } from './engine/module.ts';
import type { ErrorMessage } from './errors.ts';

export type { AdapterFacts, ExampleCounts, Sampling };

export type Role = 'system' | 'user' | 'assistant' | 'tool';
// A picture or a sound as a file that the browser can decode. The same Blob is prepared once. `alt` is for people.
export type MediaPart = { type: 'image'; image: Blob; alt?: string } | { type: 'audio'; audio: Blob; alt?: string };
export type Part = { type: 'text'; text: string } | MediaPart;
export interface Message {
  role: Role;
  content: string | Part[];
  toolCalls?: ToolCall[]; // of an answer; a server is told of them
}
// As it travels: the engine's numbers in the place of pictures and sounds.
export interface PlacedMessage {
  role: Role;
  content: string | PlacedPart[];
}

// What a prepared picture or sound is.
export interface MediaFacts {
  media: number; // the engine's number
  tokens: number;
  seconds: number; // of a sound; 0: a picture
}

// Where a model comes from: what was picked, an address, or the name of one in the page's storage.
export type WorkerSource =
  | { kind: 'files'; files: File[]; keep: boolean }
  | { kind: 'url'; url: string; sha256: string | null; projector: string | null } // an address of its towers' file
  | { kind: 'stored'; id: string };

export type Device = 'auto' | 'webgpu' | 'cpu';
export interface EngineSettings {
  device: Device;
  arithmetic: 'fast' | 'exact';
  context: number; // positions; 0: the model's, or what fits
  memory: number; // bytes where the model computes; 0: what there is
  expertMemory: number; // bytes of those for experts; 0: what is left
  threads: number; // of the processor, where the page is isolated; 0: as many as it has
  adapterSlots: number; // sums of adapters for which there is room
  adapterRank: number; // the highest of them
}

// What the model and the machine are, once it is loaded.
export interface ModelFacts {
  id: string | null; // in the page's storage; null: it is not kept there
  name: string;
  vocabulary: number;
  context: number; // positions
  chat: boolean; // has a chat template
  takesPictures: boolean;
  takesSounds: boolean;
  device: 'webgpu' | 'cpu';
  deviceName: string; // for people
  whyNotGpu: string | null; // a sentence, where WebGPU was wanted and is not used
  numericsId: string;
  sampling: Sampling; // what the model's own files ask for
}

export interface AnswerRequest {
  prompt: string | PlacedMessage[]; // plain text, or messages for the chat template
  sampling: Partial<Sampling>;
  maxTokens: number; // 0: what the context leaves
  stop: string[];
  variables: Record<string, unknown>; // further variables of the chat template
  adapters: Record<string, number> | null; // that act, by name with their scales; null: all, with their own
  schema?: unknown; // a JSON Schema that the answer keeps to
}

export type LoadStage = 'connecting' | 'waiting' | 'downloading' | 'copying' | 'checking' | 'opening';
export interface LoadProgress {
  stage: LoadStage; // waiting: another tab downloads the same file, and `loaded` is what it has
  loaded: number; // bytes
  total: number | null; // bytes; null: not known
}

export interface Piece {
  text: string;
  thinking: string;
  promptTokens: number; // in the history, with what came before
  promptDone: number; // of them, those that are computed or were already
  tokens: number; // of the answer so far
}

// How far a training is.
export interface TeachProgress {
  examples: number;
  faults: string[]; // a sentence for each line that was left out
  step: number; // that have ended
  steps: number; // in all
  loss: number | null; // of the last step, before it
  tokensPerSecond: number | null; // null: not known yet
  secondsLeft: number | null;
}
// What a model was taught.
export interface Taught {
  name: string;
  finish: 'done' | 'stopped' | 'failed'; // failed: behind some steps, whose adapter this is
  note: string | null; // a sentence: what went wrong
  steps: number; // that have ended
  loss: number | null; // of the last one, before it
  files: File[]; // of a PEFT folder; none where no step has ended
  gguf: File | null; // for llama.cpp; null where it has no form for such an adapter
  adapter: AdapterFacts | null; // it acts on answers now; null: it could not be added
  adapters: AdapterFacts[]; // all there are now
}

export interface ToolCall {
  name: string;
  arguments: Record<string, unknown>;
}

export type Finish = 'stop' | 'length' | 'cancelled';
export interface AnswerResult {
  text: string;
  thinking: string;
  toolCalls: ToolCall[]; // found where the variables of the template have `tools`
  finish: Finish;
  promptTokens: number;
  reusedTokens: number; // of the prompt, those that were computed for an answer before
  computedTokens: number; // of the prompt, for this answer; with those reused fewer than all where it was stopped before
  tokens: number;
  promptSeconds: number; // to the first token, or to the end if none came
  answerSeconds: number; // from the first token to the last
}

// Experts of a mixture that are read from the model's files as they are chosen.
export interface ExpertStats {
  inMemory: number; // that have room at once
  all: number; // of all layers together
  uses: number; // an expert for all tokens of a step that choose it
  misses: number; // of those, read first
  readBytes: number;
}

export interface Stats {
  heapBytes: number; // of the WebAssembly memory
  gpuBytes: number; // in the GPU's buffers; 0 without one
  promptTokens: number; // computed so far
  answerTokens: number;
  dispatches: number; // kernels a token; 0 on the processor
  experts: ExpertStats | null; // null: all there are lie in memory
}

export interface Operations {
  load: { input: { source: WorkerSource; settings: EngineSettings }; output: ModelFacts };
  answer: { input: AnswerRequest; output: AnswerResult };
  addPicture: { input: { picture: Blob; maxTokens: number }; output: MediaFacts };
  addSound: { input: { samples: Float32Array<ArrayBuffer>; rate: number }; output: MediaFacts };
  removeMedia: { input: { media: number }; output: null };
  // Each answers with all adapters there are then.
  addAdapter: { input: { name: string; files: File[]; scale: number }; output: AdapterFacts[] };
  scaleAdapter: { input: { name: string; scale: number }; output: AdapterFacts[] };
  dropAdapter: { input: { name: string }; output: AdapterFacts[] };
  lookAtExamples: { input: Pick<TrainOptions, 'examples' | 'max_tokens' | 'learn_all'>; output: ExampleCounts };
  teach: { input: { name: string; options: TrainOptions }; output: Taught };
  encode: { input: { text: string }; output: number[] };
  decode: { input: { tokens: number[] }; output: string };
  render: { input: { messages: PlacedMessage[]; variables: Record<string, unknown> }; output: string };
  save: { input: Record<string, never>; output: Uint8Array<ArrayBuffer> };
  restore: { input: { state: Uint8Array<ArrayBuffer> }; output: string }; // a note; empty: nothing need be computed again
  stats: { input: Record<string, never>; output: Stats };
}
export type Operation = keyof Operations;

export type ToWorker =
  | { [O in Operation]: { id: number; operation: O; input: Operations[O]['input'] } }[Operation]
  | { id: number; operation: 'cancel' }; // of the load, answer or training with that id

export type FromWorker =
  | { id: number; event: 'done'; output: Operations[Operation]['output'] }
  | { id: number; event: 'failed'; error: ErrorMessage }
  | { id: number; event: 'progress'; progress: LoadProgress }
  | { id: number; event: 'piece'; piece: Piece }
  | { id: number; event: 'taught'; progress: TeachProgress };
