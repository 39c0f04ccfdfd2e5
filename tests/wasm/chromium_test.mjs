// The small models' goldens in headless Chromium, on WebGPU: chromium_test.mjs MODULE [MODEL[:CASE,...]...].
import { readFileSync } from 'node:fs';
import { runInChromium } from './chromium.mjs';
import { chosenModels, filesOf, kData, kStreamed, smallModels } from './small_models.mjs';

const [module, ...chosen] = process.argv.slice(2);
const models = chosenModels(chosen.length > 0 ? chosen : smallModels())
  .map(({ name, cases }) =>
    ({ name, cases, files: filesOf(name), golden: `${kData}/${name}`, streamed: kStreamed.includes(name) }));

const status = await runInChromium({
  worker: 'tests/wasm/chromium_worker.mjs',
  contents: { '/models.json': JSON.stringify(models), '/sluice.wasm': readFileSync(module) },
  posted: async (_, text) => console.log(text),
  minutes: 20,
});
if (status !== 0) console.error(`goldens in Chromium: ${status === 1 ? 'missed' : status}`);
process.exit(status === 0 ? 0 : 1);
