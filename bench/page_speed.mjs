// How fast answers come in a page beside the terminal, on one adapter: SwiftShader, the one that Debian's Chromium has.
//   page_speed.mjs MODULE PROGRAM DAWN [PAIRS [TOKENS]]
// MODULE: build/wasm/sluice.wasm. PROGRAM: build/release/sluice. DAWN: build/webgpu/libwebgpu_wrapper.so. The Node.js is
// that of tools/fetch_node_webgpu.sh, which takes TypeScript as it is; Playwright is web/'s. Each pair is one answer of the
// demo model in headless Chromium and one in the terminal, whichever is first in turn; neither runs while the other does.
// Prints tokens a second of each and the ratio of the medians.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { runInChromium } from '../tests/wasm/chromium.mjs';
import { medianOf, spread } from './model_speed.mjs';

const [module, program, dawn, pairs = '5', tokens = '16'] = process.argv.slice(2);
const kDriver = '/usr/lib/chromium/vk_swiftshader_icd.json';
const kModel = 'assets/demo-gemma4-q8_0.gguf';

function inTerminal() {
  const words = ['bench', kModel, '--device', 'webgpu', '--webgpu-library', dawn, '--prompt', '0', '--answer', tokens, '--rounds', '1', '--json'];
  const env = { XDG_RUNTIME_DIR: '/tmp', ...process.env, VK_ICD_FILENAMES: kDriver };
  const said = JSON.parse(execFileSync(program, words, { env, stdio: ['ignore', 'pipe', 'pipe'] }));
  return { on: said.device, speed: said.tests[0].tokens_per_second.median };
}

const rounded = (number) => number.toPrecision(3);
const page = [], terminal = [];

function timeInTerminal() {
  const { on, speed } = inTerminal();
  if (terminal.push(speed) === 1) console.log(`terminal: ${on}`);
}

// The page asks before each of its answers, and tells how fast it was.
async function posted(path, text) {
  if (path === '/said') return console.log(text);
  if (path === '/answered') {
    page.push(Number(text));
    if (page.length % 2 === 1) timeInTerminal();
    console.log(`pair ${page.length}: page ${rounded(page.at(-1))}, terminal ${rounded(terminal[page.length - 1])} tokens/s`);
    return '';
  }
  if (page.length === Number(pairs)) return 'enough';
  if (page.length % 2 === 1) timeInTerminal();
  return tokens;
}

const status = await runInChromium({
  worker: 'bench/page_speed_worker.mjs',
  contents: { '/sluice.wasm': readFileSync(module), '/model.gguf': readFileSync(kModel) },
  posted,
  minutes: 60,
  flags: [], // as a page finds it
});
if (status !== 0) throw new Error(`the page: ${status}`);
const ratios = page.map((speed, i) => speed / terminal[i]);
console.log(`page ${spread(page)}, terminal ${spread(terminal)} tokens/s: ratio of the medians ` +
            `${rounded(medianOf(page) / medianOf(terminal))}, of the pairs ${spread(ratios)}`);
process.exit(0);
