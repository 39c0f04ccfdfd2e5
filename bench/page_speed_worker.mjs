// In a worker of page_speed.mjs's page: answers of the demo model, as many as it is asked for.
import { BytesFile } from '../web/src/engine/files.ts';
import { GpuHost } from '../web/src/engine/gpu_host.ts';
import { EngineModule } from '../web/src/engine/module.ts';
import { answerSpeed } from './model_speed.mjs';

const kWarmUp = 4; // tokens

async function post(path, text) {
  return (await fetch(path, { method: 'POST', body: String(text) })).text();
}

async function run() {
  const gpu = await GpuHost.create();
  if (gpu === null) throw new Error(GpuHost.missing);
  const files = new Map([['model.gguf', new BytesFile(new Uint8Array(await (await fetch('/model.gguf')).arrayBuffer()))]]);
  const module = await EngineModule.load(await fetch('/sluice.wasm'), { gpu, files });
  const model = await module.open({ model: 'model.gguf', device: 'webgpu' });
  await post('/said', `page: ${model.facts.device_description}`);
  await answerSpeed(model, kWarmUp);
  for (let tokens; (tokens = await post('/next', '')) !== 'enough'; ) await post('/answered', await answerSpeed(model, Number(tokens)));
  return 0;
}

run().catch((error) => post('/said', error.stack ?? error).then(() => 1)).then((status) => post('/ended', status));
