// The small models' goldens in headless Chromium, on WebGPU: chromium_test.mjs MODULE [MODEL[:CASE,...]...].
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { runInChromium } from './chromium.mjs';
import { chosenModels, filesOf, kData, kMediaGoldens, kStreamed, smallModels, textAndWeights } from './small_models.mjs';

const [module, ...chosen] = process.argv.slice(2);
// A training costs more than a golden, so one model is trained where some are chosen.
const kTrained = ['gemma4_dense', ...(chosen.length > 0 ? [] : ['gemma4_moe', 'qwen3_5_moe', 'deepseek_v3'])];
const models = chosenModels(chosen.length > 0 ? chosen : smallModels())
  .map(({ name, cases }) =>
    ({ name, cases, files: filesOf(name), folder: `${kData}/${name}`, golden: 'golden', streamed: kStreamed.includes(name), trains: kTrained.includes(name) }));

// The reference models' pictures and sounds, where all are asked for.
const contents = {};
const reference = process.env.SLUICE_REFERENCE_MODELS;
if (chosen.length === 0 && reference && existsSync(`${reference}/gemma4_towers`)) {
  for (const [name, golden] of kMediaGoldens) {
    const folder = `reference/${name}`, here = `${reference}/${name}`;
    for (const file of readdirSync(here)) contents[`/${folder}/${file}`] = () => readFileSync(`${here}/${file}`);
    const files = textAndWeights(here).map(([file]) => [file, `${folder}/${file}`]);
    models.push({ name, cases: [], files, folder, golden, onlyMedia: true });
  }
} else if (chosen.length === 0) {
  console.log('pictures and sounds of the reference models: not run in Chromium: SLUICE_REFERENCE_MODELS names no folder with them');
}

const status = await runInChromium({
  worker: 'tests/wasm/chromium_worker.mjs',
  contents: { ...contents, '/models.json': JSON.stringify(models), '/sluice.wasm': readFileSync(module) },
  posted: async (_, text) => console.log(text),
  minutes: 40,
});
if (status !== 0) console.error(`goldens in Chromium: ${status === 1 ? 'missed' : status}`);
process.exit(status === 0 ? 0 : 1);
