// Headless Chromium by Playwright with one page, whose worker is a module of this repository: a server on this machine
// gives it what it imports and fetches, TypeScript as JavaScript, and takes what it has to say.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { stripTypeScriptTypes } from 'node:module';
import { normalize } from 'node:path';
import { launch } from '../web/harness.mjs';

const kTypes = { ts: 'text/javascript', mjs: 'text/javascript', wasm: 'application/wasm', html: 'text/html' };

/**
 * Resolves with the number that the worker posts to /ended, or a sentence where none comes. `contents`: what stands at
 * paths that are no file's, or a function that reads it; `posted(path, text)` answers other posts, and may take its time. `flags`: launch()'s.
 */
export async function runInChromium({ worker, contents, posted, minutes, flags }) {
  const blank = `<!doctype html><script>new Worker("/${worker}", { type: "module" })</script>`;
  const contentOf = (path) => {
    if (path === '/') return blank;
    if (path in contents) return typeof contents[path] === 'function' ? contents[path]() : contents[path];
    const bytes = readFileSync(normalize(path).slice(1));
    return path.endsWith('.ts') ? stripTypeScriptTypes(bytes.toString()) : bytes;
  };
  let end;
  const ended = new Promise((resolve) => (end = resolve));
  const answer = async (path, text) => (path === '/ended' ? end(Number(text)) : posted(path, text));
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://here').pathname);
    if (request.method === 'POST') {
      let text = '';
      request.on('data', (data) => (text += data))
        .on('end', () => void answer(path, text).then((said) => response.end(said), (error) => end(String(error))));
      return;
    }
    try {
      const content = contentOf(path);
      response.setHeader('content-type', kTypes[path === '/' ? 'html' : path.split('.').pop()] ?? 'application/octet-stream');
      response.end(content);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  const browser = await launch(flags);
  try {
    const page = await browser.newPage();
    browser.on('disconnected', () => end('Chromium left'));
    page.on('crash', () => end('the page crashed'));
    page.on('pageerror', (error) => end(String(error)));
    setTimeout(() => end(`nothing heard for ${minutes} minutes`), minutes * 60_000).unref();
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    return await ended;
  } finally {
    await browser.close();
    server.closeAllConnections();
    server.close();
  }
}
