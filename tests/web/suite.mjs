// What all tests of the page share: one browser, and for each test a server and a storage of its own.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach } from 'node:test';
import { launch, openContext, openContextWithWorker, Site } from './harness.mjs';

const { resolve } = createRequire(join(import.meta.dirname, '../../web/package.json'));
const axe = readFileSync(resolve('axe-core/axe.min.js'), 'utf8');

export let browser, site, context;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());
beforeEach(async () => {
  site = await new Site().start();
  context = await openContext(browser);
});
afterEach(async () => {
  await context.close();
  site.stop();
  assert.deepEqual(context.faults, [], 'nothing was thrown in a page');
});

// In the place of the test's storage: one whose pages' workers do `script` first.
export async function useWorker(script) {
  await context.close();
  context = await openContextWithWorker(browser, script);
}

// A worker that waits between two steps, so that a test can act while an answer is made.
export const slowWorker = (ms) => `{
  const post = MessagePort.prototype.postMessage;
  MessagePort.prototype.postMessage = function (...all) { setTimeout(() => post.apply(this, all), ${ms}); };
}`;

// Drops or pastes a file where the page listens.
export async function give(page, event, path, type, bytes = readFileSync(path)) {
  await page.evaluate(
    ({ event, bytes, name, type }) => {
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0))], name, { type }));
      const options = { bubbles: true, cancelable: true };
      const target = document.querySelector('#prompt');
      if (event === 'drop') target.dispatchEvent(new DragEvent('drop', { ...options, dataTransfer: data }));
      else target.dispatchEvent(new ClipboardEvent('paste', { ...options, clipboardData: data }));
    },
    { event, bytes: bytes.toString('base64'), name: path.split('/').at(-1), type },
  );
}
// What axe finds in the view that is shown.
export async function faultsOf(page, view) {
  await page.evaluate(axe); // not as a script of the page, which allows its own alone
  const { violations } = await page.evaluate(() => axe.run());
  return violations.map(({ id, nodes }) => `${view}: ${id}: ${nodes.map(({ html }) => html).join(' ')}`);
}
export const attached = (page) => page.locator('#attached li:not([aria-busy])');
export async function openModels(page) {
  await page.bringToFront();
  await page.locator('#open-models').click();
  await page.locator('#storage-left:not(:empty)').waitFor();
}
export const stored = (page) => page.locator('#stored li strong').allInnerTexts();
