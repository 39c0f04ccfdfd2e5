// Sluice: one model in a page. The engine runs in a worker of its own, so nothing here blocks.
//
//   const model = await Sluice.load('https://example.org/model.gguf', { onProgress: console.log });
//   for await (const { text } of model.generate([{ role: 'user', content: 'Hello' }])) show(text);
//
// A model answers one prompt at a time. What the last answer computed is kept: a prompt that begins like it goes on
// from there.
import { Adapters } from './adapters.ts';
import { aborted, fromMessage, SluiceError } from './errors.ts';
import type {
  AnswerResult,
  Device,
  ExampleCounts,
  FromWorker,
  LoadProgress,
  MediaFacts,
  MediaPart,
  Message,
  ModelFacts,
  Operation,
  Operations,
  Part,
  Piece,
  PlacedMessage,
  Sampling,
  Stats,
  Taught,
  TeachProgress,
  ToWorker,
  WorkerSource,
} from './protocol.ts';
import { decodeSound, kSoundRate } from './samples.ts';
import { deleteModel, listModels, storageLeft } from './storage.ts';
import type { StoredModel } from './storage.ts';
import { Stream } from './stream.ts';
import type { LanguageModel } from './language_model.ts';
import { Chat } from './chat.ts';
import type { ChatOptions } from './chat.ts';

// An address, a picked file (or all files of a Hugging Face directory or a split model), or one that is stored.
export type ModelSource = string | URL | File | File[] | { stored: string };

export interface LoadOptions {
  onProgress?: (progress: LoadProgress) => void;
  signal?: AbortSignal;
  // Of the file at an address, hex: what has another is refused.
  sha256?: string;
  // Beside an address of a model: that of its mmproj file, which is stored and deleted with it.
  projector?: string | URL;
  // Of picked files: keep a copy in the page's storage. An address is always stored.
  keep?: boolean;
  // "auto" (the default): WebGPU where the browser has it, else the processor.
  device?: Device;
  arithmetic?: 'fast' | 'exact';
  // Positions a conversation may have; 0 (the default): the model's, or what fits.
  context?: number;
  // Bytes that the model may take: of the GPU's memory, or of the 4 GiB that the processor computes in. 0 (the default):
  // what there is. Experts of a mixture that find no room are read from its files as they are chosen.
  memory?: number;
  // Bytes for a mixture's experts alone; 0 (the default): what `memory` leaves.
  expertMemory?: number;
  /** Of the processor, at most 16: as many as it has without. One where the page is not isolated (web/README.md). */
  threads?: number;
  // Room for adapters (Sluice.adapters) from the start: sums of them, 0 by default, and their highest rank together, 16 by
  // default.
  adapterSlots?: number;
  adapterRank?: number;
}

export interface GenerateOptions {
  signal?: AbortSignal;
  // Tokens; 0 (the default): what the context leaves.
  maxTokens?: number;
  // Strings that end the answer.
  stop?: string[];
  // Over what the model's own files ask for; 0: always the likeliest token.
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  repeatPenalty?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  // The same seed, settings and prompt give the same answer; without one each answer draws its own.
  seed?: number;
  // Further variables of the model's chat template: { enable_thinking: true }, or { tools: [...] } as OpenAI lists them,
  // which the answer's result then may call (toolCalls).
  variables?: Record<string, unknown>;
  // A JSON Schema that the answer keeps to, behind its thought. Fails where the schema cannot be honoured.
  schema?: unknown;
  // The adapters that act on this answer, by name with their scales: { mine: 0.5 }, or {} for none. Without it all there
  // are act, with their own scales.
  adapters?: Record<string, number>;
}

// How a model is taught: docs/training.md. What is left out has a usual value.
export interface TeachOptions {
  signal?: AbortSignal; // stops it and keeps what was learnt
  name?: string; // of the adapter
  rank?: number; // 16
  rate?: number; // the learning rate, 2e-4
  warmUp?: number; // steps in which it grows
  steps?: number; // at most
  epochs?: number; // how often every example is learnt; as often as `steps` need, or 10 times
  batchTokens?: number; // of a step, 256
  maxTokens?: number; // of an example, 2,048; longer ones are left out
  learnAll?: boolean; // not answers alone
  seed?: number;
}

