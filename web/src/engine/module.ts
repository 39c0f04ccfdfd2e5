// The WebAssembly module: what it imports, and its exports (src/wasm/sluice.h) with TypeScript's types. Runs in a
// worker of a page, and in Node for tests.
import type { FileSource, FileTable } from './files.ts';
import type { GpuHost } from './gpu_host.ts';
import { sharedMemory } from './threads.ts';
import type { Threads } from './threads.ts';

export interface OpenOptions {
  /** Name of a GGUF file in the file table, or of a folder with config.json and safetensors. */
  model: string;
  /** Name of a GGUF file with the model's towers, where its own files have none. */
  projector?: string;
  /** Left out: "webgpu" where there is a GPU, else "cpu". */
  device?: 'webgpu' | 'cpu' | 'reference';
  arithmetic?: 'fast' | 'exact';
  cache?: 'f32' | 'f16' | 'bf16';
  /** Positions a conversation may have; left out: the model's, or what fits. */
  context?: number;
  /** Bytes that the model may take where it computes, on the GPU or in the module's memory; left out: what there is. */
  memory?: number;
  /** Bytes for experts, of a mixture that has them: those beyond are read from the files as they are chosen. */
  expert_memory?: number;
  /** Sums of adapters for which there is room, 0 without, and their highest rank, 16 without. */
  adapter_slots?: number;
  adapter_rank?: number;
}

/** One of the adapters that act on the answers of a model. */
export interface AdapterFacts {
  name: string;
  scale: number;
  rank: number;
  /** How many of the model's weights it changes. */
  weights: number;
}

export interface ModelFacts {
  name: string;
  device: string;
  /** "SIMD128, 1 thread", or the adapter. */
  device_description: string;
  numerics_id: string;
  vocabulary: number;
  context: number;
  /** Tokens that end an answer. */
  ends: number[];
  /** Whether render() can be called. */
  has_chat_template: boolean;
  takes_pictures: boolean;
  takes_sounds: boolean;
  /** What the model's own files ask for. */
  sampling: Sampling;
}

/** What is known of a model before it is opened. */
export interface Headers {
  name: string;
  family: string;
  parameters: number;
}

/** Bytes on the GPU, and of how many; 0 of 0 on the processor. */
export interface LoadedBytes {
  bytes: number;
  of: number;
}

/** Under the names of src/engine/sampling_json.h. */
export interface Sampling {
  /** 0: always the likeliest token. */
  temperature: number;
  /** 0: all. */
  top_k: number;
  top_p: number;
  min_p: number;
  repeat_penalty: number;
  presence_penalty: number;
  frequency_penalty: number;
  /** Tokens that penalties look back on. */
  repeat_last_n: number;
  seed: number;
}

/** A decoded picture: RGBA, row by row from the top. */
export interface Pixels {
  width: number;
  height: number;
  data: Uint8Array | Uint8ClampedArray;
}

/** What was prepared: the numbers by which turns and requests name it, and the tokens that it takes. */
export interface Prepared {
  /** One, but for films: one for all frames that the model takes at once. */
  media: number[];
  rows: number;
}

/** A part of a message that shows something. */
export type Part = { type: 'text'; text: string } | { type: 'image' | 'audio'; media: number };

export interface ChatRequest {
  messages: readonly unknown[];
  /** Further variables of the template: {"enable_thinking": true}. */
  extra?: Record<string, unknown> | null;
}

/** Sampling that is left out: always the likeliest token, without penalties. */
export interface AnswerRequest extends Partial<Sampling> {
  /** Appended to the sequence. */
  prompt: readonly number[];
  /** Pictures and sounds that it shows, in their order; it has as many tokens for each as rows. */
  media?: readonly number[];
  max_tokens?: number;
  /** Tokens that end the answer. */
  stop_tokens?: readonly number[];
  /** A kept sequence to go on from. */
  sequence?: number;
  keep_sequence?: boolean;
  /** Ascending indices into `prompt` whose logits are wanted. */
  logits_at?: readonly number[];
  /** Ascending indices into `prompt`: what is computed up to there serves later requests that begin alike. */
  message_ends?: readonly number[];
  /** As Turn has them. */
  adapters?: Record<string, number>;
}

