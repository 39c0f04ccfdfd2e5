// The built page in Chromium, as a user drives it: models, answers, pictures and sounds, the package.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  answerOf,
  ask,
  begin,
  download,
  errorOf,
  holdAt,
  kDemoBytes,
  kDemoFile,
  loadDemo,
  openPage,
  ready,
  setDevice,
  setJson,
  setTemperature,
} from './harness.mjs';
import { attached, context, give, openModels, site, stored, useWorker } from './suite.mjs';

const kViolin = /^violin \(noun\): bow/;
const kMillion = 1_000_000;
const kDemoLayers = 8;
const kGpuPatience = 300_000; // ms; a processor plays the GPU, and compiles its kernels first
const kMixtureFiles = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors'].map((name) =>
  join(import.meta.dirname, '../data/gemma4_moe', name),
);
// A model with random weights that takes pictures; what the demo model sees and hears, and its towers' file.
const filesOf = (folder) =>
  readdirSync(folder)
    .filter((name) => /\.(json|jinja|safetensors)$/.test(name) && !name.startsWith('golden'))
    .map((name) => join(folder, name));
const kDense = join(import.meta.dirname, '../data/gemma4_dense');
const kShown = join(import.meta.dirname, '../data/gemma4');
const kDemoTowers = join(kDemoFile, '../mmproj-demo-gemma4.gguf');
const kRedCircle = 'A red circle on the left and a blue square on the right.';
const kBeeps = 'One long low beep and then three short low beeps.';
const digest = createHash('sha256').update(readFileSync(kDemoFile)).digest('hex');

const modelUrl = (name = 'far.gguf') => `${site.origin}/models/${name}`;
const sent = (name = 'far.gguf') => site.requests.filter((one) => one.name === name);

test('the demo model answers after one click, and again without a network after a reload', async () => {
  const page = await openPage(context, site);
  await loadDemo(page);
  await setTemperature(page, '0');
  assert.match(await ask(page, 'What is a violin?'), kViolin);
  assert.match(await page.locator('#messages .meta').last().innerText(), /tokens\/s/);
  assert.match(await page.locator('#stats').innerText(), /tokens\/s · .*memory/);
  await page.evaluate(() => navigator.serviceWorker.ready);
  site.down = true;
  await page.reload();
  await ready(page);
  assert.equal(await page.locator('#messages > li').count(), 2, 'the conversation is still there');
  assert.match(await ask(page, 'What is a cello?'), /^cello \(noun\): /);
});

test('a JSON schema holds for a model in the page, too', async () => {
  const page = await openPage(context, site);
  await loadDemo(page);
  const schema = { type: 'object', properties: { word: { type: 'string', maxLength: 9 } }, required: ['word'], additionalProperties: false };
  await setJson(page, 'JSON schema', JSON.stringify(schema));
  assert.deepEqual(Object.keys(JSON.parse(await ask(page, 'What is a violin?'))), ['word']);
  await setJson(page, 'JSON schema', '{"not": {}}');
  await begin(page, 'What is a cello?');
  assert.match(await errorOf(page), /not: cannot be honoured/);
});

test('a picked file answers, and is only kept when the user wants it', async () => {
  const page = await openPage(context, site);
  await page.getByLabel('Keep a copy in this browser').first().uncheck();
  await page.locator('#welcome-file').setInputFiles(kDemoFile);
  await ready(page);
  await setTemperature(page, '0');
  assert.match(await ask(page, 'What is a violin?'), kViolin);
  await openModels(page);
  assert.deepEqual(await stored(page), []);
  await page.getByRole('dialog').getByLabel('Keep a copy in this browser').check();
  await page.locator('#dialog-file').setInputFiles(kDemoFile);
  await page.locator('#models:not([open])').waitFor({ state: 'attached' });
  await ready(page);
  await openModels(page);
  assert.deepEqual(await stored(page), ['demo-gemma4-q8_0.gguf']);
});