const kSampling: [keyof GenerateOptions, keyof Sampling][] = [
  ['temperature', 'temperature'],
  ['topK', 'top_k'],
  ['topP', 'top_p'],
  ['minP', 'min_p'],
  ['repeatPenalty', 'repeat_penalty'],
  ['presencePenalty', 'presence_penalty'],
  ['frequencyPenalty', 'frequency_penalty'],
  ['seed', 'seed'],
];
const kStopped: AnswerResult = {
  text: '',
  thinking: '',
  toolCalls: [],
  finish: 'cancelled',
  promptTokens: 0,
  reusedTokens: 0,
  computedTokens: 0,
  tokens: 0,
  promptSeconds: 0,
  answerSeconds: 0,
};
const kGiveUp = 1000; // ms that a download has to put away what it has
const drawSeed = (): number => crypto.getRandomValues(new Uint32Array(1))[0]!;

interface Waiting {
  resolve: (output: never) => void;
  reject: (error: SluiceError) => void;
  onProgress: (progress: LoadProgress) => void;
  onPiece: (piece: Piece) => void;
  onTaught: (progress: TeachProgress) => void;
}
type Listeners = Partial<Omit<Waiting, 'resolve' | 'reject'>> & { signal?: AbortSignal | undefined };

// An answer as it comes: iterate over its pieces, or await `result`. Leaving the loop stops the answer.
export class Answer extends Stream<Piece, AnswerResult> {}
// A training as it goes on. Leaving the loop stops it, as its signal does; what was learnt by then is its result.
export class Teaching extends Stream<TeachProgress, Taught> {}

