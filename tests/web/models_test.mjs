// Where models come from: what is none is said before anything is copied or closed, and only models are listed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ask, download, errorOf, kDemoFile, loadDemo, openPage, ready, setDevice, setTemperature } from './harness.mjs';
import { context, give, openModels, site, stored } from './suite.mjs';

const kSoon = 3000; // ms
const demo = readFileSync(kDemoFile);
const other = Buffer.from(demo);
other.write('llama4', other.indexOf('gemma4'), 'latin1'); // the value of general.architecture

test('what is no model is said before it is copied, and the open one goes on answering', async () => {
  const page = await openPage(context, site);
  await setDevice(page, 'cpu');
  await loadDemo(page);
  await setTemperature(page, '0');
  const wrong = [
    ['picture.gguf', Buffer.from('\x89PNG\r\n\x1a\n0123456789'), /^picture\.gguf: .*GGUF/],
    ['page.gguf', Buffer.from('<!doctype html><title>no</title>'), /^page\.gguf: .*GGUF/],
    ['empty.gguf', Buffer.alloc(0), /^empty\.gguf: /],
    ['other.gguf', other, /^other\.gguf: .*llama4/],
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
  assert.deepEqual(await stored(page), ['demo-gemma4-q8_0.gguf']);
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

test('a model is dropped anywhere, also on the dialog', async () => {
  const page = await openPage(context, site);
  await setDevice(page, 'cpu');
  await openModels(page);
  await give(page, 'drop', 'dropped.gguf', '', demo);
  await ready(page);
  assert.equal(await page.locator('#models').evaluate((dialog) => dialog.open), false);
  await setTemperature(page, '0');
  assert.match(await ask(page, 'What is a violin?'), /^violin/);
});
