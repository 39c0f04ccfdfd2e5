// Ollama's client changes the store of a server that offers what lies there: pull, copy, delete, from a registry that
// this file imitates. 2 s, with each change.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Ollama } from 'ollama';
import { kAnswer, kAsk, startServer } from './served.mjs';

const kHeld = 1_000_000; // bytes of the model after which the registry waits, once

const digestOf = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
const store = mkdtempSync(join(tmpdir(), 'sluice-store-'));
const served = new Map();
let registry, server, ollama;
let hold = null; // called when the server gives up a reply that waits
const ranges = [];

function layer(kind, bytes) {
  served.set(`/v2/library/tiny/blobs/${digestOf(bytes)}`, bytes);
  return { mediaType: `application/vnd.ollama.image.${kind}`, digest: digestOf(bytes), size: bytes.length };
}

function reply(request, response) {
  const bytes = served.get(request.url);
  if (!bytes) return response.writeHead(404).end();
  const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
  if (from > 0) ranges.push(from);
  const range = { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` };
  response.writeHead(from > 0 ? 206 : 200, { etag: `"${digestOf(bytes)}"`, ...(from > 0 && range) });
  if (!hold || bytes.length < kHeld) return response.end(bytes.subarray(from));
  response.on('close', hold);
  hold = null;
  return response.write(bytes.subarray(from, kHeld));
}

before(async () => {
  const model = layer('model', readFileSync(process.env.SLUICE_DEMO));
  const config = layer('config', Buffer.from('{"model_family":"gemma4"}'));
  served.set('/v2/library/tiny/manifests/latest', Buffer.from(JSON.stringify({ config, layers: [model] })));
  registry = createServer(reply);
  await new Promise((resolve) => registry.listen(0, '127.0.0.1', resolve));
  process.env.SLUICE_OLLAMA_REGISTRY = `http://127.0.0.1:${registry.address().port}`;
  process.env.OLLAMA_MODELS = store;
  process.env.HF_HUB_CACHE = join(store, 'none');
  process.env.HOME = store;
  process.env.no_proxy = '127.0.0.1';
  server = await startServer('--store', '--allow-store-changes');
  ollama = new Ollama({ host: server.address });
});
after(async () => {
  await server.end();
  registry.closeAllConnections();
  registry.close();
  rmSync(store, { recursive: true });
});

const names = async () => (await ollama.list()).models.map((model) => model.name);
const answer = async (model) =>
  (await ollama.chat({ model, messages: [{ role: 'user', content: kAsk }], options: { temperature: 0 } })).message.content;

test('a pull that its client leaves goes on with the next one', async () => {
  assert.deepEqual(await names(), ['demo']);
  const stopped = new Promise((resolve) => (hold = resolve));
  const left = await ollama.pull({ model: 'tiny', stream: true });
  await assert.rejects(async () => {
    for await (const line of left) if (line.completed >= kHeld / 2) left.abort();
  }, /abort/);
  await stopped;
  assert.deepEqual(await names(), ['demo']);
  const lines = [];
  for await (const line of await ollama.pull({ model: 'tiny', stream: true })) lines.push(line);
  assert.equal(lines[0].status, 'pulling manifest');
  const of = (digest) => lines.filter((line) => line.digest === digest);
  const size = readFileSync(process.env.SLUICE_DEMO).length;
  const model = of(digestOf(readFileSync(process.env.SLUICE_DEMO)));
  assert.equal(model.at(-1).completed, size);
  assert.equal(model.at(-1).total, size);
  assert.deepEqual(lines.slice(-3).map((line) => line.status), ['verifying sha256 digest', 'writing manifest', 'success']);
  assert.equal(ranges.length, 1);
  assert.ok(ranges[0] > 0 && ranges[0] <= kHeld);
});

test('a model that was pulled or copied answers, and a deleted one goes', async () => {
  assert.deepEqual(await names(), ['demo', 'tiny:latest']);
  assert.deepEqual((await ollama.ps()).models, []);
  assert.equal(await answer('tiny'), kAnswer);
  const [loaded] = (await ollama.ps()).models;
  const seconds = (new Date(loaded.expires_at) - Date.now()) / 1000;
  assert.ok(seconds > 290 && seconds < 301);
  assert.equal((await ollama.copy({ source: 'tiny', destination: 'me/copy:v1' })).status, 'success');
  assert.equal(await answer('me/copy:v1'), kAnswer);
  await ollama.delete({ model: 'tiny' });
  assert.deepEqual(await names(), ['demo', 'me/copy:v1']);
  await assert.rejects(answer('tiny'), /model tiny not found/);
  assert.equal(await answer('me/copy:v1'), kAnswer);
  assert.equal(readdirSync(join(store, 'blobs')).length, 2);
  await ollama.delete({ model: 'me/copy:v1' });
  assert.deepEqual(readdirSync(join(store, 'blobs')), []);
});

test('what cannot be done is refused', async () => {
  await assert.rejects(ollama.delete({ model: 'demo' }), /demo:latest was named when the server was started/);
  await assert.rejects(ollama.delete({ model: 'tiny' }), { status_code: 404 });
  await assert.rejects(ollama.copy({ source: 'none', destination: 'b' }), /none:latest not found/);
  await assert.rejects(ollama.pull({ model: 'none' }), /has no such model/);
  await assert.rejects(ollama.push({ model: 'demo' }), /neither creates nor publishes/);
  await assert.rejects(ollama.create({ model: 'b', from: 'demo' }), /neither creates nor publishes/);
});
