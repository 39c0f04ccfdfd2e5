// How a mixture answers in a page, its experts read as they are chosen: headless Chromium, the built package, one model.
//   make web; node bench/page_experts.mjs FILE.gguf [--device cpu|webgpu] [--memory BYTES] [--expert-memory BYTES] [--keep]
//     [--prompt TOKENS] [--answer TOKENS]
// Without --keep the file is read where it lies, with it from the page's storage, after a copy. Words are drawn at
// random, since likely ones repeat themselves and their experts. Playwright is web/'s.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openPage, openProfile, Site } from '../tests/web/harness.mjs';

const kPatience = 3_600_000; // ms
const { values, positionals } = parseArgs({
  options: {
    device: { type: 'string', default: 'cpu' },
    memory: { type: 'string', default: '0' },
    'expert-memory': { type: 'string', default: '0' },
    keep: { type: 'boolean', default: false },
    prompt: { type: 'string', default: '32' },
    answer: { type: 'string', default: '32' },
  },
  allowPositionals: true,
});
if (positionals.length !== 1) throw new Error('want one FILE.gguf');

const profile = await mkdtemp(join(tmpdir(), 'sluice-page-'));
const site = await new Site().start(), context = await openProfile(profile);
context.setDefaultTimeout(kPatience);
const page = await openPage(context, site);
page.on('console', (message) => console.log(message.text()));
await page.locator('#welcome-file').evaluate((input) => (input.onchange = null)); // the page's own business
await page.locator('#welcome-file').setInputFiles(positionals[0]);

const options = { device: values.device, memory: Number(values.memory), expertMemory: Number(values['expert-memory']), keep: values.keep };
await page.evaluate(async ({ options, prompt, answer }) => {
  const { Sluice } = await import('./sluice.js');
  const say = (...words) => console.log(words.join(' '));
  const gigabytes = (bytes) => `${(bytes / 1e9).toFixed(2)} GB`;
  const began = performance.now();
  const model = await Sluice.load([...document.querySelector('#welcome-file').files], options);
  say(`${model.facts.name} on ${model.facts.deviceName}: opened in ${((performance.now() - began) / 1000).toFixed(1)} s, context ${model.facts.context}`);
  let text = '';
  for (let i = 1; (await model.tokenize(text)).length < prompt; ++i) text += ` ${(i * i * 7919) % 1000}`;
  let before = { uses: 0, misses: 0, readBytes: 0 };
  for (const maxTokens of [1, answer]) {
    const asked = performance.now();
    const result = await model.generate(text, { temperature: 5, topK: 0, topP: 1, seed: 1, maxTokens }).result;
    const { heapBytes, gpuBytes, experts } = await model.stats();
    const now = experts ?? before;
    const uses = now.uses - before.uses, misses = now.misses - before.misses, read = now.readBytes - before.readBytes;
    const speed = maxTokens === 1 ? `${(result.promptTokens / result.promptSeconds).toFixed(2)} tokens/s`
                                  : `${((result.tokens - 1) / result.answerSeconds).toFixed(2)} tokens/s`;
    say(`${maxTokens === 1 ? `prompt of ${result.promptTokens}` : `answer of ${result.tokens}`} tokens: ${speed}, ${((performance.now() - asked) / 1000).toFixed(1)} s;`,
        experts ? `${experts.inMemory} of ${experts.all} experts have room, ${uses - misses} of ${uses} found there, ${gigabytes(read)} read;` : 'all experts in memory;',
        `${gigabytes(heapBytes)} of heap, ${gigabytes(gpuBytes)} on the GPU`);
    before = now;
  }
  model.close();
}, { options, prompt: Number(values.prompt), answer: Number(values.answer) });
await context.close();
site.stop();
await rm(profile, { recursive: true });
