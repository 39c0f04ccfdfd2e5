// The small models' goldens in headless Chromium, on WebGPU: chromium_test.mjs MODULE CHROMIUM [MODEL[:CASE,...]...].
// A server on this machine gives the page what it imports and fetches, TypeScript as JavaScript, and takes what it has to
// say.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { join, normalize } from 'node:path';
import { chosenModels, filesOf, kData, kStreamed, smallModels } from './small_models.mjs';

const [module, chromium, ...chosen] = process.argv.slice(2);
const kPage = '<!doctype html><script>new Worker("/tests/wasm/chromium_worker.mjs", { type: "module" })</script>';
const kTypes = { ts: 'text/javascript', mjs: 'text/javascript', wasm: 'application/wasm', html: 'text/html' };
const kMinutes = 20;

const models = chosenModels(chosen.length > 0 ? chosen : smallModels())
  .map(({ name, cases }) =>
    ({ name, cases, files: filesOf(name), golden: `${kData}/${name}`, streamed: kStreamed.includes(name) }));

function contentOf(path) {
  if (path === '/') return kPage;
  if (path === '/models.json') return JSON.stringify(models);
  if (path === '/sluice.wasm') return readFileSync(module);
  const bytes = readFileSync(normalize(path).slice(1));
  return path.endsWith('.ts') ? stripTypeScriptTypes(bytes.toString()) : bytes;
}

function serve(said, ended) {
  return createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://here').pathname);
    if (request.method === 'POST') {
      let text = '';
      request.on('data', (data) => (text += data)).on('end', () => {
        response.end();
        if (path === '/said') said(text);
        if (path === '/ended') ended(Number(text));
      });
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
}

const profile = mkdtempSync(join(tmpdir(), 'sluice-chromium-'));
const status = await new Promise((ended) => {
  const server = serve((line) => console.log(line), ended);
  server.listen(0, '127.0.0.1', () => {
    // SwiftShader takes a fifth of the time over kernels whose workgroup memory need not be cleared first.
    const browser = spawn(chromium, [
      '--headless=new', '--no-sandbox', '--enable-unsafe-webgpu', '--enable-dawn-features=disable_workgroup_init', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', `--user-data-dir=${profile}`, `http://127.0.0.1:${server.address().port}/`,
    ], { stdio: 'ignore' });
    browser.on('exit', (code) => ended(`Chromium left with ${code}`));
    browser.on('error', (error) => ended(String(error)));
    setTimeout(() => ended(`nothing heard for ${kMinutes} minutes`), kMinutes * 60_000).unref();
    process.on('exit', () => browser.kill('SIGKILL'));
  });
});
if (status !== 0) console.error(`goldens in Chromium: ${status === 1 ? 'missed' : status}`);
process.on('exit', () => rmSync(profile, { recursive: true, force: true, maxRetries: 5 }));
process.exit(status === 0 ? 0 : 1);
