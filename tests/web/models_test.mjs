// Where models come from: what is none is said before anything is copied or closed, and only models are listed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ask, download, errorOf, kDemoFile, openPage, ready, setDevice, setTemperature, Site } from './harness.mjs';
import { context, give, openModels, site, stored } from './suite.mjs';

const kSoon = 8000; // ms, on a busy machine; an interrupted download is tried again for 16 s
const demo = readFileSync(kDemoFile);
const other = Buffer.from(demo);
other.write('llama4', other.indexOf('gemma4'), 'latin1'); // the value of general.architecture

test('a model is dropped anywhere; what is no model is said before it is copied, and the open one goes on answering', async () => {
  const page = await openPage(context, site);
  await setDevice(page, 'cpu');
  await openModels(page);
  await give(page, 'drop', 'dropped.gguf', '', demo);
  await ready(page);
  assert.equal(await page.locator('#models').evaluate((dialog) => dialog.open), false);
  await setTemperature(page, '0');
  const wrong = [
    ['picture.gguf', Buffer.from('\x89PNG\r\n\x1a\n0123456789'), /^picture\.gguf: /],
    ['empty.gguf', Buffer.alloc(0), /^empty\.gguf: /],
    ['other.gguf', other, /^other\.gguf: .*[Ll]lama/],
    ['cut.gguf', demo.subarray(0, 100_000), /^cut\.gguf: /],
  ];
  for (const [name, buffer, sentence] of wrong) {
    await openModels(page);
    await page.getByRole('dialog').getByLabel('Keep a copy in this browser').check();
    await page.locator('#dialog-file').setInputFiles({ name, mimeType: 'application/octet-stream', buffer });
    assert.match(await errorOf(page), sentence);
    await page.getByRole('button', { name: 'Dismiss' }).click();
    assert.equal(await page.locator('#prompt').isEnabled(), true, 'the open model is still there');
  }
  assert.match(await ask(page, 'What is a violin?'), /^violin/);
  await openModels(page);
  assert.deepEqual(await stored(page), ['dropped.gguf']);
});

test('a bad address says so at once, and leaves nothing in the list', async () => {
  const page = await openPage(context, site);
  const began = Date.now();
  await download(page, 'http://localhost:1/far.gguf');
  assert.match(
    await errorOf(page),
    /^far\.gguf: the connection failed before anything came: check the address and the connection, and whether the server lets pages read it\.$/,
  );
  assert.ok(Date.now() - began < kSoon, `${Date.now() - began} ms`);
  await download(page, 'ftp://localhost/far.gguf');
  await page.getByText('ftp://localhost/far.gguf: want an address that begins with https:// or http://.').waitFor();
  await download(page, `${site.origin}/index.html`);
  await page.getByText('index.html: not a GGUF file but a web page: want the address of the file itself.').waitFor();
  await openModels(page);
  assert.deepEqual(await stored(page), []);
});

test('the catalogue says what fits, and a model of it is downloaded and opened', async () => {
  const page = await openPage(context, site);
  await setDevice(page, 'cpu');
  const asked = [];
  await context.route('https://huggingface.co/**', async (route) => {
    asked.push(route.request().url());
    const headers = { 'Access-Control-Allow-Origin': '*', 'Access-Control-Allow-Headers': '*' };
    if (route.request().method() === 'OPTIONS') await route.fulfill({ status: 204, headers });
    else await route.fulfill({ status: 200, headers: { ...headers, 'Content-Length': `${demo.length}` }, body: demo });
  });
  const row = (name) => page.locator('#catalogue li', { hasText: name });
  await page.evaluate(() => (navigator.storage.estimate = async () => ({ quota: 2e9, usage: 0 })));
  await openModels(page);
  await row('Gemma 4 E2B').getByText(/^3\.1 GB, no room: 2\.0 GB of storage left; /).waitFor();
  await row('Qwen3.5 0.8B').getByText(/^533 MB, (?:fits here|may not fit)/).waitFor();
  await page.getByRole('button', { name: 'Download Qwen3.5 0.8B' }).click();
  await ready(page);
  await setTemperature(page, '0');
  assert.match(await ask(page, 'What is a violin?'), /^violin/);
  await openModels(page);
  assert.deepEqual(await stored(page), ['Qwen3.5-0.8B-Q4_K_M.gguf']);
  assert.equal(await row('Qwen3.5 0.8B').count(), 0, 'it is among the stored ones');
  assert.match(asked[0], /^https:\/\/huggingface\.co\/unsloth\/Qwen3\.5-0\.8B-GGUF\/resolve\/main\/Qwen3\.5-0\.8B-Q4_K_M\.gguf$/);
});

test('the processor computes on several threads where the page is isolated, and on one elsewhere', async () => {
  const plain = await new Site().start({ headers: {} });
  const answers = [];
  for (const where of [site, plain]) {
    const page = await openPage(context, where);
    const isolated = await page.evaluate(() => crossOriginIsolated);
    assert.equal(isolated, where === site);
    await setDevice(page, 'cpu');
    await download(page, `${where.origin}/models/threads.gguf`);
    await ready(page);
    await setTemperature(page, '0');
    const threads = isolated ? await page.evaluate(() => Math.min(navigator.hardwareConcurrency, 16)) : 1;
    assert.match(await page.locator('#model-device').getAttribute('title'), threads === 1 ? / 1 thread$/ : new RegExp(` ${threads} threads$`));
    answers.push(await ask(page, 'What is a violin?'));
  }
  plain.stop();
  assert.equal(answers[0], answers[1]);
});
