// The engine's worker: opens one model and answers the page's requests (protocol.ts), one answer at a time.
import { copyFiles } from './copy.ts';
import { Conversation } from './conversation.ts';
import { download } from './download.ts';
import { BlobFile } from './engine/files.ts';
import type { FileSource, FileTable } from './engine/files.ts';
import { GpuHost } from './engine/gpu_host.ts';
import { EngineModule } from './engine/module.ts';
import type { EngineHost, EngineModel } from './engine/module.ts';
import type { Threads, ThreadWork } from './engine/threads.ts';
import { aborted, SluiceError, toMessage } from './errors.ts';
import { decodePicture } from './pixels.ts';
import type {
  AdapterFacts,
  EngineSettings,
  FromWorker,
  LoadProgress,
  ModelFacts,
  Operation,
  Operations,
  TeachProgress,
  ToWorker,
  WorkerSource,
} from './protocol.ts';
import { deleteModel, ModelFolder, shareLock, towersOf } from './storage.ts';
import { openStored } from './stored_file.ts';
import { Training } from './training.ts';
import wasmUrl from '@sluice/wasm?url';
import threadsWasmUrl from '@sluice/wasm-threads?url';

const post = (message: FromWorker, transfer: Transferable[] = []): void =>
  (postMessage as (message: FromWorker, transfer: Transferable[]) => void)(message, transfer);

interface Loaded {
  model: EngineModel;
  host: EngineHost;
  conversation: Conversation;
  gpu: GpuHost | null;
  whyNotGpu: string | null;
}
let loaded: Loaded | null = null;
let adapters = 0; // added so far
const kMostThreads = 16;
const running = new Map<number, AbortController>();

// Lets the page's messages in, a cancellation among them.
const channel = new MessageChannel();
function turnOfEvents(): Promise<void> {
  return new Promise((resolve) => {
    channel.port1.onmessage = () => resolve();
    channel.port2.postMessage(null);
  });
}

type Context = { id: number; signal: AbortSignal };
type Handlers = {
  [O in Operation]: (input: Operations[O]['input'], context: Context) => Promise<Operations[O]['output']>;
};

const opened = (): Loaded => {
  if (loaded === null) throw new SluiceError('closed', 'no model is loaded: load one first');
  return loaded;
};

const handlers: Handlers = {
  async load({ source, settings }, { id, signal }) {
    const onProgress = (progress: LoadProgress): void => post({ id, event: 'progress', progress });
    const { storedId, files } = await gather(source, onProgress, signal);
    onProgress({ stage: 'opening', loaded: 0, total: null });
    loaded = await openModel(files, settings);
    return factsOf(storedId, loaded);
  },
  answer: (input, { id, signal }) =>
    opened().conversation.answer(input, signal, (piece) => post({ id, event: 'piece', piece })),
  async addPicture({ picture, maxTokens }) {
    const { model } = opened();
    const { media, rows } = model.addPicture(await decodePicture(picture), maxTokens);
    return { media: media[0]!, tokens: rows, seconds: 0 };
  },
  async addSound({ samples, rate }) {
    const { media, rows } = opened().model.addSound(samples, rate);
    return { media: media[0]!, tokens: rows, seconds: samples.length / rate };
  },
  async removeMedia({ media }) {
    opened().model.removeMedia(media);
    return null;
  },
  addAdapter: ({ name, files, scale }) => addAdapter(opened(), name, files, scale),
  scaleAdapter: async ({ name, scale }) => opened().model.scaleAdapter(name, scale),
  dropAdapter: async ({ name }) => opened().model.dropAdapter(name),
  lookAtExamples: async (options) => opened().model.lookAtExamples(options),
  teach({ name, options }, { id, signal }) {
    const onProgress = (progress: TeachProgress): void => post({ id, event: 'taught', progress });
    const add = (files: File[]): Promise<AdapterFacts[]> => addAdapter(opened(), name, files, 1);
    return new Training(opened().model, { turn: turnOfEvents, onProgress, add }).teach(name, options, signal);
  },
  encode: async ({ text }) => opened().model.encode(text),
  decode: async ({ tokens }) => opened().model.decode(tokens),
  render: async ({ messages, variables }) => opened().model.render({ messages, extra: variables }),
  save: async () => opened().conversation.saveState(),
  restore: async ({ state }) => opened().conversation.restoreState(state),
  async stats() {
    const stats = opened().model.stats();
    return {
      heapBytes: stats.heap,
      gpuBytes: stats.memory.filter(({ domain }) => domain === 'device').reduce((sum, { bytes }) => sum + bytes, 0),
      promptTokens: stats.prompt_rows,
      answerTokens: stats.decode_rows,
      dispatches: stats.dispatches,
      experts: stats.experts && {
        inMemory: stats.experts.slots,
        all: stats.experts.experts,
        uses: stats.experts.uses,
        misses: stats.experts.misses,
        readBytes: stats.experts.read_bytes,
      },
    };
  },
};

