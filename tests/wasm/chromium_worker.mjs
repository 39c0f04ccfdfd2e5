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

// The browser decodes as Pillow does (tests/data/media/make_media.py), but for these: it reads no EXIF in WebP, and what lies
// outside a GIF's frame is transparent black.
const kDecodedOtherwise = ['turned.webp', 'part.gif'];
const kWidened = /16\.bmp$/; // colours of 5 and 6 bits, rounded otherwise by one
async function holdDecoding(verifier) {
  const { pictures } = JSON.parse(new TextDecoder().decode(await bytesOf('tests/data/media/expected.json')));
  for (const [name, want] of Object.entries(pictures)) {
    if (kDecodedOtherwise.includes(name)) continue;
    const { width, height, data } = await decodePicture(new Blob([await bytesOf(`tests/data/media/${name}`)]));
    const colours = data.filter((_, i) => i % 4 < 3);
    const worst = colours.reduce((most, colour, i) => Math.max(most, Math.abs(colour - parseInt(want.pixels.substr(2 * i, 2), 16))), 0);
    verifier.hold(`${name}: ${width} x ${height} pixels, ${worst} off: want ${want.width} x ${want.height}`,
                  width === want.width && height === want.height && worst <= (kWidened.test(name) ? 1 : 0));
  }
  console.log(`${Object.keys(pictures).length} pictures decoded by the browser, without ${kDecodedOtherwise.join(' and ')}`);
}

async function run() {
  const gpu = await GpuHost.create();
  if (gpu === null) throw new Error(GpuHost.missing);
  console.log(`in Chromium on ${gpu.description}`);
  const files = new Map();
  const module = await EngineModule.load(await fetch('/sluice.wasm'), { gpu, files });
  const verifier = new Verifier(module, (bytes) => decodePicture(new Blob([bytes])));
  await holdDecoding(verifier);
  for (const model of await (await fetch('/models.json')).json()) {
    for (const [name, path] of model.files) files.set(`${model.name}/${name}`, new BytesFile(await bytesOf(path)));
    const golden = new Golden(await bytesOf(`${model.folder}/${model.golden}.json`),
                              await bytesOf(`${model.folder}/${model.golden}.safetensors`),
                              (file) => bytesOf(`${model.folder}/${file}`));
    const chosen = model.onlyMedia ? golden.onlyMedia() : golden.only(model.cases);
    await verifier.verify(model.name, model.name, chosen,
                          { arithmetic: 'exact', judge: 'golden', device: 'webgpu', kind: 'webgpu', perplexity: false });
    if (!model.onlyMedia) await verifier.verifySavedState(model.name, model.name, chosen, { device: 'webgpu' });
    if (model.trains) await verifier.verifyTraining(model.name, model.name, { device: 'webgpu' });
    if (model.streamed) await verifier.verifyStreamed(model.name, model.name, chosen, { device: 'webgpu' });
    files.clear();
  }
  console.log(`goldens in Chromium: ${verifier.missed} bars missed`);
  return verifier.missed === 0 ? 0 : 1;
}

run().catch((error) => (console.error(error.stack ?? error), 1)).then((status) => post('/ended', status));
