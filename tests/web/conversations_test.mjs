// Conversations in the page: kept in a list, written as they stream, shared by two tabs; settings and limits of what is said.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { answerOf, ask, errorOf, loadDemo, openPage, ready, setDevice, setTemperature } from './harness.mjs';
import { attached, context, give, site, slowWorker, useWorker } from './suite.mjs';

const kShown = join(import.meta.dirname, '../data/gemma4/picture1.png');
const kDense = join(import.meta.dirname, '../data/gemma4_dense');
const kStepTime = 40; // ms

const names = (page) => page.locator('#conversation-list .name').allInnerTexts();
const named = (page, name) => page.locator('#conversation-list .name', { hasText: name });
const said = (page) => page.locator('#messages > li > .text').allInnerTexts();
async function toolOf(page, name, tool) {
  await named(page, name).hover();
  await page.getByRole('button', { name: `${tool} ${name}` }).click();
}
async function openDemo(page) {
  await setDevice(page, 'cpu');
  await loadDemo(page);
  await setTemperature(page, '0');
}

test('conversations are listed, searched, renamed, deleted and brought back, with their pictures', async () => {
  const page = await openPage(context, site);
  await openDemo(page);
  const violin = await ask(page, 'What is a violin?');
  await page.getByRole('button', { name: 'New chat' }).click();
  await give(page, 'paste', kShown, 'image/png');
  await attached(page).waitFor();
  await ask(page, 'What is in this picture?');
  await page.locator('#conversation-list li').nth(1).waitFor();
  assert.deepEqual(await names(page), ['What is in this picture?', 'What is a violin?'], 'the last one first');

  await page.reload();
  await ready(page);
  const picture = page.locator('#messages .user img');
  await picture.waitFor();
  assert.ok(await picture.evaluate(async (image) => (await image.decode(), image.naturalWidth > 0)), 'the picture is kept');
  assert.match(await page.locator('#messages .meta').innerText(), /tokens\/s/, 'so are the speeds');
  await ask(page, 'Describe the picture.');

  await page.getByLabel('Search conversations').fill('BOW');
  await page.waitForFunction(() => document.querySelectorAll('#conversation-list .name').length === 1);
  await named(page, 'What is a violin?').click();
  await page.waitForFunction(() => document.querySelectorAll('#messages > li').length === 2);
  assert.deepEqual(await said(page), ['What is a violin?', violin]);
  await page.getByLabel('Search conversations').fill('');
  await toolOf(page, 'What is a violin?', 'Rename');
  await page.getByLabel('Name of the conversation').fill('Strings');
  await page.keyboard.press('Enter');
  await named(page, 'Strings').waitFor();

  await toolOf(page, 'Strings', 'Delete');
  await page.getByText('“Strings” is deleted.').waitFor();
  assert.deepEqual(await names(page), ['What is in this picture?']);
  assert.deepEqual(await said(page), []);
  await page.getByRole('button', { name: 'Undo' }).click();
  await named(page, 'Strings').waitFor();
  await page.waitForFunction(() => document.querySelectorAll('#messages > li').length === 2);
  assert.deepEqual(await said(page), ['What is a violin?', violin]);
  // As a file, and from it in another browser's storage.
  const file = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export all' }).click();
  const path = await (await file).path();
  const archive = JSON.parse(readFileSync(path));
  assert.deepEqual(archive.conversations.map(({ name }) => name).sort(), ['Strings', 'What is in this picture?']);
  await toolOf(page, 'What is in this picture?', 'Delete');
  await page.waitForFunction(() => document.querySelectorAll('#conversation-list .name').length === 1);
  const importFile = (text) =>
    page.locator('#import-file').setInputFiles({ name: 'my.conversations.json', mimeType: 'application/json', buffer: Buffer.from(text) });
  for (let i = 0; i < 2; ++i) await importFile(JSON.stringify(archive));
  await named(page, 'What is in this picture?').click();
  await picture.waitFor();
  assert.ok(await picture.evaluate(async (image) => (await image.decode(), image.naturalWidth > 0)), 'the file has it, too');
  assert.equal((await names(page)).length, 2, 'twice the same file is the same conversations');
  // What is wrong with a file is said, and nothing of it is taken.
  archive.conversations[0].messages[1].role = 'nobody';
  archive.conversations[0].id = 'other';
  await importFile(JSON.stringify(archive));
  assert.equal(await errorOf(page), 'my.conversations.json.conversations[0].messages[1].role: found "nobody": want user or assistant.');
  await importFile('{"format": "other"}');
  await page.getByText('my.conversations.json.format: found "other": want "sluice-conversations", as this page exports it.').waitFor();
  await importFile('GGUF');
  await page.getByText('my.conversations.json: is no JSON: want a file of conversations that this page has exported.').waitFor();
  assert.equal((await names(page)).length, 2);
});

