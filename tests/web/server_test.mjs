// The page on top of `sluice serve`, as a user drives it. About 1 s each, in make test-web.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { answerOf, ask, begin, errorOf, loadDemo, openPage, ready, setJson, setTemperature } from './harness.mjs';
import { attached, context, faultsOf, openModels } from './suite.mjs';

const kRoot = resolve(import.meta.dirname, '../..');
const kProgram = process.env.SLUICE_PROGRAM ?? join(kRoot, 'build/release/sluice');
const kPicture = join(kRoot, 'tests/data/gemma4/picture1.png');
const kKey = 'correct-horse-battery';
// An answer that takes a while.
const kLong = '{"type": "array", "items": {"type": "integer"}, "minItems": 1500, "maxItems": 1500}';

// Resolves to the program with its `origin`, once it listens.
function serveDemo(...options) {
  const page = join(kRoot, 'web/dist');
  const all = ['serve', '--port', '0', '--device', 'cpu', '--alias', 'second', '--page', page, ...options];
  const program = spawn(kProgram, all, { stdio: ['ignore', 'ignore', 'pipe'] });
  return new Promise((done, failed) => {
    let said = '';
    program.on('exit', (status) => failed(new Error(`sluice serve ended with ${status}: ${said}`)));
    program.stderr.on('data', (text) => {
      said += text;
      const origin = /serving .* at (http:\S+)/.exec(said)?.[1];
      if (origin !== undefined) done(Object.assign(program, { origin }));
    });
  });
}

const lastText = (page) => page.locator('#messages > li.assistant:last-child > .text');
const someText = async (page) => page.waitForFunction(() => document.querySelector('#messages > li.assistant:last-child > .text')?.textContent.length > 20);

