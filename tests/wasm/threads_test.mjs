// The module with threads: threads_test.mjs BUILD. Any number of threads gives the logits and tokens of sluice.wasm to the
// bit, threads that never come hold up nothing, and one that dies ends the answer. Five seconds.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { loadModule } from './host.mjs';
import { filesOf } from './small_models.mjs';

const [build] = process.argv.slice(2);
const kDemo = 'demo-gemma4-q8_0.gguf';
const kModels = ['gemma4_moe', 'qwen3_5_moe', 'deepseek_v3'];
const prompt = Array.from({ length: 70 }, (_, i) => 3 + ((i * 37) % 120));
// Drawn tokens, because choosing one allocates memory on the thread that does it.
const request = { prompt, logits_at: [0, 31, 69], max_tokens: 24, temperature: 1, top_k: 40, seed: 7 };

function addModels({ addFile }) {
  addFile(kDemo, readFileSync(`assets/${kDemo}`));
  for (const name of kModels) for (const [file, path] of filesOf(name)) addFile(`${name}/${file}`, readFileSync(path));
}
async function answersOf(loaded) {
  addModels(loaded);
  const answers = {};
  for (const arithmetic of ['fast', 'exact'])
    for (const model of [kDemo, ...kModels]) {
      const opened = await loaded.module.open({ model, arithmetic, device: 'cpu' });
      const { tokens, logits } = await opened.run(request);
      opened.close();
      assert.equal(tokens.length, request.max_tokens);
      answers[`${model} ${arithmetic}`] = [tokens, Buffer.from(logits.buffer).toString('base64')];
    }
  return answers;
}

const kShared = `${build}/sluice_threads.wasm`;
const alone = await answersOf(await loadModule(`${build}/sluice.wasm`));
for (const threads of [1, 2, 3])
  assert.deepEqual(await answersOf(await loadModule(kShared, null, threads)), alone, `${threads} threads`);
const nobody = () => Promise.resolve();
assert.deepEqual(await answersOf(await loadModule(kShared, null, 2, nobody)), alone, 'a thread that never comes');

const dying = await loadModule(kShared, null, 2);
addModels(dying);
const model = await dying.module.open({ model: kDemo, device: 'cpu' });
assert.equal(model.facts.device_description, 'WebAssembly, SIMD128, 2 threads');
dying.module.exports.sluice_fail_threads();
await assert.rejects(model.run(request), WebAssembly.RuntimeError);
console.log('threads: 1, 2 and 3 threads give the bits of the module without');
process.exit(0); // threads wait for loops