test('an answer is stopped, made again and asked for in other words', async () => {
  const page = await openPage(context, site);
  await loadDemo(page);
  await setTemperature(page, '0');
  const first = await ask(page, 'What is a violin?');
  await page.getByRole('button', { name: 'Again' }).click();
  assert.equal(await answerOf(page), first, 'the likeliest words are the same again');
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Message, edited').fill('What is a cello?');
  await page.keyboard.press('Enter');
  assert.match(await answerOf(page), /^cello/);
  assert.equal(await page.locator('#messages > li').count(), 2);
  // Stopped before it has begun, so that no machine is too fast for this.
  await page.getByLabel('Message', { exact: true }).fill('Name some kinds of dog.');
  await page.evaluate(() => {
    document.querySelector('#composer').requestSubmit();
    document.querySelector('#stop').click();
  });
  await answerOf(page);
  assert.match(await page.locator('#messages .meta').last().innerText(), /stopped/);
  assert.match(await ask(page, 'What is a violin?'), kViolin);
});

test('an interrupted download goes on where it was, in the same tab and in a later one', async () => {
  const page = await openPage(context, site);
  site.cutAt = 3 * kMillion;
  const release = holdAt(site, 6 * kMillion);
  await download(page, modelUrl(), digest);
  await page.waitForFunction(() => /[456]\.\d MB/.test(document.querySelector('#load-text').textContent));
  assert.ok(sent()[1].begin > 0, 'the second request does not begin at 0');
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.locator('#load').waitFor({ state: 'hidden' });
  release();
  await page.close();

  const later = await openPage(context, site);
  const before = sent().length;
  await openModels(later);
  await later.getByRole('button', { name: 'Go on with far.gguf' }).click();
  await ready(later);
  assert.ok(sent()[before].begin > 3 * kMillion, `went on at ${sent()[before].begin}`);
  await setTemperature(later, '0');
  assert.match(await ask(later, 'What is a violin?'), kViolin);
});

test('a file with another digest is refused, and one that changes on the server is fetched anew', async () => {
  const page = await openPage(context, site);
  await download(page, modelUrl('wrong.gguf'), '0'.repeat(64));
  assert.match(await errorOf(page), new RegExp(`^wrong\\.gguf: its SHA-256 is ${digest}: want 0{64}\\.$`));
  const release = holdAt(site, 5 * kMillion);
  site.etag = '"old"';
  await download(page, modelUrl(), digest);
  await page.waitForFunction(() => /[345]\.\d MB/.test(document.querySelector('#load-text').textContent));
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.locator('#load').waitFor({ state: 'hidden' });
  release();
  site.etag = '"new"';
  await download(page, modelUrl(), digest);
  await ready(page);
  assert.deepEqual(
    sent()
      .slice(-2)
      .map(({ begin }) => begin === 0),
    [true, false],
    'began again, then the last piece',
  );
});

test('two tabs share one download, and the second goes on when the first is closed', async () => {
  const first = await openPage(context, site),
    second = await openPage(context, site);
  let release = holdAt(site, 4 * kMillion);
  await download(first, modelUrl());
  await first.waitForFunction(() => /[345]\.\d MB/.test(document.querySelector('#load-text').textContent));
  await download(second, modelUrl());
  await second.getByText('Another tab downloads it').waitFor();
  release();
  await Promise.all([ready(first), ready(second)]);
  assert.ok(sent().reduce((sum, one) => sum + one.sent, 0) <= kDemoBytes, 'no byte was fetched twice');
  for (const page of [first, second]) await setTemperature(page, '0');
  const answers = await Promise.all([first, second].map((page) => ask(page, 'What is a violin?')));
  for (const answer of answers) assert.match(answer, kViolin);

  release = holdAt(site, 4 * kMillion);
  await download(first, modelUrl('other.gguf'));
  await first.waitForFunction(() => /[345]\.\d MB/.test(document.querySelector('#load-text').textContent));
  await download(second, modelUrl('other.gguf'));
  release(); // of the first one's connection, which ends with the tab
  await first.close();
  await ready(second);
});

