// Headless Chromium with one page, whose worker is a module of this repository: a server on this machine gives it what it
// imports and fetches, TypeScript as JavaScript, and takes what it has to say.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { join, normalize } from 'node:path';

const kTypes = { ts: 'text/javascript', mjs: 'text/javascript', wasm: 'application/wasm', html: 'text/html' };
const kFlags = [
  '--headless=new', '--no-sandbox', '--enable-unsafe-webgpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];

/**
 * Resolves with the number that the worker posts to /ended, or a sentence where none comes. `contents`: what stands at
 * paths that are no file's; `posted(path, text)` answers other posts, and may take its time.
 */
export async function runInChromium({ chromium, worker, contents, posted, minutes, flags = [] }) {
  const page = `<!doctype html><script>new Worker("/${worker}", { type: "module" })</script>`;
  const contentOf = (path) => {
    if (path === '/') return page;
    if (path in contents) return contents[path];
    const bytes = readFileSync(normalize(path).slice(1));
    return path.endsWith('.ts') ? stripTypeScriptTypes(bytes.toString()) : bytes;
  };
  const profile = mkdtempSync(join(tmpdir(), 'sluice-chromium-'));
  process.on('exit', () => rmSync(profile, { recursive: true, force: true, maxRetries: 5 }));
  return new Promise((ended) => {
    const answer = async (path, text) => {
      if (path === '/ended') return ended(Number(text));
      return posted(path, text);
    };
    const server = createServer((request, response) => {
      const path = decodeURIComponent(new URL(request.url, 'http://here').pathname);
      if (request.method === 'POST') {
        let text = '';
        request.on('data', (data) => (text += data))
          .on('end', () => void answer(path, text).then((said) => response.end(said), (error) => ended(String(error))));
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
    server.listen(0, '127.0.0.1', () => {
      const place = [`--user-data-dir=${profile}`, `http://127.0.0.1:${server.address().port}/`];
      const browser = spawn(chromium, [...kFlags, ...flags, ...place], { stdio: 'ignore' });
      browser.on('exit', (code) => ended(`Chromium left with ${code}`));
      browser.on('error', (error) => ended(String(error)));
      setTimeout(() => ended(`nothing heard for ${minutes} minutes`), minutes * 60_000).unref();
      process.on('exit', () => browser.kill('SIGKILL'));
    });
  });
}
