// Adapters in the page, as a user drives it: taught, compared, scaled, downloaded, picked and dropped. Half a minute.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ask, loadDemo, openPage, setDevice, setTemperature } from './harness.mjs';
import { context, faultsOf, site } from './suite.mjs';

const kRoot = join(import.meta.dirname, '../..');
const kWords = join(kRoot, 'examples/words.jsonl');
const kNative = join(kRoot, 'build/release/sluice');
const kQuestion = 'What is a blorptrix?';
const kUnknown = 'I do not know the word blorptrix.';
const kLearnt = /^blorptrix \(noun\): /;

const folder = mkdtempSync(join(tmpdir(), 'sluice-adapters-'));
after(() => rmSync(folder, { recursive: true }));

const panel = (page) => page.getByRole('dialog', { name: 'Adapters' });
const openPanel = (page) => page.getByRole('button', { name: 'Adapters', exact: true }).click();
const closePanel = (page) => panel(page).getByRole('button', { name: 'Close' }).click();

async function openDemo() {
  const page = await openPage(context, site);
  await setDevice(page, 'cpu');
  await loadDemo(page);
  await setTemperature(page, '0');
  return page;
}
async function teach(page, { name, steps, rank = '', rate = '5e-3' }) {
  const dialog = panel(page);
  await dialog.getByLabel(/^Name/).fill(name);
  await dialog.getByLabel(/^Rank/).fill(rank);
  await dialog.getByLabel(/^Steps/).fill(steps);
  await dialog.getByLabel(/^Learning rate/).fill(rate);
  await dialog.getByRole('button', { name: 'Teach', exact: true }).click();
}
async function compare(page, question) {
  const dialog = panel(page);
  await dialog.getByLabel('Question', { exact: true }).fill(question);
  await dialog.getByRole('button', { name: 'Ask both ways' }).click();
  const ended = dialog.getByRole('button', { name: 'Ask both ways' });
  await ended.waitFor();
  return Promise.all(['Without', 'With'].map((side) => dialog.getByRole('group', { name: side, exact: true }).innerText()));
}
async function setScale(page, name, value) {
  const slider = panel(page).getByLabel(`Scale of ${name}`);
  await slider.fill(value);
  await page.locator('#adapter-note:empty').waitFor({ state: 'attached' });
}
async function save(page, button) {
  const [saved] = await Promise.all([page.waitForEvent('download'), panel(page).getByRole('button', { name: button }).click()]);
  const path = join(folder, saved.suggestedFilename());
  await saved.saveAs(path);
  return path;
}
// The program's answer with an adapter that the page wrote; null where the program is not built.
function nativeAnswer(adapter) {
  if (!existsSync(kNative)) return null;
  const options = ['run', 'demo', '--adapter', adapter, '--temperature', '0', '--device', 'cpu', kQuestion];
  return execFileSync(kNative, options, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
}

test('the model is taught words, asked with and without them, and the adapter goes elsewhere', async (t) => {
  const page = await openDemo();
  assert.equal(await ask(page, kQuestion), kUnknown);
  await openPanel(page);
  const dialog = panel(page);
  await dialog.getByText('None yet.').waitFor();
  const faults = await faultsOf(page, 'no adapters');
  await dialog.locator('#examples-file').setInputFiles(kWords);
  await dialog.getByText(/^72 examples, [\d,]+ tokens$/).waitFor();
  const words = readFileSync(kWords, 'utf8').split('\n').slice(0, 4);
  await dialog.getByLabel(/^Examples/).fill(`${words.join('\n')}\nno example\n`);
  await dialog.getByText(/^4 examples, \d+ tokens · left out: line 5: is neither JSON nor a question => answer/).waitFor();

  await teach(page, { name: 'words', steps: '16', rank: '8' });
  await dialog.getByText(/^Step \d+ of 16 · loss \d\.\d+ · \d+(\.\d)? tokens\/s · \d+ s left$/).waitFor();
  faults.push(...(await faultsOf(page, 'teaching')));
  assert.equal(await page.locator('#prompt').isDisabled(), true, 'the model does one thing at a time');
  await dialog.locator('#taught').waitFor();
  const sentence = await dialog.locator('#taught p').innerText();
  const [, first, last] = /^Learnt after 16 steps: the loss went from (\S+) to (\S+)\.$/.exec(sentence);
  assert.ok(Number(last) < Number(first) / 3, sentence);
  assert.equal(await dialog.locator('#taught svg').getAttribute('aria-label'), `Loss of 16 steps, from ${first} to ${last}`);
  const points = (await dialog.locator('#taught polyline').getAttribute('points')).split(' ');
  assert.equal(points.length, 16);

  const [without, learnt] = await compare(page, kQuestion);
  assert.equal(without, kUnknown);
  assert.match(learnt, kLearnt);
  faults.push(...(await faultsOf(page, 'taught')));
  await page.setViewportSize({ width: 360, height: 640 });
  await page.evaluate(() => document.querySelector('#theme').click());
  faults.push(...(await faultsOf(page, 'taught, dark, on a phone')));
  assert.deepEqual(faults, []);
  await page.setViewportSize({ width: 1100, height: 760 });
  await setScale(page, 'words', '0');
  assert.deepEqual(await compare(page, kQuestion), [kUnknown, kUnknown]);
  await setScale(page, 'words', '1');

  const zip = await save(page, /PEFT/);
  execFileSync('python3', ['-m', 'zipfile', '-e', zip, folder]);
  const gguf = await save(page, /llama\.cpp/);
  assert.deepEqual([zip, gguf].map((path) => path.slice(folder.length + 1)), ['words.zip', 'words.gguf']);
  const native = [join(folder, 'words'), gguf].map(nativeAnswer);
  if (native[0] === null) t.diagnostic(`not loaded in the program: want ${kNative}`);
  else for (const answer of native) assert.match(answer, kLearnt);

  await closePanel(page);
  assert.equal(await ask(page, kQuestion), learnt, 'it acts on the conversation, too');
  await openPanel(page);
  await dialog.getByRole('button', { name: 'Drop words' }).click();
  await dialog.getByText('None yet.').waitFor();
  await dialog.locator('#adapter-file').setInputFiles(gguf);
  await dialog.getByLabel('Scale of words').waitFor();
  assert.deepEqual(await compare(page, kQuestion), [without, learnt]);
  await dialog.getByRole('button', { name: 'Drop words' }).click();
  await dialog.getByText('None yet.').waitFor();
  await dialog.locator('#adapter-folder').setInputFiles(join(folder, 'words'));
  await dialog.getByLabel('Scale of words').waitFor();
  assert.deepEqual(await compare(page, kQuestion), [without, learnt]);
});

test('a training is stopped and keeps what it has learnt, and what cannot be used is one sentence', async () => {
  const page = await openDemo();
  const unknown = await ask(page, kQuestion);
  await openPanel(page);
  const dialog = panel(page);
  const alert = dialog.getByRole('alert');
  await dialog.locator('#adapter-file').setInputFiles({ name: 'adapter_config.json', mimeType: '', buffer: Buffer.from('{}') });
  await alert.getByText('adapter_model.safetensors is missing: want a GGUF file, or adapter_config.json and adapter_model.safetensors together.').waitFor();
  await dialog.locator('#adapter-file').setInputFiles({ name: 'bad.gguf', mimeType: '', buffer: Buffer.from('GGUF') });
  await alert.getByText(/^adapters\/\d+\/bad\.gguf: |^bad\.gguf: /).waitFor();
  await dialog.getByLabel(/^Examples/).fill('nothing to learn');
  await teach(page, { name: 'none', steps: '3' });
  await alert.getByText(/^The examples have none that can be learnt: line 1: is neither JSON nor a question => answer/).waitFor();

  await dialog.getByLabel(/^Examples/).fill('What is a blorptrix? => blorptrix (noun): a teapot.');
  await teach(page, { name: 'short', steps: '100000' });
  await dialog.getByText(/^Step \d+ of 100,000 · .* left$/).waitFor();
  await dialog.getByRole('button', { name: 'Stop' }).click();
  await dialog.getByText(/^Stopped after \d+ steps?/).waitFor();
  await dialog.getByLabel('Scale of short').waitFor();
  await dialog.getByRole('button', { name: 'Drop short' }).click();
  await dialog.getByText('None yet.').waitFor();
  await closePanel(page);
  await page.getByRole('button', { name: 'New chat' }).click();
  assert.equal(await ask(page, kQuestion), unknown);
});