test('a full storage is said in one sentence, and keeps what was there', async () => {
  const page = await openPage(context, site);
  await loadDemo(page);
  const used = await page.evaluate(async () => (await navigator.storage.estimate()).usage);
  const devtools = await context.newCDPSession(page);
  await devtools.send('Storage.overrideQuotaForOrigin', { origin: site.origin, quotaSize: used + 2 * kMillion });
  await download(page, modelUrl());
  assert.match(
    await errorOf(page),
    /^far\.gguf: needs [\d.]+ MB more, and this page's storage (?:is full|has [\d.]+ (?:[KM]B|bytes) left): delete a model or free space on the disk\.$/,
  );
  await openModels(page);
  assert.deepEqual(await stored(page), ['demo-gemma4-q8_0.gguf', 'far.gguf']);
  await page.getByRole('button', { name: 'Open demo-gemma4-q8_0.gguf' }).click();
  await ready(page);
});

test('a stored model is deleted after a second press, but not while another tab uses it', async () => {
  const page = await openPage(context, site),
    other = await openPage(context, site);
  await loadDemo(page);
  await loadDemo(other);
  const press = async () => {
    await openModels(page);
    const button = page.getByRole('button', { name: 'Delete demo-gemma4-q8_0.gguf' });
    await button.click();
    await button.click();
  };
  await press();
  assert.match(await errorOf(page), /is in use in this tab or another: close it there first\.$/);
  await other.close();
  await press();
  await page.getByText('Nothing yet.').waitFor();
  const left = await page.evaluate(async () => {
    const models = await (await navigator.storage.getDirectory()).getDirectoryHandle('models');
    return Array.fromAsync(models.keys());
  });
  assert.deepEqual(left, []);
  assert.equal(await page.locator('#prompt').isDisabled(), true, 'the model is closed');
});

test('without WebGPU the processor computes, and the page says so', async () => {
  await useWorker("Object.defineProperty(navigator, 'gpu', { value: undefined })");
  const page = await openPage(context, site);
  await loadDemo(page);
  assert.equal(await page.locator('#model-device').innerText(), 'CPU');
  assert.equal(
    await page.locator('#notice').innerText(),
    'This browser has no WebGPU: the processor computes instead (WebAssembly SIMD), more slowly.',
  );
});

// Keeps the device that the engine asks for, says what kernels it was given, and loses it when the test says so.
const kWatchedDevice = `{
  const request = GPUAdapter.prototype.requestDevice, dispatch = GPUComputePassEncoder.prototype.dispatchWorkgroups;
  let device = null, dispatches = 0;
  GPUAdapter.prototype.requestDevice = async function (...all) { return (device = await request.apply(this, all)); };
  GPUComputePassEncoder.prototype.dispatchWorkgroups = function (...all) { ++dispatches; dispatch.apply(this, all); };
  const channel = new BroadcastChannel('gpu');
  channel.onmessage = ({ data }) => (data === 'lose' ? device.destroy() : channel.postMessage(dispatches));
}`;
const dispatchesOf = (page) =>
  page.evaluate(() => {
    const channel = new BroadcastChannel('gpu');
    channel.postMessage('count');
    return new Promise((resolve) => (channel.onmessage = ({ data }) => resolve(data)));
  });

test('the GPU answers where the user chooses it, and a lost one is said and opened again', async () => {
  await useWorker(kWatchedDevice);
  context.setDefaultTimeout(kGpuPatience);
  const page = await openPage(context, site);
  await setDevice(page, 'webgpu');
  await loadDemo(page);
  assert.equal(await page.locator('#model-device').innerText(), 'WebGPU');
  await setTemperature(page, '0');
  const before = await dispatchesOf(page);
  const answer = await ask(page, 'What is a violin?');
  assert.match(answer, kViolin);
  assert.match(await page.locator('#stats').innerText(), /on the GPU/);
  const words = answer.split(' ').length;
  const dispatches = (await dispatchesOf(page)) - before;
  assert.ok(dispatches > kDemoLayers * words, `${dispatches} kernels for ${words} words`);
  await page.getByLabel('Message', { exact: true }).fill('What is a cello?');
  await page.evaluate(() => {
    document.querySelector('#composer').requestSubmit();
    new BroadcastChannel('gpu').postMessage('lose');
  });
  assert.match(await errorOf(page), /^Webgpu: the GPU device was lost \(.*\)\.$/);
  await page.getByRole('button', { name: 'Load again' }).click();
  await ready(page);
  assert.match(await ask(page, 'What is a cello?'), /^cello \(noun\): /);
  assert.equal(await page.locator('#model-device').innerText(), 'WebGPU');
});