/** A turn of the page's conversation. Sampling that is left out: always the likeliest token, without penalties. */
export interface Turn extends Partial<Sampling> {
  /** Each with a text or Parts as its content. For the chat template, with further variables of it; or text that no template renders. */
  messages?: readonly unknown[];
  variables?: Record<string, unknown> | null;
  prompt?: string;
  /** Strings that end the answer. */
  stop?: readonly string[];
  /** 0: what the context leaves. */
  max_tokens?: number;
  /** The adapters that act, by name with their scales; left out: all there are, with their own. */
  adapters?: Record<string, number>;
  /** A JSON Schema that the answer keeps to. */
  schema?: unknown;
}

/** Examples to learn, and how: docs/training.md. All but the examples may be left out. */
export interface TrainOptions {
  /** A line for each: JSON with messages, a prompt and its completion or a text; or question => answer. */
  examples: string;
  /** Of an example, at most; 2,048 without. Longer ones are left out. */
  max_tokens?: number;
  /** All tokens are learnt, not those of answers alone. */
  learn_all?: boolean;
  /** Of the adapter; 16 without. Its product is multiplied by alpha / rank, 2 without. */
  rank?: number;
  alpha?: number;
  /** The learning rate, 2e-4 without: grows for `warm_up` steps, then falls to 0 as half a cosine. */
  rate?: number;
  warm_up?: number;
  /** At most; 0: as the epochs have. */
  steps?: number;
  /** How often every example is learnt; without it as often as `steps` need, or 10 times. */
  epochs?: number;
  /** Tokens of a step, 256 without, and those of them that are computed at once, 512 without. */
  batch_tokens?: number;
  part_tokens?: number;
  seed?: number;
  arithmetic?: 'fast' | 'exact';
}

/** What lines of examples hold. */
export interface ExampleCounts {
  examples: number;
  /** Of all examples; of a training those of all steps. */
  tokens: number;
  /** A sentence for each line that cannot be learnt. */
  faults: string[];
}
export interface TrainPlan extends ExampleCounts {
  steps: number;
}

/** A step that has ended. */
export interface TrainNews {
  finish: 'running' | 'done' | 'stopped';
  /** From 1; 0: none has ended. */
  step: number;
  /** Mean of the targets, before the step. */
  loss: number;
  rate: number;
  gradient_norm: number;
  tokens: number;
}

/** The files of a trained adapter: the two of a PEFT folder, and llama.cpp's. */
export type TrainedFile = 'adapter_config.json' | 'adapter_model.safetensors' | 'adapter.gguf';

/** What is new of a turn, and the counts of all of it. */
export interface TurnNews {
  /** Whole characters, thinking apart from the answer. */
  text: string;
  thinking: string;
  /** Complete ones; looked for where `variables` has `tools`. */
  tool_calls: { name: string; arguments: Record<string, unknown> }[];
  finish: 'running' | 'stop' | 'length' | 'cancelled';
  prompt_tokens: number;
  /** Of the prompt's tokens: taken from what was computed before. */
  reused_tokens: number;
  computed_tokens: number;
  answer_tokens: number;
  /** To the first token, and from there to the last. */
  prompt_seconds: number;
  answer_seconds: number;
}

export interface Progress {
  finish: 'running' | 'stop_token' | 'length' | 'cancelled';
  sequence: number;
  /** Those that are new. */
  tokens: number[];
  prompt_tokens: number;
  /** Of the prompt's tokens: taken from what was computed before. */
  reused_tokens: number;
  computed_prompt_tokens: number;
}

/** Experts that are read from the files as they are chosen. */
export interface ExpertStats {
  /** How many have room at once, what one takes of the file in bytes, how many there are. */
  slots: number;
  slot_bytes: number;
  experts: number;
  /** Of experts by steps, and how many of them had to be read first. */
  uses: number;
  misses: number;
  read_bytes: number;
}

export interface ModelStats {
  prompt_rows: number;
  decode_rows: number;
  steps: number;
  /** Kernels started for a token, and pipelines made so far; 0 on the processor. */
  dispatches: number;
  pipelines: number;
  /** What the engine's budget holds, in bytes. */
  memory: { domain: string; purpose: string; bytes: number; peak: number }[];
  /** Null: all there are lie in memory, or the model has none. */
  experts: ExpertStats | null;
  /** Bytes of the module's memory. */
  heap: number;
}