// The engine knows the files by their names until it has opened them.
async function addAdapter({ model, host }: Loaded, name: string, files: File[], scale: number): Promise<AdapterFacts[]> {
  const path = `adapters/${++adapters}/${name}`;
  const before = host.files;
  const table = new Map<string, FileSource>(before);
  for (const file of files) table.set(files.length === 1 ? path : `${path}/${file.name}`, new BlobFile(file));
  host.files = table;
  try {
    return await model.addAdapter(path, scale);
  } finally {
    host.files = before;
  }
}

// Fails with the engine's sentence where the files are no model that it runs. Reads their headers alone.
async function checkHeaders(files: FileTable): Promise<void> {
  const engine = await EngineModule.load(await fetch(wasmUrl), { gpu: null, files });
  engine.inspect(pathsOf(files));
}

// WebGPU where it is wanted and computes faster than the processor; why not is said, never kept silent.
async function openModel(files: FileTable, settings: EngineSettings): Promise<Loaded> {
  if (settings.device === 'cpu') return openOn(null, null, files, settings);
  const software =
    settings.device === 'auto' && (await navigator.gpu?.requestAdapter())?.info.isFallbackAdapter === true;
  const gpu = software ? null : await GpuHost.create();
  const why = software ? 'WebGPU would compute on the processor here' : GpuHost.missing;
  if (settings.device === 'auto') {
    if (gpu === null) return openOn(null, why, files, settings);
    try {
      return await openOn(gpu, null, files, settings);
    } catch (error) {
      gpu.close();
      return openOn(null, error instanceof Error ? error.message : String(error), files, settings);
    }
  }
  if (gpu === null) throw new SluiceError('model', `${why}: want a browser with WebGPU, or the processor`);
  return openOn(gpu, null, files, settings);
}

function startThread(work: ThreadWork): Promise<void> {
  const worker = new Worker(new URL('./engine/thread_worker.ts', import.meta.url), { type: 'module' });
  worker.postMessage(work);
  return new Promise((resolve) => {
    worker.onmessage = () => resolve();
    worker.onerror = () => resolve(); // the other threads do its part
  });
}

// What computes on the processor: on several threads where the page is isolated, so that they may share memory.
async function loadForProcessor(host: EngineHost, threads: number): Promise<EngineModule> {
  const count = Math.min(threads || navigator.hardwareConcurrency, kMostThreads);
  if (crossOriginIsolated && count > 1) {
    try {
      return await EngineModule.load(await fetch(threadsWasmUrl), host, { count, start: startThread } satisfies Threads);
    } catch (error) {
      console.warn('the processor computes on one thread:', error); // a phone may have no room for the addresses
    }
  }
  return EngineModule.load(await fetch(wasmUrl), host);
}

async function openOn(
  gpu: GpuHost | null,
  whyNotGpu: string | null,
  files: FileTable,
  { arithmetic, context, memory, expertMemory, adapterSlots, adapterRank, threads }: EngineSettings,
): Promise<Loaded> {
  const host: EngineHost = { gpu, files };
  const engine = gpu ? await EngineModule.load(await fetch(wasmUrl), host) : await loadForProcessor(host, threads);
  const device = gpu ? 'webgpu' : 'cpu';
  const room = { adapter_slots: adapterSlots, adapter_rank: adapterRank };
  const given = { device, arithmetic, context, memory, expert_memory: expertMemory, ...room } as const;
  const model = await engine.open({ ...pathsOf(files), ...given });
  return { model, host, conversation: new Conversation(model, turnOfEvents), gpu, whyNotGpu };
}

interface Gathered {
  storedId: string | null;
  files: FileTable;
}

