// A small server for the built page, with ranges: node serve.mjs [--port 8080] [FOLDER]. Only this machine is answered.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const kTypes = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.wasm': 'application/wasm',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
  '.webmanifest': 'application/manifest+json',
  '.png': 'image/png',
};

// A page that is sent with these may share memory between its workers, so that several threads compute.
export const kIsolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

// "bytes=3-" and the like; null: no range, or one that is none of ours.
function rangeOf(header, size) {
  const match = /^bytes=(\d+)-(\d*)$/.exec(header ?? '');
  if (!match) return null;
  const begin = Number(match[1]),
    end = match[2] === '' ? size - 1 : Math.min(Number(match[2]), size - 1);
  return { begin, end };
}

// One file, whole or a range of it. `etag` stands for what is in it.
export async function sendFile(request, response, path, further = {}) {
  const found = await stat(path).catch(() => null);
  if (!found?.isFile()) {
    response.writeHead(404).end('not found');
    return;
  }
  const etag = `"${createHash('sha256').update(`${found.size} ${found.mtimeMs}`).digest('hex').slice(0, 16)}"`;
  const headers = {
    'Content-Type': kTypes[extname(path)] ?? 'application/octet-stream',
    'Accept-Ranges': 'bytes',
    ETag: etag,
    'Last-Modified': found.mtime.toUTCString(),
    'Cache-Control': 'no-cache',
    ...further,
  };
  const range = rangeOf(request.headers.range, found.size);
  if (range === null) {
    if (request.headers['if-none-match'] === etag) return void response.writeHead(304, headers).end();
    response.writeHead(200, { ...headers, 'Content-Length': found.size });
    return void createReadStream(path).pipe(response);
  }
  if (range.begin > range.end) return void response.writeHead(416, { 'Content-Range': `bytes */${found.size}` }).end();
  response.writeHead(206, {
    ...headers,
    'Content-Length': range.end - range.begin + 1,
    'Content-Range': `bytes ${range.begin}-${range.end}/${found.size}`,
  });
  createReadStream(path, { start: range.begin, end: range.end }).pipe(response);
}

// `before` may answer a request itself, and then returns true. `headers` go with each file. Resolves to the server, which
// listens.
export function serve(folder, { port = 0, before = () => false, headers = kIsolation } = {}) {
  const root = resolve(folder);
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    if (await before(request, response, path)) return;
    const file = join(root, normalize(path).replace(/\/$/, '/index.html'));
    if (!file.startsWith(root)) return void response.writeHead(404).end();
    await sendFile(request, response, file, headers);
  });
  return new Promise((done, failed) => {
    server.on('error', failed);
    server.listen(port, 'localhost', () => done(server));
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({
    options: { port: { type: 'string', default: '8080' } },
    allowPositionals: true,
  });
  const server = await serve(positionals[0] ?? join(import.meta.dirname, 'dist'), { port: Number(values.port) }).catch(
    (error) => {
      console.error(error.code === 'EADDRINUSE' ? `port ${values.port} is taken: want another --port` : error.message);
      process.exit(1);
    },
  );
  console.log(`Sluice is at http://localhost:${server.address().port}/ (Ctrl-C ends it)`);
}
