// A server that keeps states on disk: what it had computed before a restart, for each of its models, and what it does
// with damaged and full disks.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import OpenAI from 'openai';
import { startServer } from './served.mjs';

const folder = mkdtempSync(join(tmpdir(), 'sluice-states-'));
after(() => rmSync(folder, { recursive: true }));
const states = () => readdirSync(folder).map((name) => join(folder, name));

const kModels = ['demo', 'gemma4_dense'];
const kLong = Array.from({ length: 60 }, (_, i) => `wood ${i} string`).join(' ');

// What each model answers, and how many tokens of its prompt it had already.
async function answers(...more) {
  const server = await startServer('demo', process.env.SLUICE_OTHER_MODEL, '--state-dir', folder, ...more);
  const openai = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: 'x', maxRetries: 0 });
  const all = [];
  for (const model of kModels) {
    const messages = [{ role: 'system', content: kLong }, { role: 'user', content: 'What is a violin?' }];
    const reply = await openai.chat.completions.create({ model, messages, temperature: 1, max_tokens: 12 });
    const { prompt_tokens, prompt_tokens_details } = reply.usage;
    const cached = prompt_tokens_details.cached_tokens;
    all.push({ text: reply.choices[0].message.content, cached, most: Math.floor((prompt_tokens - 1) / 64) * 64 });
  }
  await server.end();
  return { texts: all.map((one) => one.text), all, said: server.said() };
}

test('prompts from before a restart are not computed again', async () => {
  const first = await answers();
  assert.deepEqual(first.all.map((one) => one.cached), [0, 0]);
  const second = await answers();
  assert.deepEqual(second.texts, first.texts);
  for (const one of second.all) assert.ok(one.cached > 0 && one.cached === one.most, `${one.cached} of ${one.most}`);
  assert.ok(!second.said.includes('sluice:'), second.said);

  for (const path of states()) writeFileSync(path, 'damaged');
  const damaged = await answers();
  assert.deepEqual(damaged.texts, first.texts);
  assert.deepEqual(damaged.all.map((one) => one.cached), [0, 0]);
  assert.match(damaged.said, /sluice: .*damaged/);
  assert.ok(states().some((path) => path.endsWith('.damaged')));

  for (const path of states()) rmSync(path);
  const bounded = await answers('--state-dir-size', '1000');
  assert.deepEqual(bounded.texts, first.texts);
  assert.match(bounded.said, /is not kept: want at most 1.0 kB \(--state-dir-size\)/);
  assert.deepEqual(states(), []);

  chmodSync(folder, 0o777);
  const open = await answers();
  assert.deepEqual(open.texts, first.texts);
  assert.ok(open.said.includes('sluice: '), open.said);
  chmodSync(folder, 0o700);
});