type Address = number;
/** src/wasm/sluice.h */
interface Exports {
  /** Where the host did not make it. */
  memory?: WebAssembly.Memory;
  __tls_size: WebAssembly.Global<'i32'>;
  __tls_align: WebAssembly.Global<'i32'>;
  _initialize(): void;
  sluice_expect_threads(threads: number): void;
  sluice_allocate(bytes: number): Address;
  sluice_free(at: Address): void;
  sluice_add_file(path: Address, path_bytes: number, number: number, size: number): void;
  sluice_remove_file(path: Address, path_bytes: number): void;
  sluice_reply(): Address;
  sluice_reply_bytes(): number;
  sluice_inspect(options: Address, bytes: number): number;
  sluice_open(options: Address, bytes: number): Address;
  sluice_load(model: Address): number;
  sluice_close(model: Address): void;
  sluice_encode(model: Address, text: Address, bytes: number): number;
  sluice_decode(model: Address, tokens: Address, count: number): number;
  sluice_render(model: Address, chat: Address, bytes: number): number;
  sluice_add_picture(model: Address, pixels: Address, bytes: number, width: number, height: number, rows: number): number;
  sluice_add_film(model: Address, pixels: Address, bytes: number, width: number, height: number, frames: number): number;
  sluice_add_sound(model: Address, samples: Address, count: number, rate: number): number;
  sluice_remove_media(model: Address, number: number): void;
  sluice_adapters(model: Address, change: Address, bytes: number): number;
  sluice_begin(model: Address, turn: Address, bytes: number): number;
  sluice_go_on(model: Address): number;
  sluice_sequence(model: Address): number;
  sluice_adopt(model: Address, sequence: number): void;
  sluice_submit(model: Address, request: Address, bytes: number): number;
  sluice_step(model: Address): number;
  sluice_cancel(model: Address): void;
  sluice_collect(model: Address): number;
  sluice_logits(model: Address): number;
  sluice_stats(model: Address): number;
  sluice_examples(model: Address, options: Address, bytes: number): number;
  sluice_train(model: Address, options: Address, bytes: number): number;
  sluice_train_on(model: Address): number;
  sluice_stop_training(model: Address): void;
  sluice_trained(model: Address, name: Address, bytes: number): number;
  sluice_end_training(model: Address): void;
  sluice_save(model: Address, sequence: number): number;
  sluice_restore(model: Address, state: Address, bytes: number): number;
}
/** Exports that take a model, then numbers, and fail with 0. */
type ModelCall =
  | 'sluice_load' | 'sluice_go_on' | 'sluice_collect' | 'sluice_logits' | 'sluice_stats' | 'sluice_save' | 'sluice_train_on';
/** Exports that take a model, then bytes. */
type ModelBytesCall =
  | 'sluice_encode' | 'sluice_decode' | 'sluice_render' | 'sluice_adapters' | 'sluice_begin' | 'sluice_submit' | 'sluice_restore'
  | 'sluice_examples' | 'sluice_train' | 'sluice_trained';

const kStepInFlight = 1, kInFlight = 2;

/** What the engine says of a fault in one sentence. */
export class EngineError extends Error {
  override name = 'EngineError';
}

// What wasi-libc asks a host for: a clock, a place for the words of a failed check, and no files.
function wasiImports(memory: () => WebAssembly.Memory): Record<string, (...args: never[]) => number> {
  const EBADF = 8;
  const kNanosecondsInMillisecond = 1e6;
  const view = (): DataView => new DataView(memory().buffer);
  return {
    environ_sizes_get(count: Address, bytes: Address): number {
      view().setUint32(count, 0, true);
      view().setUint32(bytes, 0, true);
      return 0;
    },
    environ_get: () => 0,
    clock_time_get(id: number, _precision: bigint, time: Address): number {
      const milliseconds = id === 0 ? Date.now() : performance.now();
      view().setBigUint64(time, BigInt(Math.round(milliseconds * kNanosecondsInMillisecond)), true);
      return 0;
    },
    fd_write(_descriptor: number, parts: Address, count: number, written: Address): number {
      let text = '', bytes = 0;
      for (let i = 0; i < count; ++i) {
        const at = view().getUint32(parts + 8 * i, true), size = view().getUint32(parts + 8 * i + 4, true);
        text += new TextDecoder().decode(new Uint8Array(memory().buffer, at, size).slice());
        bytes += size;
      }
      console.error(text.trimEnd());
      view().setUint32(written, bytes, true);
      return 0;
    },
    fd_close: () => EBADF,
    fd_seek: () => EBADF,
    fd_fdstat_get: () => EBADF,
    proc_exit(status: number): number {
      throw new EngineError(`the module left with status ${status}`);
    },
  };
}

