// Further threads of the module: workers with instances of their own around its memory (src/wasm/sluice.h). They compute
// pieces of the engine's loops and do nothing else, so none of them reads files or talks to a GPU.

/** What one of them needs; can be posted. */
export interface ThreadWork {
  module: WebAssembly.Module;
  memory: WebAssembly.Memory;
  /** From 1 on: 0 is the engine's. */
  thread: number;
  /** The end of its stack, which grows downwards, and a place for its thread-local variables. */
  stackEnd: number;
  locals: number;
}

export interface Threads {
  /** With the engine's own; at least 2. */
  count: number;
  /** Makes a worker that calls work(). Resolves when it is there, or cannot be: the others then do its part. */
  start(work: ThreadWork): Promise<void>;
}

const kPage = 65536;

/** As src/wasm/CMakeLists.txt has it linked. Throws where the browser does not share memory, or has no room. */
export const sharedMemory = (): WebAssembly.Memory =>
  new WebAssembly.Memory({ initial: 2 ** 24 / kPage, maximum: 2 ** 32 / kPage, shared: true });

interface ThreadExports {
  __stack_pointer: WebAssembly.Global<'i32'>;
  __wasm_init_tls(at: number): void;
  sluice_work(thread: number): void;
  sluice_fail_threads(): void;
}

/** In a worker: computes until the worker is ended. Calls `ready` first. */
export async function work({ module, memory, thread, stackEnd, locals }: ThreadWork, ready: () => void): Promise<void> {
  const notHere = (): never => {
    throw new Error("this is the engine's thread's to do");
  };
  const imports: Record<string, Record<string, WebAssembly.ImportValue>> = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) (imports[from] ??= {})[name] = notHere;
  imports.env = { memory };
  const exports = (await WebAssembly.instantiate(module, imports)).exports as unknown as ThreadExports;
  exports.__stack_pointer.value = stackEnd;
  exports.__wasm_init_tls(locals);
  ready();
  try {
    exports.sluice_work(thread);
  } catch (error) {
    exports.sluice_fail_threads();
    throw error;
  }
}
