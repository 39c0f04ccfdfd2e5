// Clients of several models: their list, an answer of each, and which are loaded.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { kAnswer, kAsk, startServer } from './served.mjs';

let served, openai, ollama;
before(async () => {
  served = await startServer('demo', process.env.SLUICE_OTHER_MODEL);
  openai = new OpenAI({ baseURL: `${served.address}/v1`, apiKey: 'x', maxRetries: 0 });
  ollama = new Ollama({ host: served.address });
});
after(() => served.end());

test('two models answer by their names', async () => {
  const listed = (await openai.models.list()).data.map((model) => model.id);
  assert.deepEqual(listed, ['demo', 'gemma4_dense']);
  assert.deepEqual((await ollama.list()).models.map((model) => model.name), listed);
  assert.equal((await ollama.show({ model: 'gemma4_dense' })).details.family, 'gemma4');
  assert.deepEqual((await ollama.ps()).models, []);
  const messages = [{ role: 'user', content: kAsk }];
  const demo = await openai.chat.completions.create({ model: 'demo', temperature: 0, messages });
  assert.equal(demo.choices[0].message.content, kAnswer);
  const other = await ollama.chat({ model: 'gemma4_dense', messages, keep_alive: '5m', options: { num_predict: 4 } });
  assert.equal(other.eval_count, 4);
  const loaded = (await ollama.ps()).models;
  assert.deepEqual(loaded.map((model) => model.name), listed);
  assert.ok(new Date(loaded[1].expires_at) - Date.now() < 301_000);
  await ollama.generate({ model: 'gemma4_dense', prompt: '', keep_alive: 0 });
  assert.equal((await ollama.ps()).models.length, 1);
  await assert.rejects(ollama.show({ model: 'gemma4_dence' }), /did you mean gemma4_dense/);
});