// The answers of a model with random weights are nonsense, but always the same.
test('a mixture answers as before in the memory that the user gives its experts, and says what it holds', async () => {
  const page = await openPage(context, site);
  const stats = page.locator('#stats');
  const setMemory = async (megabytes) => {
    await page.getByRole('button', { name: 'Settings' }).click();
    const field = page.getByLabel('Memory for experts');
    await field.fill(megabytes);
    await field.press('Escape');
  };
  const open = async () => {
    await openModels(page);
    await page.locator('#dialog-file').setInputFiles(kMixtureFiles);
  };
  await setDevice(page, 'cpu');
  await setTemperature(page, '0');
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Longest answer').fill('12');
  await page.keyboard.press('Escape');
  const answers = [];
  for (const megabytes of ['', '0.24']) {
    await setMemory(megabytes);
    await open();
    await ready(page);
    answers.push(await ask(page, 'What is a violin?'));
    if (megabytes === '') assert.doesNotMatch(await stats.innerText(), /experts/);
    await page.getByRole('button', { name: 'New chat' }).click();
  }
  assert.equal(answers[1], answers[0]);
  assert.notEqual(answers[0], '');
  assert.match(await stats.innerText(), / · room for 11 of 40 experts, \d+ % found there · /);
  await setMemory('0.001');
  await open();
  assert.match(await errorOf(page), /^Experts: 1\.0 kB for them: want at least the [\d.]+ kB of one\.$/);
});

async function openFiles(page, files) {
  await page.getByLabel('Keep a copy in this browser').first().uncheck();
  await page.locator('#welcome-file').setInputFiles(files);
  await ready(page);
  await setTemperature(page, '0');
}
const setDeviceAndLength = async (page, tokens) => {
  await setDevice(page, 'cpu');
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Longest answer').fill(tokens);
  await page.keyboard.press('Escape');
};

test('a picture is picked, removed, dropped and asked about, and what the model does not take is said', async () => {
  const page = await openPage(context, site);
  await setDeviceAndLength(page, '6');
  await openFiles(page, filesOf(kDense));
  const picture = join(kDense, 'image.png');
  assert.equal(await page.getByRole('button', { name: 'Record a sound' }).isVisible(), false);
  const chooser = page.waitForEvent('filechooser');
  await page.getByRole('button', { name: 'Add a picture or a sound' }).click();
  await (await chooser).setFiles(picture);
  await attached(page).getByRole('img', { name: 'image.png' }).waitFor();
  await page.getByRole('button', { name: 'Remove image.png' }).click();
  assert.equal(await page.locator('#attached li').count(), 0);
  await give(page, 'drop', picture, 'image/png');
  await attached(page).waitFor();
  // Long enough for a cut behind the picture, within which there is none.
  const question = 'What is this? '.repeat(12);
  const first = await ask(page, question);
  assert.notEqual(first, '');
  assert.equal(await attached(page).count(), 0, 'it is sent');
  const shown = page.locator('#messages .user img');
  assert.equal(await shown.getAttribute('alt'), 'image.png');
  assert.ok(await shown.evaluate((image) => image.complete && image.naturalWidth === 384), 'the thumbnail is there');
  // The second turn computes nothing of it again.
  await ask(page, 'And why?');
  const meta = await page.locator('#messages .meta').last().innerText();
  const [, kept] = /, ([\d,]+) of them kept/.exec(meta) ?? [];
  assert.ok(Number(kept) > 64, meta);
  // Edited, the message keeps its picture; the same question gets the same answer.
  await page.getByRole('button', { name: 'Edit' }).first().click();
  await page.getByLabel('Message, edited').fill(question);
  await page.keyboard.press('Enter');
  assert.equal(await answerOf(page), first);
  assert.equal(await shown.count(), 1);

  await give(page, 'drop', picture, 'text/plain');
  assert.equal(await errorOf(page), 'image.png: is neither a model, a picture nor a sound: want one.');
  await give(page, 'drop', join(import.meta.dirname, '../data/media/mono16.wav'), 'audio/wav');
  await page.getByText('takes no sounds: want a model that does, with its mmproj file if it has one.').waitFor();
  await give(page, 'drop', join(kDense, 'config.json'), 'image/png');
  await page.getByText('config.json: this browser does not decode it: want a PNG, JPEG, WebP, GIF or BMP picture.').waitFor();
  assert.equal(await page.locator('#attached li').count(), 0);
  // A model without towers is asked about the same conversation.
  await openModels(page);
  await page.getByRole('dialog').getByLabel('Keep a copy in this browser').uncheck();
  await page.locator('#dialog-file').setInputFiles(kDemoFile);
  await page.getByRole('button', { name: 'Add a picture or a sound' }).waitFor({ state: 'hidden' });
  await ready(page);
  await page.getByText('takes no pictures: it is given the names of those in this conversation.').waitFor();
  assert.equal(await shown.count(), 1, 'the picture is still shown');
  await ask(page, 'And why?');
});