export interface EngineHost {
  /** Null: models run on the processor. To be replaced once it has failed. */
  gpu: GpuHost | null;
  /** What open() and addAdapter() find; it may change between two calls. */
  files: FileTable;
}

// The files that the module knows, by number. One that it has opened is read until it says that it is done with it,
// also when its name is gone.
class OpenFiles {
  readonly #sources = new Map<number, FileSource>();
  readonly #names = new Map<string, number>();
  #last = 0;

  /** Makes the module know those of the table; `add` and `remove` tell it. */
  follow(table: FileTable, add: (name: string, number: number, size: number) => void, remove: (name: string) => void): void {
    for (const [name, number] of this.#names) {
      if (table.get(name) === this.#sources.get(number)) continue;
      this.#names.delete(name);
      remove(name);
    }
    for (const [name, source] of table) {
      if (this.#names.has(name)) continue;
      this.#names.set(name, ++this.#last);
      this.#sources.set(this.#last, source);
      add(name, this.#last, source.size);
    }
  }
  /** How many bytes of `target` were read: fewer where the file was changed, removed or closed meanwhile. */
  read(number: number, offset: number, target: Uint8Array<ArrayBuffer>): number {
    try {
      return this.#sources.get(number)?.read(offset, target) ?? 0;
    } catch {
      return 0;
    }
  }
  close(number: number): void {
    this.#sources.delete(number);
  }
}

// Those of the host that there is at the time of a call; without one the module asks for its adapter and no more.
function gpuImports(host: EngineHost, memory: () => WebAssembly.Memory): Record<string, (...args: number[]) => number | void> {
  const kNames = ['failure', 'buffer', 'drop_buffer', 'pipeline', 'pipelines', 'bind', 'drop_binding', 'upload', 'submit', 'poll'];
  let of: GpuHost | null = null, imports: Record<string, (...args: number[]) => number | void> = {};
  const call = (name: string) => (...args: number[]): number | void => {
    if (of !== host.gpu) imports = host.gpu?.imports(memory) ?? {};
    of = host.gpu;
    return imports[name]?.(...args) ?? 0;
  };
  return Object.fromEntries(['adapter', ...kNames].map((name) => [name, call(name)]));
}

const kThreadStackBytes = 2 ** 20;

export class EngineModule {
  readonly exports: Exports;
  readonly memory: WebAssembly.Memory;
  readonly #host: EngineHost;
  readonly #files: OpenFiles;

  /** `threads`: of sluice_threads.wasm, and of no other. Fails with the browser's sentence where it lacks an instruction
   * or does not share memory. */
  static async load(wasm: BufferSource | Response, host: EngineHost, threads: Threads | null = null): Promise<EngineModule> {
    let memory = threads && sharedMemory();
    const held = (): WebAssembly.Memory => {
      if (memory === null) throw new EngineError('the module called before it was there');
      return memory;
    };
    const bytes = (at: Address, size: number): Uint8Array<ArrayBuffer> =>
      new Uint8Array(held().buffer as ArrayBuffer, at >>> 0, size);
    const files = new OpenFiles();
    const imports = {
      gpu: gpuImports(host, held),
      wasi_snapshot_preview1: wasiImports(held),
      files: {
        read: (number: number, offset: number, at: Address, size: number) => files.read(number, offset, bytes(at, size)),
        close: (number: number) => files.close(number),
      },
      ...(memory && { env: { memory } }),
    } as unknown as WebAssembly.Imports;
    const module = await (wasm instanceof Response ? WebAssembly.compileStreaming(wasm) : WebAssembly.compile(wasm));
    const exports = (await WebAssembly.instantiate(module, imports)).exports as unknown as Exports;
    memory ??= exports.memory!;
    exports._initialize();
    const loaded = new EngineModule(exports, memory, host, files);
    if (threads) await loaded.startThreads(module, threads);
    return loaded;
  }

  private constructor(exports: Exports, memory: WebAssembly.Memory, host: EngineHost, files: OpenFiles) {
    this.exports = exports;
    this.memory = memory;
    this.#host = host;
    this.#files = files;
  }

  private async startThreads(module: WebAssembly.Module, { count, start }: Threads): Promise<void> {
    const localBytes = this.exports.__tls_size.value + this.exports.__tls_align.value;
    this.exports.sluice_expect_threads(count);
    const started: Promise<void>[] = [];
    for (let thread = 1; thread < count; ++thread) {
      const stack = this.allocate(kThreadStackBytes + localBytes);
      const stackEnd = (stack + kThreadStackBytes) & ~15;
      const align = Math.max(this.exports.__tls_align.value, 1);
      started.push(start({ module, memory: this.memory, thread, stackEnd, locals: Math.ceil(stackEnd / align) * align }));
    }
    await Promise.all(started);
  }

  /** Bytes of the module's memory, which never shrinks. */
  get heapBytes(): number {
    return this.memory.buffer.byteLength;
  }

  /** What the headers of a model's files say. Fails with one sentence where they are no model's. */
  inspect(options: Pick<OpenOptions, 'model' | 'projector'>): Headers {
    this.followFiles();
    const found = this.with(JSON.stringify(options), (at, size) => this.exports.sluice_inspect(at, size));
    if (found === 0) throw new EngineError(this.replyText());
    return JSON.parse(this.replyText()) as Headers;
  }

  /** Fails with one sentence where there is no such model, or no room for it. */
  async open(options: OpenOptions, onProgress: (loaded: LoadedBytes) => void = () => {}): Promise<EngineModel> {
    this.followFiles();
    const model = this.with(JSON.stringify(options), (at, size) => this.exports.sluice_open(at, size));
    if (model === 0) throw new EngineError(this.replyText());
    const opened = new EngineModel(this, model, JSON.parse(this.replyText()) as ModelFacts);
    try {
      await opened.load(onProgress);
    } catch (error) {
      opened.close();
      throw error;
    }
    return opened;
  }

  get gpu(): GpuHost | null {
    return this.#host.gpu;
  }
  /** Makes the module know the files that the host has now. */
  followFiles(): void {
    this.#files.follow(this.#host.files, (name, number, size) => {
      this.with(name, (at, bytes) => this.exports.sluice_add_file(at, bytes, number, size));
    }, (name) => {
      this.with(name, (at, bytes) => this.exports.sluice_remove_file(at, bytes));
    });
  }

  bytes(at: Address, size: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.memory.buffer as ArrayBuffer, at >>> 0, size);
  }
  /** Fails where there is no room. */
  allocate(bytes: number): Address {
    const at = this.exports.sluice_allocate(bytes) >>> 0;
    if (at === 0) throw new EngineError(`the module has no room for ${bytes} bytes`);
    return at;
  }
  /** Calls f(address, bytes) with a copy of the text or bytes in the module's memory. */
  with<T>(data: string | Uint8Array | Uint8ClampedArray, f: (at: Address, bytes: number) => T): T {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
    const at = this.allocate(Math.max(bytes.length, 1));
    this.bytes(at, bytes.length).set(bytes);
    try {
      return f(at, bytes.length);
    } finally {
      this.exports.sluice_free(at);
    }
  }
  reply(): Uint8Array<ArrayBuffer> {
    return this.bytes(this.exports.sluice_reply(), this.exports.sluice_reply_bytes() >>> 0).slice();
  }
  replyText(): string {
    return new TextDecoder().decode(this.reply());
  }
}