export class Sluice implements LanguageModel {
  readonly facts!: ModelFacts;
  // LoRA adapters, which act on the answers that begin later.
  readonly adapters = new Adapters((operation, input) => this.request(operation, input));
  private readonly worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'sluice' });
  private readonly waiting = new Map<number, Waiting>();
  private readonly media = new Map<Blob, Promise<MediaFacts>>(); // what the worker has prepared
  private lastId = 0;
  private closed = false;
  private busy: 'answer' | 'training' | null = null;

  static async load(source: ModelSource, options: LoadOptions = {}): Promise<Sluice> {
    const model = new Sluice();
    const { device = 'auto', arithmetic = 'fast', context = 0, memory = 0, expertMemory = 0, threads = 0 } = options;
    const { onProgress, signal, adapterSlots = 0, adapterRank = 16 } = options;
    // Opening a model cannot be interrupted; its worker can.
    const giveUp = (): unknown => setTimeout(() => model.close(), kGiveUp);
    signal?.addEventListener('abort', giveUp, { once: true });
    try {
      const settings = { device, arithmetic, context, memory, expertMemory, threads, adapterSlots, adapterRank };
      const input = { source: workerSource(source, options), settings };
      const facts = await model.request('load', input, { ...(onProgress && { onProgress }), signal });
      if (signal?.aborted) throw aborted();
      return Object.assign(model, { facts });
    } catch (error) {
      model.close();
      throw signal?.aborted ? aborted() : error;
    } finally {
      signal?.removeEventListener('abort', giveUp);
    }
  }

  private constructor() {
    this.worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.hear(data);
    this.worker.onerror = (event) => {
      event.preventDefault();
      this.end(new SluiceError('closed', `the engine's worker ended: ${event.message || 'its script did not load'}`));
    };
  }

  // Plain text is gone on from as it is; messages go through the model's chat template. A stopped answer ends the loop
  // as a finished one does; its result says "cancelled".
  // What messages show is prepared once, and kept as long as prompts show it.
  generate(prompt: string | Message[], options: GenerateOptions = {}): Answer {
    const { maxTokens = 0, stop = [], variables = {}, adapters = null, schema } = options;
    const { seed: _, ...own } = this.facts.sampling;
    const sampling: Partial<Sampling> = { ...own, seed: drawSeed() };
    for (const [option, name] of kSampling) {
      const value = options[option];
      if (typeof value === 'number') sampling[name] = value;
    }
    return new Answer(async (onPiece, signal) => {
      this.begin('answer');
      try {
        const shown = typeof prompt === 'string' ? [] : prompt.flatMap(mediaOf);
        this.forgetOthers(shown);
        // At once where nothing is shown, so that a caller who stops the answer finds it begun.
        const placed = shown.length > 0 ? await this.place(prompt as Message[]) : (prompt as string | PlacedMessage[]);
        if (shown.length > 0 && signal.aborted) return kStopped;
        const input = { prompt: placed, sampling, maxTokens, stop, variables, adapters, schema };
        return await this.request('answer', input, { onPiece, signal });
      } finally {
        this.busy = null;
      }
    }, options.signal);
  }

  // Teaches the model an adapter from examples, a line for each: JSON with messages, with a prompt and its completion or
  // with a text; or question => answer. It trains where the model computes, and the model answers nothing meanwhile. The
  // adapter then acts on answers as one that was loaded does.
  teach(examples: string, { signal, name = 'taught', ...options }: TeachOptions = {}): Teaching {
    const { warmUp, batchTokens, maxTokens, learnAll, ...same } = options;
    const renamed = { warm_up: warmUp, batch_tokens: batchTokens, max_tokens: maxTokens, learn_all: learnAll };
    const input = { name: name.replaceAll('/', '-'), options: { examples, ...same, ...given(renamed) } };
    return new Teaching(async (onTaught, stop) => {
      this.begin('training');
      try {
        const taught = await this.request('teach', input, { onTaught, signal: stop });
        this.adapters.heard(taught.adapters);
        return taught;
      } finally {
        this.busy = null;
      }
    }, signal);
  }
  // What of the examples can be learnt, and why the other lines cannot.
  lookAtExamples(examples: string): Promise<ExampleCounts> {
    return this.request('lookAtExamples', { examples });
  }

  // A conversation that keeps its messages.
  chat(options: ChatOptions = {}): Chat {
    return new Chat(this, options);
  }

  // Prepares a picture or sound before a message shows it. Fails where the model does not take it.
  prepare(part: MediaPart): Promise<MediaFacts> {
    const blob = blobOf(part);
    const known = this.media.get(blob);
    if (known !== undefined) return known;
    const prepared = part.type === 'image' ? this.addPicture(blob) : this.addSound(blob);
    this.media.set(blob, prepared);
    prepared.catch(() => this.media.delete(blob)); // may be tried again
    return prepared;
  }

  tokenize(text: string): Promise<number[]> {
    return this.request('encode', { text });
  }
  detokenize(tokens: number[]): Promise<string> {
    return this.request('decode', { tokens });
  }
  // The text the model's chat template makes of messages.
  async render(messages: Message[], variables: Record<string, unknown> = {}): Promise<string> {
    return this.request('render', { messages: await this.place(messages), variables });
  }

  // The tokens that a prompt takes, about: a picture or sound counts with the tokens that mark its place.
  async measure(prompt: string | Message[], variables: Record<string, unknown> = {}): Promise<number> {
    if (typeof prompt === 'string') return (await this.tokenize(prompt)).length;
    const tokens = await this.tokenize(await this.render(prompt, variables));
    const shown = await Promise.all(prompt.flatMap(mediaOf).map((part) => this.prepare(part)));
    return shown.reduce((sum, one) => sum + one.tokens, tokens.length);
  }

  // What is computed of the last prompt and answer. Bytes for this model alone.
  saveState(): Promise<Uint8Array<ArrayBuffer>> {
    return this.request('save', {});
  }
  // Prompts that begin like the saved one go on from there. Resolves to a note when something has to be computed again.
  restoreState(state: Uint8Array<ArrayBuffer>): Promise<string> {
    return this.request('restore', { state });
  }

  stats(): Promise<Stats> {
    return this.request('stats', {});
  }

  // Ends the worker, which gives back all memory. What is waited for fails.
  close(): void {
    this.end(new SluiceError('closed', 'the model was closed'));
  }

  // The models in the page's storage, downloads that are not finished among them.
  static readonly storage = {
    list: (): Promise<StoredModel[]> => listModels(),
    delete: (id: string): Promise<void> => deleteModel(id),
    // Bytes the browser still has for this page; null where it does not say.
    left: (): Promise<number | null> => storageLeft(),
  };

  private begin(what: 'answer' | 'training'): void {
    if (this.busy === 'answer') throw new SluiceError('busy', 'an answer is being made: stop it or wait for it first');
    if (this.busy === 'training') throw new SluiceError('busy', 'the model learns: stop that or wait for it first');
    this.busy = what;
  }

  private async addPicture(picture: Blob): Promise<MediaFacts> {
    if (!this.facts.takesPictures) throw this.notTaken('pictures');
    return this.request('addPicture', { picture, maxTokens: 0 });
  }
  private async addSound(sound: Blob): Promise<MediaFacts> {
    if (!this.facts.takesSounds) throw this.notTaken('sounds');
    return this.request('addSound', { samples: await decodeSound(sound), rate: kSoundRate });
  }
  private notTaken(what: string): SluiceError {
    return new SluiceError('model', `${this.facts.name}: takes no ${what}: want a model that does, with its mmproj file if it has one`);
  }

  // Messages in which the worker's numbers stand for pictures and sounds.
  private place(messages: Message[]): Promise<PlacedMessage[]> {
    const place = async (part: Part) =>
      part.type === 'text' ? part : { type: part.type, media: (await this.prepare(part)).media };
    return Promise.all(
      messages.map(async ({ role, content }) => ({
        role,
        content: typeof content === 'string' ? content : await Promise.all(content.map(place)),
      })),
    );
  }
  private forgetOthers(shown: MediaPart[]): void {
    const blobs = new Set(shown.map(blobOf));
    for (const [blob, prepared] of this.media) {
      if (blobs.has(blob)) continue;
      this.media.delete(blob);
      void prepared.then(({ media }) => this.request('removeMedia', { media })).catch(() => {}); // it was never there
    }
  }

  private request<O extends Operation>(
    operation: O,
    input: Operations[O]['input'],
    { signal, ...listeners }: Listeners = {},
  ): Promise<Operations[O]['output']> {
    if (this.closed) return Promise.reject(new SluiceError('closed', 'the model was closed'));
    if (signal?.aborted) return Promise.reject(aborted());
    const id = ++this.lastId;
    const cancel = (): void => this.worker.postMessage({ id, operation: 'cancel' } satisfies ToWorker);
    signal?.addEventListener('abort', cancel, { once: true });
    return new Promise<Operations[O]['output']>((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, onProgress: () => {}, onPiece: () => {}, onTaught: () => {}, ...listeners });
      this.worker.postMessage({ id, operation, input } as ToWorker);
    }).finally(() => signal?.removeEventListener('abort', cancel));
  }

  private hear(message: FromWorker): void {
    const one = this.waiting.get(message.id);
    if (one === undefined) return;
    if (message.event === 'progress') return one.onProgress(message.progress);
    if (message.event === 'piece') return one.onPiece(message.piece);
    if (message.event === 'taught') return one.onTaught(message.progress);
    this.waiting.delete(message.id);
    if (message.event === 'done') one.resolve(message.output as never);
    else one.reject(fromMessage(message.error));
  }

  private end(why: SluiceError): void {
    if (this.closed) return;
    this.closed = true;
    this.worker.terminate();
    for (const one of this.waiting.values()) one.reject(why);
    this.waiting.clear();
  }
}

