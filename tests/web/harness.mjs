// What the page's tests run in: one server with faults, one Chromium, a storage of its own for each test.
import { createRequire } from 'node:module';
import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { sendFile, serve } from '../../web/serve.mjs';

const kRoot = resolve(import.meta.dirname, '../..');
const { chromium } = createRequire(join(kRoot, 'web/package.json'))('playwright-core');
export const kDemoFile = join(kRoot, 'assets/demo-gemma4-q8_0.gguf');
export const kDemoBytes = (await stat(kDemoFile)).size;
const kDist = join(kRoot, 'web/dist');
// Only --enable-unsafe-webgpu changes what a page can do: it lets it have the software adapter.
const kFlags = [
  '--no-sandbox',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--enable-unsafe-webgpu',
];
// A camera and a microphone that need no asking; the microphone beeps.
const kFakeMedia = ['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'];
// That adapter takes a fifth of the time over kernels whose workgroup memory need not be cleared first.
const kNoClearing = ['--enable-dawn-features=disable_workgroup_init'];
const kPatience = Number(process.env.PATIENCE ?? 60_000); // ms; the machine may be slow

// The built page, and /models/*.gguf: the demo under any name, with the faults a test asks for.
export class Site {
  requests = []; // of models: { name, begin, sent: bytes }
  down = false; // every connection breaks
  etag = null; // of models; null: the file's own
  cutAt = null; // bytes of the file after which the connection breaks, once
  hold = null; // { at: bytes of the file, release: Promise }

  async start(options = {}) {
    this.server = await serve(kDist, { before: (request, response, path) => this.before(request, response, path), ...options });
    this.origin = `http://localhost:${this.server.address().port}`;
    return this;
  }
  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }

  async before(request, response, path) {
    if (this.down) return (request.socket.destroy(), true);
    const name = /^\/models\/(.+\.gguf)$/.exec(path)?.[1];
    if (name === undefined) return false;
    const begin = Number(/^bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
    const log = { name, begin, sent: 0 };
    this.requests.push(log);
    await this.withFaults(request, response, begin, log);
    return true;
  }

  async withFaults(request, response, begin, log) {
    const write = response.write.bind(response);
    const head = response.writeHead.bind(response);
    if (this.etag !== null) response.writeHead = (status, headers) => head(status, { ...headers, ETag: this.etag });
    let waited = null;
    response.write = (chunk, ...rest) => {
      const at = begin + log.sent;
      log.sent += chunk.length;
      if (this.cutAt !== null && at + chunk.length > this.cutAt) {
        this.cutAt = null;
        request.socket.destroy();
        return false;
      }
      if (this.hold !== null && waited === null && at + chunk.length > this.hold.at) {
        waited = this.hold.release.then(() => (write(chunk, ...rest), response.emit('drain')));
        return false;
      }
      return write(chunk, ...rest);
    };
    await sendFile(request, response, kDemoFile);
    response.on('error', () => {});
  }
}

// A held download: `release()` lets it go on.
export function holdAt(site, at) {
  let release;
  site.hold = { at, release: new Promise((done) => (release = done)) };
  return () => {
    site.hold = null;
    release();
  };
}

const launchOptions = (flags) => ({
  headless: true,
  args: [...kFlags, ...flags],
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
});
export async function launch(flags = [...kNoClearing, ...kFakeMedia]) {
  return chromium.launch(launchOptions(flags));
}

// A browser of its own as a user has it, whose storage is files in that folder: contexts that are forgotten have room for
// little.
export async function openProfile(folder, flags = kNoClearing) {
  return chromium.launchPersistentContext(folder, launchOptions(flags));
}

// A browser context is a storage of its own; what goes wrong in a page fails the test.
export async function openContext(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 760 }, ...options });
  context.setDefaultTimeout(kPatience);
  context.faults = [];
  context.on('weberror', (error) => context.faults.push(error.error().message));
  return context;
}

// Whatever the pages' workers do, they do `script` first.
export async function openContextWithWorker(browser, script) {
  const context = await openContext(browser, { serviceWorkers: 'block' }); // it would answer in place of the route
  await context.route(/assets\/worker-.*\.js$/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: `${script};${await response.text()}` });
  });
  return context;
}

export async function openPage(context, site) {
  const page = await context.newPage();
  if (process.env.VERBOSE) page.on('console', (message) => console.log('  page:', message.text()));
  await page.goto(`${site.origin}/`);
  return page;
}

// ---- what a user does, in the tab in front: Chromium draws others once a second

// The model that was chosen last answers.
export const ready = (page) => page.locator('body:has(#load[hidden]) #prompt:enabled').waitFor();
export async function loadDemo(page) {
  await page
    .getByRole('button', { name: /Try the demo model/ })
    .first()
    .click();
  await ready(page);
}
export async function setDevice(page, value) {
  await page.bringToFront();
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Computes on').selectOption(value);
  await page.getByRole('button', { name: 'Close' }).click();
}
export async function setTemperature(page, value) {
  await page.bringToFront();
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Temperature').fill(value);
  await page.getByRole('button', { name: 'Close' }).click();
}
// Sends a message and returns the whole answer.
export async function ask(page, text) {
  await page.bringToFront();
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.keyboard.press('Enter');
  return answerOf(page);
}
// The sentences about what is wrong.
export async function setJson(page, label, text) {
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel(label).fill(text);
  const said = await page.locator('#settings .wrong:not([hidden])').allInnerTexts();
  await page.getByRole('button', { name: 'Close' }).click();
  return said;
}
export async function begin(page, text) {
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.keyboard.press('Enter');
}
export async function answerOf(page) {
  await page.locator('#messages > li.assistant:last-child .actions').waitFor();
  return page.locator('#messages > li.assistant:last-child > .text').innerText();
}
export async function download(page, url, sha256 = '') {
  await page.bringToFront();
  await page
    .getByRole('button', { name: /Choose a model|^.*CPU|WebGPU/ })
    .first()
    .click();
  const dialog = page.getByRole('dialog', { name: 'Models' });
  await dialog.getByLabel('Address of a model').fill(url);
  await dialog.getByLabel(/^SHA-256/).fill(sha256);
  await dialog.getByRole('button', { name: 'Download', exact: true }).click();
}
export const errorOf = async (page) => page.locator('#error:not([hidden]) #error-text').innerText();
