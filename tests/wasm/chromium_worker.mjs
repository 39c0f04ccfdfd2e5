// In a worker of chromium_test.mjs's page: the goldens on the page's GPU.
import { BytesFile } from '../../web/src/engine/files.ts';
import { GpuHost } from '../../web/src/engine/gpu_host.ts';
import { EngineModule } from '../../web/src/engine/module.ts';
import { decodePicture } from '../../web/src/pixels.ts';
import { Golden } from './golden.mjs';
import { Verifier } from './verify.mjs';

const post = (path, text) => fetch(path, { method: 'POST', body: String(text) });
for (const name of ['log', 'error']) console[name] = (...words) => void post('/said', words.join(' '));

async function bytesOf(path) {
  const response = await fetch(`/${path}`);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

async function run() {
  const gpu = await GpuHost.create();
  if (gpu === null) throw new Error(GpuHost.missing);
  console.log(`in Chromium on ${gpu.description}`);
  const files = new Map();
  const module = await EngineModule.load(await fetch('/sluice.wasm'), { gpu, files });
  const verifier = new Verifier(module, (bytes) => decodePicture(new Blob([bytes])));
  for (const model of await (await fetch('/models.json')).json()) {
    for (const [name, path] of model.files) files.set(`${model.name}/${name}`, new BytesFile(await bytesOf(path)));
    const golden = new Golden(await bytesOf(`${model.folder}/${model.golden}.json`),
                              await bytesOf(`${model.folder}/${model.golden}.safetensors`),
                              (file) => bytesOf(`${model.folder}/${file}`));
    const chosen = model.onlyMedia ? golden.onlyMedia() : golden.only(model.cases);
    await verifier.verify(model.name, model.name, chosen,
                          { arithmetic: 'exact', judge: 'golden', device: 'webgpu', kind: 'webgpu', perplexity: false });
    if (!model.onlyMedia) await verifier.verifySavedState(model.name, model.name, chosen, { device: 'webgpu' });
    if (model.streamed) await verifier.verifyStreamed(model.name, model.name, chosen, { device: 'webgpu' });
    files.clear();
  }
  console.log(`goldens in Chromium: ${verifier.missed} bars missed`);
  return verifier.missed === 0 ? 0 : 1;
}

run().catch((error) => (console.error(error.stack ?? error), 1)).then((status) => post('/ended', status));