async function gather(
  source: WorkerSource,
  onProgress: (progress: LoadProgress) => void,
  signal: AbortSignal,
): Promise<Gathered> {
  switch (source.kind) {
    case 'files': {
      const files = tableOf(source.files.map((file) => [file.name, new BlobFile(file)]));
      onProgress({ stage: 'checking', loaded: 0, total: null });
      await checkHeaders(files);
      return source.keep ? openFolder(await copyFiles(source.files, onProgress, signal)) : { storedId: null, files };
    }
    case 'url': {
      const { url, sha256, projector } = source;
      onProgress({ stage: 'connecting', loaded: 0, total: null });
      const id = await download({ url, sha256, onProgress, signal });
      if (projector !== null) await download({ url: projector, sha256: null, towersOf: id, onProgress, signal });
      onProgress({ stage: 'checking', loaded: 0, total: null });
      return checkedFolder(id);
    }
    case 'stored':
      return openFolder(source.id);
  }
}

// What was downloaded, and goes where it is no model.
async function checkedFolder(id: string): Promise<Gathered> {
  const gathered = await openFolder(id);
  try {
    await checkHeaders(gathered.files);
  } catch (error) {
    for (const file of gathered.files.values()) file.close?.();
    for (const release of held.splice(0)) release();
    await deleteModel(id).catch(() => {}); // another tab has it
    throw error;
  }
  return gathered;
}

// With its towers, where they came with it.
async function openFolder(id: string): Promise<Gathered> {
  const entries = await entriesOf(id);
  const towers = await towersOf(id);
  if (towers !== null) entries.push(...(await entriesOf(towers)));
  return { storedId: id, files: tableOf(entries) };
}

const held: (() => void)[] = []; // give locks back

// The lock is shared from here to the end of the worker.
async function entriesOf(id: string): Promise<(readonly [name: string, source: FileSource])[]> {
  held.push(await shareLock(id));
  const folder = await ModelFolder.open(id);
  const note = await folder?.note();
  if (!folder || !note?.complete)
    throw new SluiceError('storage', `${id}: is not in this page's storage: load it again`);
  return Promise.all(note.files.map(async ({ name }) => [name, await openStored(await folder.file(name))] as const));
}

// One file stands by its name, several in a folder.
function tableOf(sources: (readonly [name: string, source: FileSource])[]): FileTable {
  return new Map(sources.map(([name, source]) => [sources.length === 1 ? name : `model/${name}`, source]));
}

// A GGUF file, the first of several, or the folder; and the file of its towers, which is known by its name.
function pathsOf(files: FileTable): { model: string; projector?: string } {
  const isProjector = (name: string): boolean => /mmproj[^/]*\.gguf$/i.test(name);
  const all = [...files.keys()].sort();
  const projector = all.length > 1 ? all.find(isProjector) : undefined;
  const names = all.filter((name) => name !== projector);
  const model = names.find((name) => name.endsWith('.gguf')) ?? (all.length === 1 ? names[0] : 'model');
  if (model === undefined) throw new SluiceError('model', 'no file was given: want a model');
  return projector === undefined ? { model } : { model, projector };
}

function factsOf(id: string | null, { model: { facts }, whyNotGpu }: Loaded): ModelFacts {
  return {
    id,
    name: facts.name,
    vocabulary: facts.vocabulary,
    context: facts.context,
    chat: facts.has_chat_template,
    takesPictures: facts.takes_pictures,
    takesSounds: facts.takes_sounds,
    device: facts.device === 'webgpu' ? 'webgpu' : 'cpu',
    deviceName: facts.device_description,
    whyNotGpu,
    numericsId: facts.numerics_id,
    sampling: facts.sampling,
  };
}

addEventListener('message', async ({ data }: MessageEvent<ToWorker>) => {
  if (data.operation === 'cancel') {
    running.get(data.id)?.abort();
    return;
  }
  const { id, operation, input } = data;
  const controller = new AbortController();
  running.set(id, controller);
  try {
    const handler = handlers[operation] as (
      input: unknown,
      context: Context,
    ) => Promise<Operations[Operation]['output']>;
    const output = await handler(input, { id, signal: controller.signal });
    post({ id, event: 'done', output }, output instanceof Uint8Array ? [output.buffer] : []);
  } catch (error) {
    post({
      id,
      event: 'failed',
      error: controller.signal.aborted
        ? toMessage(aborted(), 'aborted')
        : toMessage(error, loaded?.gpu?.failure ? 'device-lost' : 'model'),
    });
  } finally {
    running.delete(id);
  }
});