describe('the page on a server', { skip: existsSync(kProgram) ? false : `no ${kProgram}: make build first` }, () => {
  let server;
  before(async () => (server = await serveDemo()));
  after(() => server?.kill());

  test('answers with the server’s model, as the API does, also after a reload', async () => {
    const page = await openPage(context, server);
    await ready(page);
    assert.equal(await page.locator('#model-device').innerText(), 'Server');
    await setTemperature(page, '0');
    const answer = await ask(page, 'What is a violin?');
    const body = { temperature: 0, messages: [{ role: 'user', content: 'What is a violin?' }] };
    const reply = await fetch(`${server.origin}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(body) });
    assert.equal(answer, (await reply.json()).choices[0].message.content.trim());
    assert.match(await page.locator('#messages .meta').innerText(), /^\d+ tokens · /);
    assert.equal(await page.evaluate(() => crossOriginIsolated), true);
    assert.deepEqual(await faultsOf(page, 'an answer of a server'), []);
    await page.reload();
    await ready(page);
    assert.equal(await lastText(page).innerText(), answer);
    assert.match(await ask(page, 'What is a cello?'), /\w/);
  });

  test('its models are in the list, and so is the engine in the page', async () => {
    const page = await openPage(context, server);
    await ready(page);
    await openModels(page);
    const use = page.getByRole('button', { name: 'Use second' });
    await use.waitFor();
    assert.deepEqual(await faultsOf(page, 'models of a server'), []);
    await use.click();
    await ready(page);
    assert.equal(await page.locator('#model-name').innerText(), 'second');
    await openModels(page);
    await page.locator('#models-choices').getByRole('button', { name: /Try the demo model/ }).click();
    await page.waitForFunction(() => ['CPU', 'WebGPU'].includes(document.querySelector('#model-device').textContent));
    await page.reload(); // the choice stays
    await ready(page);
    assert.notEqual(await page.locator('#model-device').innerText(), 'Server');
  });

  test('an answer is stopped while it comes, and kept', async () => {
    const page = await openPage(context, server);
    await ready(page);
    assert.deepEqual(await setJson(page, 'JSON schema', kLong), []);
    await begin(page, 'Count.');
    await someText(page);
    await page.getByRole('button', { name: 'Stop the answer' }).click();
    assert.match(await answerOf(page), /^\[/);
    assert.equal(await page.locator('#messages .meta').innerText(), 'stopped');
  });

  test('a JSON schema holds; what is no JSON is not sent', async () => {
    const page = await openPage(context, server);
    await ready(page);
    const [said] = await setJson(page, 'JSON schema', '{"type": ');
    assert.match(said, /^The JSON schema in the settings: is no JSON/);
    await begin(page, 'What is a violin?');
    assert.match(await errorOf(page), /^The JSON schema in the settings: is no JSON/);
    assert.equal(await page.getByLabel('Message', { exact: true }).inputValue(), 'What is a violin?');
    const schema = { type: 'object', properties: { word: { type: 'string', maxLength: 9 } }, required: ['word'], additionalProperties: false };
    await setJson(page, 'JSON schema', JSON.stringify(schema));
    assert.deepEqual(Object.keys(JSON.parse(await ask(page, 'What is a violin?'))), ['word']);
    await setJson(page, 'JSON schema', '{"not": {}}');
    await begin(page, 'What is a cello?');
    assert.match(await errorOf(page), /not: cannot be honoured/);
    assert.equal(await page.locator('#messages > li.user').last().innerText().then((text) => text.includes('What is a cello?')), true);
  });

  test('a picture goes to the server', async () => {
    const page = await openPage(context, server);
    await ready(page);
    await page.locator('#attach-file').setInputFiles(kPicture);
    await attached(page).waitFor();
    const sent = page.waitForRequest(/chat\/completions/);
    assert.match(await ask(page, 'What is this?'), /\w/);
    const [picture] = (await sent).postDataJSON().messages[0].content;
    assert.match(picture.image_url.url, /^data:image\/png;base64,/);
  });

  // The demo neither thinks nor calls by itself, so the stream is one that OpenAI's API might send.
  test('thinking is folded with its time, and calls are shown', async () => {
    const page = await openPage(context, server);
    await ready(page);
    const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }];
    assert.deepEqual(await setJson(page, 'Tools', JSON.stringify(tools)), []);
    const deltas = [
      { role: 'assistant', content: '' },
      { reasoning_content: 'Look it up.' },
      { tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'weather', arguments: '' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{"city": ' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '"Oslo"}' } }] },
    ];
    const lines = deltas.map((delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`);
    await page.route(/chat\/completions/, (route) => {
      assert.deepEqual(route.request().postDataJSON().tools, tools);
      return route.fulfill({ contentType: 'text/event-stream', body: `: keep-alive\n\n${lines.join('')}data: [DONE]\n\n` });
    }, { times: 1 });
    await ask(page, 'How is the weather?');
    for (const reload of [false, true]) {
      if (reload) await page.reload();
      if (reload) await ready(page);
      assert.match(await page.locator('.thinking summary').innerText(), /^Thinking: \d+\.\d s$/);
      assert.match(await page.locator('.calls').innerText(), /Calls weather\s+\{\s+"city": "Oslo"\s+\}/);
    }
    assert.match(await ask(page, 'What is a violin?'), /\w/); // the server takes the call back
  });

  test('a server with a key asks for it, and says what is wrong with another', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-keys-'));
    writeFileSync(join(folder, 'keys'), kKey);
    const locked = await serveDemo('--api-key-file', join(folder, 'keys'));
    try {
      const page = await openPage(context, locked);
      const key = page.getByLabel('Key of this server');
      await key.fill('wrong-horse');
      await page.keyboard.press('Enter');
      await page.getByText('The request’s API key is not known.').or(page.getByText("The request's API key is not known.")).waitFor();
      assert.deepEqual(await faultsOf(page, 'the key of a server'), []);
      await key.fill(kKey);
      await page.keyboard.press('Enter');
      await ready(page);
      assert.match(await ask(page, 'What is a violin?'), /\w/);
      await page.reload();
      await ready(page);
    } finally {
      locked.kill();
      rmSync(folder, { recursive: true });
    }
  });

  test('a lost connection is said, and what came stays', async () => {
    const dying = await serveDemo();
    const page = await openPage(context, dying);
    await ready(page);
    await setJson(page, 'JSON schema', kLong);
    await begin(page, 'Count.');
    await someText(page);
    dying.removeAllListeners('exit');
    dying.kill('SIGKILL');
    assert.match(await errorOf(page), /^The connection to the server broke/);
    assert.match(await lastText(page).innerText(), /^\[/);
    await page.getByRole('button', { name: 'Again' }).click();
    await page.getByText('the server does not answer').waitFor();
  });

  test('without a server the page runs the engine', async () => {
    const { site } = await import('./suite.mjs');
    const page = await openPage(context, site);
    await loadDemo(page);
    await openModels(page);
    assert.equal(await page.locator('#served').isHidden(), true);
  });
});