test('a picture of the camera has its place in the message', async () => {
  const page = await openPage(context, site);
  await setDeviceAndLength(page, '2');
  await openFiles(page, filesOf(kDense));
  await page.getByRole('button', { name: 'Take a picture' }).click();
  const dialog = page.getByRole('dialog', { name: 'Camera' });
  await page.waitForFunction(() => document.querySelector('#camera-view').videoWidth > 0);
  await dialog.getByRole('button', { name: 'Take the picture' }).click();
  await attached(page).getByRole('img', { name: 'picture from the camera.png' }).waitFor();
  assert.equal(await page.locator('#camera-view').evaluate((video) => video.srcObject), null, 'the camera is off');
  await page.getByRole('button', { name: 'Send' }).click();
  await answerOf(page);
  assert.equal(await page.locator('#messages .user .text').isVisible(), false, 'there is no text to show');
});

test('the demo model names shapes and sounds, also of a microphone', async () => {
  const page = await openPage(context, site);
  await setDevice(page, 'cpu');
  await loadDemo(page);
  await setTemperature(page, '0');
  await give(page, 'paste', join(kShown, 'picture1.png'), 'image/png');
  await attached(page).waitFor();
  assert.equal(await ask(page, 'What is in this picture?'), kRedCircle);
  await page.getByRole('button', { name: 'New chat' }).click();
  await give(page, 'drop', join(kShown, 'sound2.wav'), 'audio/wav');
  await attached(page).getByText('sound2.wav, 0:02').waitFor();
  assert.equal(await ask(page, 'Describe the sound.'), kBeeps);
  await page.locator('#messages .user audio').waitFor();

  await page.getByRole('button', { name: 'New chat' }).click();
  await page.getByRole('button', { name: 'Record a sound' }).click();
  await page.waitForFunction(() => document.querySelector('#recording-level').value > 0.2);
  await page.getByText('0:02 of').waitFor();
  await page.getByRole('button', { name: 'Done' }).click();
  await attached(page).getByText(/^recorded sound, 0:0[23]$/).waitFor();
  assert.match(await ask(page, 'What do you hear?'), /beep/);
  // Its towers are stored and open with it.
  await page.evaluate(() => navigator.serviceWorker.ready);
  site.down = true;
  await page.reload();
  await ready(page);
  await page.locator('#messages .user audio').waitFor();
  await page.waitForFunction(() => document.querySelector('#messages .user audio').readyState > 0); // the sound is kept
  await give(page, 'drop', join(kShown, 'picture1.png'), 'image/png');
  await attached(page).waitFor();
  await page.getByRole('button', { name: 'New chat' }).click();
  assert.equal(await ask(page, 'What is in this picture?'), kRedCircle);
});

