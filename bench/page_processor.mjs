// How fast the page's module computes on one and on several threads of the processor under Node.js, beside one thread of the
// terminal:
//   page_processor.mjs MODULES PROGRAM [ROUNDS [FILE [LEVEL [THREADS]]]]
// MODULES: build/wasm. PROGRAM: build/release/sluice. The Node.js is that of tools/fetch_node_webgpu.sh, which takes TypeScript
// as it is. FILE: a GGUF file, the demo model without. LEVEL: the terminal's --simd, avx2 without. THREADS: 2 without. Each
// round is a prompt and an answer in the module on one thread, then on THREADS, then in the terminal; none runs while another
// does. Prints tokens a second of each and the ratios of the rounds.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { loadModule } from '../tests/wasm/host.mjs';
import { answerSpeed, promptSpeed, spread } from './model_speed.mjs';

const [path, program, rounds = '5', file = 'assets/demo-gemma4-q8_0.gguf', level = 'avx2', threads = '2'] = process.argv.slice(2);
const kPrompt = 512, kAnswer = 128; // tokens

function inTerminal() {
  const words = ['bench', file, '--simd', level, '--threads', '1', '--prompt', kPrompt, '--answer', kAnswer, '--rounds', '1', '--json'];
  const said = JSON.parse(execFileSync(program, words, { stdio: ['ignore', 'pipe', 'pipe'] }));
  const [prompt, answer] = said.tests.map((test) => test.tokens_per_second.median);
  return { on: said.device, prompt, answer };
}

async function openOn(name, count) {
  const { module, addFile } = await loadModule(`${path}/${name}.wasm`, null, count);
  addFile('model.gguf', readFileSync(file));
  const model = await module.open({ model: 'model.gguf', device: 'cpu' });
  const measure = async () => ({ prompt: await promptSpeed(model, kPrompt), answer: await answerSpeed(model, kAnswer) });
  for (let i = 0; i < 3; ++i) await measure(); // the kernels are compiled well by then
  return { on: model.facts.device_description, measure };
}

const one = await openOn('sluice', 0), several = await openOn('sluice_threads', Number(threads));
console.log(`module: ${one.on}, and ${several.on}; terminal: ${inTerminal().on}`);
const all = [];
for (let round = 0; round < Number(rounds); ++round)
  all.push({ one: await one.measure(), several: await several.measure(), terminal: inTerminal() });
for (const what of ['prompt', 'answer']) {
  const of = (which) => all.map((round) => round[which][what]);
  const ratio = (which, other) => spread(all.map((round) => round[which][what] / round[other][what]));
  console.log(`${what}, tokens/s: one thread ${spread(of('one'))}, ${threads} ${spread(of('several'))}, terminal ${spread(of('terminal'))}`);
  console.log(`  one of terminal ${ratio('one', 'terminal')}, ${threads} of one ${ratio('several', 'one')}`);
}
process.exit(0);