test('a reload during an answer loses neither the question nor what was written', async () => {
  await useWorker(slowWorker(kStepTime));
  const page = await openPage(context, site);
  await openDemo(page);
  await page.getByLabel('Message', { exact: true }).fill('What is a violin?');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /bow/.test(document.querySelector('#messages .assistant > .text')?.innerText ?? ''));
  await page.waitForTimeout(10 * kStepTime); // longer than the page waits between two writes
  await page.reload();
  await page.locator('#messages .assistant > .text').waitFor();
  const [question, part] = await said(page);
  assert.equal(question, 'What is a violin?');
  assert.match(part, /^violin \(noun\): bow/);
  assert.match(await page.locator('#messages .meta').innerText(), /^not finished/);
  await ready(page);
  await page.getByRole('button', { name: 'Again' }).click();
  assert.match(await answerOf(page), /^violin \(noun\): bow/);
  assert.match(await page.locator('#messages .versions').innerText(), /2 of 2/);
});

test('two tabs of one conversation lose nothing, and versions are gone through', async () => {
  const first = await openPage(context, site);
  await openDemo(first);
  await ask(first, 'What is a violin?');
  const second = await openPage(context, site);
  await ready(second);
  await second.locator('#messages > li').nth(1).waitFor();
  assert.equal(await second.locator('#messages > li').count(), 2, 'a new tab shows the last conversation');
  // As if both asked at the same moment: neither hears of the other.
  for (const tab of [first, second]) await tab.evaluate(() => (BroadcastChannel.prototype.postMessage = () => {}));
  await ask(second, 'What is a flute?');
  await ask(first, 'What is a cello?');
  await first.bringToFront();
  await first.reload();
  await ready(first);
  await first.locator('#messages > li').nth(3).waitFor();
  const seen = [(await said(first))[2]];
  const versions = first.locator('#messages .user .versions');
  assert.match(await versions.innerText(), /[12] of 2/);
  const step = (await versions.innerText()).includes('1 of 2') ? 'Later' : 'Earlier';
  await first.getByRole('button', { name: `${step} version of the question` }).click();
  seen.push((await said(first))[2]);
  assert.deepEqual(seen.sort(), ['What is a cello?', 'What is a flute?']);
  // An edited question is a further version; the other tab, which shows an older one, keeps showing it.
  await first.getByRole('button', { name: 'Edit' }).nth(1).click();
  await first.getByLabel('Message, edited').fill('What is a drum?');
  await first.keyboard.press('Enter');
  assert.match(await answerOf(first), /^drum/);
  assert.match(await versions.innerText(), /3 of 3/);
  await first.getByRole('button', { name: 'Earlier version of the question' }).click();
  assert.match(await versions.innerText(), /2 of 3/);
  // What one tab says, another one that shows the same hears.
  await second.bringToFront();
  await second.reload();
  await ready(second);
  await second.waitForFunction(() => document.querySelectorAll('#messages > li').length === 4);
  await ask(first, 'What is a harp?');
  await second.bringToFront();
  await second.waitForFunction(() => document.querySelectorAll('#messages > li').length === 6);
  await second.getByText('What is a harp?', { exact: true }).first().waitFor();
  assert.equal(await second.locator('#messages .user').last().locator('.text').innerText(), 'What is a harp?');
});

test('a conversation of an earlier version of the page is taken over', async () => {
  const page = await openPage(context, site);
  await page.evaluate(() => {
    const said = [{ role: 'user', content: 'What is a lute?' }, { role: 'assistant', content: 'An instrument.' }];
    localStorage.setItem('sluice.messages', JSON.stringify(said));
  });
  await page.reload();
  await page.locator('#messages > li').nth(1).waitFor();
  assert.deepEqual(await said(page), ['What is a lute?', 'An instrument.']);
  await named(page, 'What is a lute?').waitFor();
  assert.equal(await page.evaluate(() => localStorage.getItem('sluice.messages')), null);
});

