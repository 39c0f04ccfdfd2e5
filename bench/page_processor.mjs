// How fast the page's module computes on one thread of the processor under Node.js, beside one thread of the terminal:
//   page_processor.mjs MODULE PROGRAM [ROUNDS [FILE [LEVEL]]]
// MODULE: build/wasm/sluice.wasm. PROGRAM: build/release/sluice. The Node.js is that of tools/fetch_node_webgpu.sh, which takes
// TypeScript as it is. FILE: a GGUF file, the demo model without. LEVEL: the terminal's --simd, avx2 without. Each round is a
// prompt and an answer in the module, then both in the terminal; neither runs while the other does. Prints tokens a second of
// each and the ratios of the rounds.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { loadModule } from '../tests/wasm/host.mjs';
import { answerSpeed, promptSpeed, spread } from './model_speed.mjs';

const [path, program, rounds = '5', file = 'assets/demo-gemma4-q8_0.gguf', level = 'avx2'] = process.argv.slice(2);
const kPrompt = 512, kAnswer = 128; // tokens

function inTerminal() {
  const words = ['bench', file, '--simd', level, '--threads', '1', '--prompt', kPrompt, '--answer', kAnswer, '--rounds', '1', '--json'];
  const said = JSON.parse(execFileSync(program, words, { stdio: ['ignore', 'pipe', 'pipe'] }));
  const [prompt, answer] = said.tests.map((test) => test.tokens_per_second.median);
  return { on: said.device, prompt, answer };
}

const { module, addFile } = await loadModule(path);
addFile('model.gguf', readFileSync(file));
const model = await module.open({ model: 'model.gguf', device: 'cpu' });
const inModule = async () => ({ prompt: await promptSpeed(model, kPrompt), answer: await answerSpeed(model, kAnswer) });
await inModule(); // the kernels are compiled well by then
console.log(`module: ${model.facts.device_description}; terminal: ${inTerminal().on}`);
const module_ = [], terminal = [];
for (let round = 0; round < Number(rounds); ++round) {
  module_.push(await inModule());
  terminal.push(inTerminal());
}
for (const what of ['prompt', 'answer']) {
  const [ours, theirs] = [module_, terminal].map((all) => all.map((one) => one[what]));
  console.log(`${what}: module ${spread(ours)}, terminal ${spread(theirs)} tokens/s, ` +
              `ratio ${spread(ours.map((speed, i) => speed / theirs[i]))}`);
}
process.exit(0);
