// Keeps the page itself, so that it opens without a network; models are in the page's storage. The build puts the list of
// the page's files here.
export {};
declare const __SHELL__: { version: string; files: string[] };

const scope = self as unknown as ServiceWorkerGlobalScope;
const { version, files } = __SHELL__;
const kCache = `sluice-${version}`;
const kept = new Set(files.map((file) => new URL(file, scope.registration.scope).href));
const page = new URL('index.html', scope.registration.scope).href;

scope.addEventListener('install', (event) => {
  event.waitUntil(
    caches.open(kCache).then((cache) => cache.addAll([...kept].map((url) => new Request(url, { cache: 'reload' })))),
  );
});

scope.addEventListener('activate', (event) => {
  const forget = async (): Promise<void> => {
    for (const name of await caches.keys())
      if (name.startsWith('sluice-') && name !== kCache) await caches.delete(name);
    await scope.clients.claim();
  };
  event.waitUntil(forget());
});

// The page is the server's while there is one, so that a new version shows at once; its other files have names that
// change with what is in them.
scope.addEventListener('fetch', (event) => {
  const { request } = event;
  if (request.method !== 'GET') return;
  if (request.mode === 'navigate' && request.url.startsWith(scope.registration.scope)) {
    event.respondWith(fetch(request).catch(async () => (await caches.match(page)) ?? Response.error()));
  } else if (kept.has(request.url)) {
    event.respondWith(caches.match(request.url).then((found) => found ?? fetch(request)));
  }
});