test('an overlong message stays in the box, and later ones are answered; the context used is shown', async () => {
  const page = await openPage(context, site);
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Context').fill('512');
  await page.keyboard.press('Escape');
  await openDemo(page);
  const first = await ask(page, 'What is a violin?');
  await page.locator('#messages > li').first().evaluate((item) => (item.mark = 'seen'));
  assert.match(await page.locator('#stats').innerText(), /context: \d+ of 512 tokens used \(\d+ %\)/);
  const long = 'a violin and a cello '.repeat(4000);
  await page.getByLabel('Message', { exact: true }).fill(long);
  await page.keyboard.press('Enter');
  assert.match(
    await errorOf(page),
    /^The message is too long: [\d,]+ tokens with what was said before, and the context has room for [\d,]+: shorten it, start a new chat, or set a larger Context\.$/,
  );
  assert.equal(await page.getByLabel('Message', { exact: true }).inputValue(), long);
  assert.equal(await page.locator('#messages > li').count(), 2);
  assert.match(await ask(page, 'What is a cello?'), /^cello/);
  assert.equal(await page.locator('#messages > li').first().evaluate((item) => item.mark), 'seen', 'it was not drawn anew');
  // A message that is edited likewise: it stays in its form, and the old one is as it was.
  await page.getByRole('button', { name: 'Edit' }).first().click();
  await page.getByLabel('Message, edited').fill(long);
  await page.keyboard.press('Enter');
  await errorOf(page);
  assert.equal(await page.getByLabel('Message, edited').inputValue(), long);
  await page.keyboard.press('Escape');
  assert.equal((await said(page))[1], first);
});

test('a stopped answer tells only of what was computed', async () => {
  await useWorker(slowWorker(kStepTime));
  const page = await openPage(context, site);
  await openDemo(page);
  await page.getByLabel('Message', { exact: true }).fill('violin '.repeat(700));
  await page.keyboard.press('Enter');
  await page.locator('#stop').click();
  await answerOf(page);
  const meta = await page.locator('#messages .meta').innerText();
  const [, done, all] = /^0 tokens · ([\d,]+) of ([\d,]+) in the prompt read(?: · read at [\d.]+ tokens\/s)? · stopped$/.exec(meta) ?? [];
  const count = (text) => Number(text.replaceAll(',', ''));
  assert.ok(done !== undefined && count(done) < count(all), meta);
});

test('a number out of its range is said, and the one before stays', async () => {
  const page = await openPage(context, site);
  await setTemperature(page, '0.5');
  await page.getByRole('button', { name: 'Settings' }).click();
  const field = page.getByLabel('Temperature');
  await field.fill('99');
  await page.getByText('Found 99: want a number from 0 to 5; 0.5 stays.').waitFor();
  assert.equal(await field.getAttribute('aria-invalid'), 'true');
  await field.fill('1');
  assert.equal(await field.getAttribute('aria-invalid'), 'false');
  assert.equal(await page.locator('#wrong-temperature').isVisible(), false);
  await page.getByLabel('Context').fill('100');
  await page.getByText('Found 100: want a multiple of 64 from 64 to 10,000,000.').waitFor();
  await page.keyboard.press('Escape');
});

test('a model without a chat template goes on from the text, and the page says so', async () => {
  const page = await openPage(context, site);
  await setDevice(page, 'cpu');
  await setTemperature(page, '0');
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Longest answer').fill('6');
  await page.keyboard.press('Escape');
  await page.getByLabel('Keep a copy in this browser').first().uncheck();
  const files = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors'].map((name) => {
    const bytes = readFileSync(join(kDense, name));
    // Without its markers of turns no built-in template fits it.
    const buffer = name.startsWith('tokenizer') ? Buffer.from(bytes.toString().replaceAll('<|turn>', '<|tern>')) : bytes;
    return { name, mimeType: 'application/octet-stream', buffer };
  });
  await page.locator('#welcome-file').setInputFiles(files);
  await ready(page);
  await page.getByText('has no chat template: it goes on from your text as it stands, and may not answer it.').waitFor();
  assert.notEqual(await ask(page, 'What is this?'), '');
  const promptOf = async () => Number(/([\d,]+) in the prompt/.exec(await page.locator('#messages .meta').last().innerText())[1]);
  const before = await promptOf();
  await ask(page, ' And this?');
  assert.ok((await promptOf()) > before + 6, 'the second goes on from the first and its answer');
});