export class EngineModel {
  readonly facts: ModelFacts;
  readonly #module: EngineModule;
  #handle: Address;

  constructor(module: EngineModule, handle: Address, facts: ModelFacts) {
    this.#module = module;
    this.#handle = handle;
    this.facts = facts;
  }

  /** Brings the model to the GPU, and opens it again after a training; open() and changes of adapters call it. */
  async load(onProgress: (loaded: LoadedBytes) => void = () => {}): Promise<void> {
    for (let settled = !this.#onGpu; ; ) {
      const loaded = this.#json<LoadedBytes>('sluice_load');
      const done = loaded.bytes === loaded.of;
      onProgress(loaded);
      if (done && settled) return;
      settled = done;
      await this.#module.gpu?.settle();
    }
  }

  encode(text: string): number[] {
    this.#callWith('sluice_encode', text);
    return Array.from(new Int32Array(this.#module.reply().buffer));
  }
  decode(tokens: readonly number[]): string {
    const bytes = new Uint8Array(Int32Array.from(tokens).buffer);
    this.#module.with(bytes, (at) => this.#check(this.#module.exports.sluice_decode(this.#handle, at, tokens.length)));
    return this.#module.replyText();
  }
  render(chat: ChatRequest): string {
    this.#callWith('sluice_render', JSON.stringify(chat));
    return this.#module.replyText();
  }

  /** Prepares a picture for the model's tower. `maxRows`: tokens that it may take; 0: the model's own number. */
  addPicture({ width, height, data }: Pixels, maxRows = 0): Prepared {
    const { exports } = this.#module;
    return this.#prepared(data, (at, bytes) => exports.sluice_add_picture(this.#handle, at, bytes, width, height, maxRows));
  }
  /** Frames of one size. */
  addFilm(frames: readonly Pixels[]): Prepared {
    const { exports } = this.#module;
    const { width, height } = frames[0]!;
    const all = new Uint8Array(frames.reduce((sum, { data }) => sum + data.length, 0));
    frames.reduce((at, { data }) => (all.set(data, at), at + data.length), 0);
    return this.#prepared(all, (at, bytes) => exports.sluice_add_film(this.#handle, at, bytes, width, height, frames.length));
  }
  /** One channel; towers take 16,000 samples a second. */
  addSound(samples: Float32Array, rate: number): Prepared {
    const { exports } = this.#module;
    const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
    return this.#prepared(bytes, (at) => exports.sluice_add_sound(this.#handle, at, samples.length, rate));
  }
  /** An answer under way keeps it. */
  removeMedia(number: number): void {
    this.#module.exports.sluice_remove_media(this.#handle, number);
  }

  /** Adds the adapter of a GGUF file or a folder of PEFT or MLX in the file table, for answers that begin later. Where open()
   * left no room for it the engine makes some, while no answer runs, and forgets its sequences. */
  addAdapter(path: string, scale = 1): Promise<AdapterFacts[]> {
    this.#module.followFiles();
    return this.#changeAdapters({ add: path, scale });
  }
  scaleAdapter(name: string, scale: number): Promise<AdapterFacts[]> {
    return this.#changeAdapters({ rescale: name, scale });
  }
  dropAdapter(name: string): Promise<AdapterFacts[]> {
    return this.#changeAdapters({ drop: name });
  }
  get adapters(): AdapterFacts[] {
    return this.#adapters({});
  }

  /** What of the examples can be learnt. */
  lookAtExamples(options: Pick<TrainOptions, 'examples' | 'max_tokens' | 'learn_all'>): ExampleCounts {
    this.#callWith('sluice_examples', JSON.stringify(options));
    return JSON.parse(this.#module.replyText()) as ExampleCounts;
  }
  /** Begins to train an adapter. The caller then calls trainOn() until it has finished, takes the files, and calls
   * endTraining(), also after a failure. The engine answers nothing meanwhile, and forgets its sequences. */
  train(options: TrainOptions): TrainPlan {
    this.#callWith('sluice_train', JSON.stringify(options));
    return JSON.parse(this.#module.replyText()) as TrainPlan;
  }
  /** A step that has ended; null, after a while, where there is more to compute of it. After a failure the adapter is
   * that of the last step. */
  async trainOn(): Promise<TrainNews | null> {
    if (this.#call('sluice_train_on') !== kInFlight) return JSON.parse(this.#module.replyText()) as TrainNews;
    await this.#inFlight();
    return null;
  }
  /** Gives up the step at hand; trainOn() soon says "stopped". */
  stopTraining(): void {
    this.#module.exports.sluice_stop_training(this.#handle);
  }
  /** Of the adapter as it is by now. */
  trainedFile(name: TrainedFile): Uint8Array<ArrayBuffer> {
    this.#callWith('sluice_trained', name);
    return this.#module.reply();
  }
  /** Gives the training's memory back; load() then opens the model again. */
  endTraining(): void {
    this.#module.exports.sluice_end_training(this.#handle);
  }

  /** Begins the next answer of the page's conversation; the caller then calls goOn() until it has finished. */
  begin(turn: Turn): void {
    this.#callWith('sluice_begin', JSON.stringify(turn));
  }
  /** What is new; null, after a while, where the device still computes. Throws an EngineError where the answer failed,
   * which then is over. */
  async goOn(): Promise<TurnNews | null> {
    if (this.#call('sluice_go_on') !== kInFlight) return JSON.parse(this.#module.replyText()) as TurnNews;
    await this.#inFlight();
    return null;
  }
  /** The conversation's kept sequence, for saveState(); 0: it has none. Set: the next answer goes on from that one. */
  get sequence(): number {
    return this.#module.exports.sluice_sequence(this.#handle) >>> 0;
  }
  set sequence(sequence: number) {
    this.#module.exports.sluice_adopt(this.#handle, sequence);
  }

  /** Of the engine itself, without text: begins an answer, one at a time; the caller then steps and collects until it has finished. */
  submit(request: AnswerRequest): void {
    this.#callWith('sluice_submit', JSON.stringify(request));
  }
  /** One turn of the engine; resolves when there may be something to collect. */
  async step(): Promise<void> {
    if (this.#module.exports.sluice_step(this.#handle) === kStepInFlight) await this.#inFlight();
  }
  /** What is new. Throws an EngineError where the answer failed, which then is over. */
  collect(): Progress {
    return this.#json<Progress>('sluice_collect');
  }
  /** The rows of logits that the last collect() brought. */
  logits(): Float32Array {
    this.#call('sluice_logits');
    return new Float32Array(this.#module.reply().buffer);
  }
  /** Ends the answer after the step at hand; what was generated stands. */
  cancel(): void {
    this.#module.exports.sluice_cancel(this.#handle);
  }
  /** The whole answer, and the logits that were asked for. */
  async run(request: AnswerRequest): Promise<{ tokens: number[]; logits: Float32Array; progress: Progress }> {
    this.submit(request);
    const tokens: number[] = [], parts: Float32Array[] = [];
    for (;;) {
      await this.step();
      const progress = this.collect();
      tokens.push(...progress.tokens);
      parts.push(this.logits());
      if (progress.finish === 'running') continue;
      const logits = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
      parts.reduce((at, part) => (logits.set(part, at), at + part.length), 0);
      return { tokens, logits, progress };
    }
  }

  /** A kept sequence with all that is computed of it by now. */
  async saveState(sequence: number): Promise<Uint8Array<ArrayBuffer>> {
    while (this.#call('sluice_save', sequence) === kInFlight) await this.#inFlight();
    return this.#module.reply();
  }
  /** The sequence of a saved state, kept; `note` says what of it has to be computed again. */
  restoreState(state: Uint8Array): { sequence: number; tokens: number[]; note: string } {
    this.#callWith('sluice_restore', state);
    return JSON.parse(this.#module.replyText()) as { sequence: number; tokens: number[]; note: string };
  }

  stats(): ModelStats {
    return { ...this.#json<ModelStats>('sluice_stats'), heap: this.#module.heapBytes };
  }
  close(): void {
    if (this.#handle !== 0) this.#module.exports.sluice_close(this.#handle);
    this.#handle = 0;
  }

  #check(ok: number): void {
    if (ok === 0) throw new EngineError(this.#module.replyText());
  }
  #call(name: ModelCall, ...numbers: number[]): number {
    const call = this.#module.exports[name] as (model: Address, ...numbers: number[]) => number;
    const result = call(this.#handle, ...numbers);
    this.#check(result);
    return result;
  }
  #callWith(name: ModelBytesCall, data: string | Uint8Array): void {
    this.#module.with(data, (at, size) => this.#check(this.#module.exports[name](this.#handle, at, size)));
  }
  #adapters(change: Record<string, unknown>): AdapterFacts[] {
    this.#callWith('sluice_adapters', JSON.stringify(change));
    return JSON.parse(this.#module.replyText()) as AdapterFacts[];
  }
  async #changeAdapters(change: Record<string, unknown>): Promise<AdapterFacts[]> {
    try {
      return this.#adapters(change);
    } finally {
      await this.load(); // the engine may have been opened again, also where the change was refused
    }
  }
  #prepared(data: Uint8Array | Uint8ClampedArray, add: (at: Address, bytes: number) => number): Prepared {
    this.#module.with(data, (at, bytes) => this.#check(add(at, bytes)));
    return JSON.parse(this.#module.replyText()) as Prepared;
  }
  #json<T>(name: ModelCall): T {
    this.#call(name);
    return JSON.parse(this.#module.replyText()) as T;
  }
  get #onGpu(): boolean {
    return this.facts.device === 'webgpu';
  }
  async #inFlight(): Promise<void> {
    if (this.#onGpu && this.#module.gpu) await this.#module.gpu.wait();
    else await new Promise((resolve) => setTimeout(resolve));
  }
}