// Those members that have a value.
function given<T extends object>(options: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}

const blobOf = (part: MediaPart): Blob => (part.type === 'image' ? part.image : part.audio);

// The pictures and sounds that a message shows.
export function mediaOf({ content }: Message): MediaPart[] {
  return typeof content === 'string' ? [] : content.filter((part): part is MediaPart => part.type !== 'text');
}

function checkedAddress({ href, protocol }: URL): string {
  if (protocol === 'https:' || protocol === 'http:') return href;
  throw new SluiceError('network', `${href}: want an address that begins with https:// or http://`);
}

function workerSource(source: ModelSource, { sha256, projector, keep = false }: LoadOptions): WorkerSource {
  if (!isSecureContext) {
    throw new SluiceError(
      'storage',
      `${location.origin}: browsers store models for https and localhost only: want one`,
    );
  }
  if (source instanceof File) return { kind: 'files', files: [source], keep };
  if (Array.isArray(source)) return { kind: 'files', files: source, keep };
  if (typeof source === 'string' || source instanceof URL) {
    const addressOf = (url: string | URL): string => checkedAddress(new URL(url, document.baseURI));
    const towers = projector === undefined ? null : addressOf(projector);
    return { kind: 'url', url: addressOf(source), sha256: sha256 ?? null, projector: towers };
  }
  return { kind: 'stored', id: source.stored };
}
