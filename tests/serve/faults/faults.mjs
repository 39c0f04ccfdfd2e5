// faults.mjs PROGRAM [REQUESTS] [SEED]: a server under clients that misbehave. Random requests, right and broken, over all
// routes, from many connections; clients that leave before, within and behind their request and while it is answered;
// clients that read slowly or end their sending side; a model whose file is replaced, broken and mended; an access log on
// a full disk. Holds that every client that stayed got a complete reply of the right shape, and that nothing is left
// behind: no answer runs or waits, no page of the cache is held, no connection is open, and the same question gets the same
// bits as at the start. Prints the seed, which repeats the requests (not their order in time).
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, openSync, readdirSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from './client.mjs';
import { Random } from './random.mjs';
import { randomRequest } from './requests.mjs';
import { wrongWith } from './shapes.mjs';

const [program, requests = '300', seed = String(Date.now() % 1e9)] = process.argv.slice(2);
const kClients = 12;
const kPatience = 120_000; // ms for one request, and for the end; a sanitizer's build takes long

// ---- the server

const folder = mkdtempSync(join(tmpdir(), 'sluice-faults-'));
const model = join(folder, 'small');
cpSync('tests/data/gemma4_dense', model, { recursive: true });
const list = join(folder, 'models.json');
writeFileSync(list, JSON.stringify({ models: [{ name: 'demo', model: 'demo', pinned: true }, { name: 'small', model, keep_alive: '1s' }] }));
const server = spawn(program, ['serve', '--models', list, '--port', '0', '--context', '512', '--parallel', '3', '--queue', '4',
  '--threads', '2', '--access-log'], { stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'] });
let said = '', ended = null;
server.stderr.on('data', (bytes) => (said += bytes));
const exit = new Promise((resolve) => server.on('exit', (status, signal) => resolve((ended = status ?? signal))));

function fail(why) {
  console.error(`faults: ${why}\nseed ${seed}; the server said:\n${said.slice(-8000)}`);
  server.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
  process.exit(1);
}
async function until(what, holds) {
  for (const end = Date.now() + kPatience; !(await holds()); await pause(20)) {
    if (ended !== null) fail(`the server ended with ${ended}`);
    if (Date.now() > end) fail(`it did not come to pass: ${what}`);
  }
}

let port;
await until('the server is up', () => (port = Number(/at http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1])));

async function ask(path, body) {
  const client = new Client(port);
  const payload = body === undefined ? '' : JSON.stringify(body);
  client.send(`${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: ${Buffer.byteLength(payload)}\r\n\r\n${payload}`);
  const reply = await client.reply();
  client.leave(false);
  return reply;
}
const gauge = (text, name) => [...text.matchAll(new RegExp(`^${name}{[^}]*} (\\d+)$`, 'gm'))].reduce((sum, found) => sum + Number(found[1]), 0);
const descriptors = () => readdirSync(`/proc/${server.pid}/fd`).length;
// The same bits are the same log-probabilities.
async function bits() {
  const reply = await ask('/v1/chat/completions', { model: 'demo', messages: [{ role: 'user', content: 'What is a violin?' }], logprobs: true, top_logprobs: 5 });
  assert.equal(reply.status, 200, JSON.stringify(reply));
  return JSON.stringify(JSON.parse(reply.body).choices);
}
const bitsBefore = await bits();
await pause(50);
const descriptorsBefore = descriptors();

// ---- the clients

const kWays = ['stays', 'stays', 'stays', 'stays', 'keeps', 'slow', 'leaves early', 'leaves within', 'leaves behind', 'leaves the answer', 'half-closes'];
const counts = {};
let begun = 0;

async function stay(client, request, slow = 0) {
  const what = `${request.method} ${request.path}\n${request.text.toString('latin1').slice(0, 1500)}`;
  const timer = setTimeout(() => fail(`no reply within ${kPatience / 1000} s to ${what}`), kPatience);
  const reply = await client.reply({ hasBody: request.method !== 'HEAD', slow });
  clearTimeout(timer);
  if (ended !== null) fail(`the server ended with ${ended} at ${what}`);
  const wrong = reply.broken ?? wrongWith(request, reply);
  if (wrong) fail(`${wrong}\nto ${what}`);
  counts[`status ${reply.status}`] = (counts[`status ${reply.status}`] ?? 0) + 1;
  return reply;
}

async function one(random) {
  const way = random.pick(kWays);
  counts[way] = (counts[way] ?? 0) + 1;
  const client = new Client(port);
  if (way === 'keeps') {
    // Several requests on one connection; some are sent before the reply to the first has come.
    const all = [1, 2, 3].map(() => randomRequest(random, false));
    const ahead = random.chance(0.3);
    if (ahead) client.send(Buffer.concat(all.map((request) => request.text)));
    for (const request of all) {
      if (!ahead) client.send(request.text);
      const reply = await stay(client, request);
      if (reply.headers.connection === 'close') break;
    }
    return client.leave(false);
  }
  const request = randomRequest(random, true);
  const cut = random.below(request.text.length);
  switch (way) {
    case 'stays':
    case 'slow':
      client.send(request.text);
      await stay(client, request, way === 'slow' ? 5 + random.below(40) : 0);
      return client.leave(false);
    case 'leaves early':
      return client.leave(random.chance(0.5));
    case 'leaves within':
      await client.send(request.text.subarray(0, cut));
      if (random.chance(0.5)) await pause(random.below(20));
      return client.leave(random.chance(0.5));
    case 'leaves behind':
      await client.send(request.text);
      if (random.chance(0.5)) await pause(random.below(20));
      return client.leave(random.chance(0.5));
    case 'leaves the answer':
      client.send(request.text);
      await client.until(() => client.received.length > 0);
      if (random.chance(0.5)) await pause(random.below(20));
      return client.leave(random.chance(0.5));
    case 'half-closes': {
      // Counts as leaving, so a reply may come or not, but the connection ends.
      client.send(request.text);
      client.halfClose();
      const timer = setTimeout(() => fail(`a half-closed connection stays open: ${request.text}`), kPatience);
      await client.until(() => false);
      clearTimeout(timer);
      return client.leave(false);
    }
  }
}

async function worker(number) {
  const random = new Random(Number(seed) * 1000 + number);
  while (begun++ < Number(requests)) await one(random);
}

// Swaps the file of the model `small` for one that is broken in some way, and back, as a download or a user would: a new
// file takes the old one's name.
async function replaceFiles(isOver) {
  const random = new Random(Number(seed) * 1000 + 999);
  const file = join(model, 'model.safetensors'), good = join(folder, 'good'), next = join(folder, 'next');
  cpSync(file, good);
  while (!isOver()) {
    await pause(200 + random.below(1000));
    cpSync(good, next);
    const how = random.below(3);
    if (how === 1) truncateSync(next, random.below(1_000_000));
    if (how === 2) writeFileSync(next, 'no model');
    renameSync(next, file);
    counts['files replaced'] = (counts['files replaced'] ?? 0) + 1;
  }
  cpSync(good, next);
  renameSync(next, file);
}

let isOver = false;
const replacing = replaceFiles(() => isOver);
await Promise.all(Array.from({ length: kClients }, (_, number) => worker(number)));
isOver = true;
await replacing;

// ---- what is left behind

let metrics;
await until('no answer runs or waits', async () => {
  metrics = (await ask('/metrics')).body;
  return gauge(metrics, 'sluice_answers_running') + gauge(metrics, 'sluice_answers_waiting') === 0;
});
await until('no page of the cache is held', async () => gauge((metrics = (await ask('/metrics')).body), 'sluice_cache_pages_held') === 0);
await until('all connections are closed', () => descriptors() <= descriptorsBefore + 2); // a model may be loaded
if ((await bits()) !== bitsBefore) fail('the same question has another answer than at the start');
const small = await ask('/api/generate', { model: 'small', prompt: 'a', stream: false, options: { num_predict: 3 } });
if (small.status !== 200) fail(`the mended model does not answer: ${small.body}`);
const saidRunning = said;
server.kill('SIGTERM');
const timer = setTimeout(() => fail('the server does not end'), kPatience);
await exit;
clearTimeout(timer);
// The only thing that may have failed is the access log, which the server has said at once.
if (!/^access log: standard output: cannot write: the disk is full; it ends here$/m.test(saidRunning)) fail('the lost access log was not told');
if (ended !== 1 || !/standard output: cannot write: the disk is full/.test(said)) fail(`the server ended with ${ended}`);
rmSync(folder, { recursive: true, force: true });
console.log(`faults: ${requests} clients, seed ${seed}: ${Object.entries(counts).sort().map(([name, count]) => `${name} ${count}`).join(', ')}`);