test("a model's towers are picked with it", async () => {
  const page = await openPage(context, site);
  await setDevice(page, 'cpu');
  await openFiles(page, [kDemoTowers, kDemoFile]);
  await give(page, 'drop', join(kShown, 'picture1.png'), 'image/png');
  assert.equal(await ask(page, 'What is in this picture?'), kRedCircle);
});

test('an address without a model gives a sentence', async () => {
  const page = await openPage(context, site);
  await download(page, `${site.origin}/nothing.gguf`);
  assert.equal(await errorOf(page), 'nothing.gguf: the server answers 404: there is no such file.');
  await download(page, `${site.origin}/icon.svg`);
  assert.match(await errorOf(page), /^icon\.svg: not a GGUF file/);
});

test('the page is used with the keyboard alone, named for screen readers, and fits a phone', async () => {
  const page = await openPage(context, site);
  await page.setViewportSize({ width: 360, height: 640 });
  const button = page.getByRole('button', { name: /Try the demo model/ });
  for (let i = 0; i < 20 && !(await button.evaluate((element) => element === document.activeElement)); ++i)
    await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await ready(page);
  await page.locator('#prompt:focus').waitFor();
  await page.keyboard.type('What is a violin?');
  await page.keyboard.press('Enter');
  await answerOf(page);
  const answer = await page.locator('#messages > li:last-child > .text').innerText();
  assert.equal(await page.locator('#announce').innerText(), answer, 'a finished answer is read out');
  const unnamed = await page.evaluate(() =>
    [...document.querySelectorAll('button, input, textarea, select')]
      .filter((one) => !(one.ariaLabel || one.labels?.length || one.textContent.trim()))
      .map((one) => one.outerHTML),
  );
  assert.deepEqual(unnamed, []);
  for (const open of ['#open-settings', '#open-models']) {
    await page.locator(open).click();
    assert.ok(
      await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
      `${open}: nothing sticks out`,
    );
    await page.keyboard.press('Escape');
  }
});

