// The page's module under Node, through the wrapper that pages use, and WebGPU on whatever Vulkan finds.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { BytesFile } from '../../web/src/engine/files.ts';
import { GpuHost } from '../../web/src/engine/gpu_host.ts';
import { EngineModule } from '../../web/src/engine/module.ts';

// Workers end with the process, whether or not they are at a piece of a loop.
function startThread(work) {
  const worker = new Worker(new URL('thread_worker.mjs', import.meta.url), { execArgv: ['--no-warnings'] });
  worker.unref();
  worker.postMessage(work);
  return new Promise((ready, failed) => worker.once('message', ready).once('error', failed));
}

// The module and the table of its files, to which addFile() adds bytes. `count`: of threads, of sluice_threads.wasm.
export async function loadModule(path, gpu = null, count = 0, start = startThread) {
  const files = new Map();
  const host = { gpu, files };
  const module = await EngineModule.load(readFileSync(path), host, count > 0 ? { count, start } : null);
  return { module, files, host, addFile: (name, bytes) => files.set(name, new BytesFile(bytes)) };
}

// npm's webgpu beside the Node that runs this (tools/fetch_node_webgpu.sh).
export async function openGpu() {
  const { create, globals } = createRequire(join(dirname(process.execPath), '../../..', 'x.js'))('webgpu');
  Object.assign(globalThis, globals);
  // What is collected while a promise waits aborts the process.
  const gpu = (globalThis.kept = create(['backend=vulkan']));
  const host = await GpuHost.create(gpu);
  if (host === null) throw new Error(GpuHost.missing);
  return host;
}