test('the package: tokens, an aborted answer, a conversation, saved state, errors', async () => {
  const page = await openPage(context, site);
  const seen = await page.evaluate(async (url) => {
    const { Sluice, SluiceError } = await import('./sluice.js');
    const told = [],
      seen = {};
    const sentence = (promise) =>
      promise.then(
        () => 'none',
        (error) => `${error instanceof SluiceError} ${error.kind}: ${error.message}`,
      );
    const model = await Sluice.load(url, { context: 1024, onProgress: ({ stage }) => told.push(stage) });
    seen.stages = [...new Set(told)];
    const tokens = await model.tokenize('What is a violin?');
    seen.text = await model.detokenize(tokens);
    const question = [{ role: 'user', content: 'What is a violin?' }];
    let pieces = '';
    for await (const { text } of model.generate(question, { temperature: 0 })) pieces += text;
    const whole = await model.generate(question, { temperature: 0 }).result;
    seen.same = [pieces === whole.text, whole.text, whole.finish];
    // Longer than a page of the cache, 64 tokens: what is saved is whole pages.
    const dialogue = ['a cello', 'a flute', 'a drum'].flatMap((what) => [
      { role: 'user', content: `What is ${what}?` },
      { role: 'assistant', content: whole.text },
    ]);
    await model.generate([...dialogue, ...question], { temperature: 0 }).result;
    const state = await model.saveState();
    const stop = new AbortController();
    const parts = [];
    for await (const { tokens } of model.generate(question, { temperature: 0, signal: stop.signal })) {
      parts.push(tokens);
      if (tokens >= 2) stop.abort();
    }
    seen.aborted = parts.at(-1) < whole.tokens;
    seen.stop = (await model.generate(question, { temperature: 0, stop: ['bowed'] }).result).text;
    seen.short = (await model.generate(question, { temperature: 0, maxTokens: 3 }).result).finish;
    const busy = model.generate(question);
    seen.busy = await sentence(model.generate(question).result);
    for await (const _ of busy) break;
    const chat = model.chat({ temperature: 0 });
    await chat.send('What is a violin?').result;
    seen.reused = (await chat.send('And a cello?').result).reusedTokens > 0;
    seen.roles = chat.messages.map(({ role }) => role);
    // What is refused is not said, so that later messages are answered.
    seen.refused = await sentence(chat.send('violin '.repeat(3000)).result);
    seen.later = (await chat.send('What is a drum?').result).text;
    const measured = await model.measure(question);
    seen.measured = measured === (await model.generate(question, { maxTokens: 1 }).result).promptTokens;
    model.close();
    seen.closed = await sentence(model.tokenize('a'));

    const second = await Sluice.load(url, { context: 1024 });
    seen.note = await second.restoreState(state);
    const again = await second.generate([...dialogue, ...question], { temperature: 0 }).result;
    seen.restored = again.reusedTokens >= 64;
    state[state.length >> 1] ^= 1;
    seen.damaged = await sentence(second.restoreState(state));
    seen.stats = (await second.stats()).heapBytes > 0;
    second.close();
    seen.missing = await sentence(Sluice.load({ stored: 'nothing' }));
    return seen;
  }, modelUrl());
  assert.deepEqual(seen.stages, ['connecting', 'downloading', 'checking', 'opening']);
  assert.equal(seen.text, 'What is a violin?');
  assert.equal(seen.same[0], true);
  assert.match(seen.same[1], kViolin);
  assert.equal(seen.same[2], 'stop');
  assert.equal(seen.aborted, true);
  assert.equal(seen.stop, 'violin (noun): ');
  assert.equal(seen.short, 'length');
  assert.equal(seen.busy, 'true busy: an answer is being made: stop it or wait for it first');
  assert.equal(seen.reused, true);
  assert.deepEqual(seen.roles, ['user', 'assistant', 'user', 'assistant']);
  assert.match(seen.refused, /^true model: .*1,?024/);
  assert.match(seen.later, /^drum/);
  assert.equal(seen.measured, true, 'as many tokens as the prompt has');
  assert.equal(seen.closed, 'true closed: the model was closed');
  assert.equal(seen.note, '');
  assert.equal(seen.restored, true);
  assert.match(seen.damaged, /^true model: /);
  assert.equal(seen.stats, true);
  assert.equal(seen.missing, "true storage: nothing: is not in this page's storage: load it again");
});

const pictures = process.env.SCREENSHOTS;
test('pictures for the documentation', { skip: pictures ? false : 'want SCREENSHOTS=FOLDER' }, async () => {
  mkdirSync(pictures, { recursive: true });
  const page = await openPage(context, site);
  await page.setViewportSize({ width: 960, height: 640 });
  await loadDemo(page);
  await setTemperature(page, '0');
  for (const question of ['What is a violin?', 'What is the opposite of hot?', 'And a cello?'])
    await ask(page, question);
  const take = (name) => page.screenshot({ path: `${pictures}/${name}.png`, animations: 'disabled' });
  await page.evaluate(() => document.activeElement.blur());
  await take('page-light');
  await page.getByRole('button', { name: 'Dark colours' }).click();
  await openModels(page);
  await take('page-dark');
  await page.keyboard.press('Escape');
  await page.setViewportSize({ width: 390, height: 760 });
  await take('page-phone');
});

test('a picture of a picture for the documentation', { skip: pictures ? false : 'want SCREENSHOTS=FOLDER' }, async () => {
  const page = await openPage(context, site);
  await page.setViewportSize({ width: 960, height: 640 });
  await setDevice(page, 'cpu');
  await loadDemo(page);
  await setTemperature(page, '0');
  await give(page, 'paste', join(kShown, 'picture1.png'), 'image/png');
  await attached(page).waitFor();
  assert.equal(await ask(page, 'What is in this picture?'), kRedCircle);
  await give(page, 'drop', join(kShown, 'sound2.wav'), 'audio/wav');
  await attached(page).waitFor();
  await page.getByLabel('Message', { exact: true }).fill('Describe the sound.');
  await page.screenshot({ path: `${pictures}/page-media.png`, animations: 'disabled' });
});
