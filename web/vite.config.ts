// Three entries: the page, the package (dist/sluice.js) and the service worker. The engine's module comes from the
// wasm preset's build, the demo model from assets/.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { defineConfig } from 'vite';
import type { Plugin } from 'vite';

const repository = resolve(import.meta.dirname, '..');
const modules = process.env.SLUICE_WASM ?? resolve(repository, 'build/wasm');
const kDemo = ['demo-gemma4-q8_0.gguf', 'mmproj-demo-gemma4.gguf', 'NOTICE'];
const kPublic = ['icon.svg', 'page.webmanifest'];

// The demo model and its licence lie beside the page.
function demo(): Plugin {
  return {
    name: 'demo',
    apply: 'build',
    generateBundle() {
      for (const fileName of kDemo)
        this.emitFile({ type: 'asset', fileName, source: readFileSync(resolve(repository, 'assets', fileName)) });
    },
  };
}

// Tells the service worker which files the page is made of, and a version that changes when one of them does.
function shell(): Plugin {
  return {
    name: 'shell',
    apply: 'build',
    enforce: 'post',
    generateBundle(_, bundle) {
      const version = createHash('sha256');
      const files = Object.keys(bundle)
        .filter((name) => name !== 'sw.js' && name !== 'sluice.js' && !kDemo.includes(name))
        .sort();
      for (const name of files) {
        const file = bundle[name]!;
        version.update(name).update(file.type === 'chunk' ? file.code : file.source);
      }
      const worker = bundle['sw.js'];
      if (worker?.type !== 'chunk') throw new Error('no service worker was built');
      const list = JSON.stringify({ version: version.digest('hex').slice(0, 16), files: [...files, ...kPublic] });
      worker.code = worker.code.replace('__SHELL__', () => list);
    },
  };
}

// The licences of the libraries that the page, its worker and the engine's module contain, in one file beside them.
const kInModule = ['nlohmann-json3-dev', 'libxxhash-dev', 'wasi-libc', 'libc++-19-dev-wasm32']; // Debian's packages
const libraries = new Set<string>(); // folders of packages
function licences(): Plugin {
  const noticeOf = (folder: string): string => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, string>;
    const files = readdirSync(folder).filter((file) => /^(licen[cs]e|copying|notice)/i.test(file));
    if (files.length === 0) throw new Error(`${name}: has no licence file: want one to show`);
    return [`${name} ${version} (${license})`, ...files.map((file) => readFileSync(join(folder, file), 'utf8'))].join('\n\n');
  };
  const debianNotice = (name: string): string => {
    const path = `/usr/share/doc/${name}/copyright`;
    const text = existsSync(path) ? readFileSync(path, 'utf8') : 'Its notice is part of the Debian package of that name.';
    return `${name}, compiled into the engine's module\n\n${text}`;
  };
  return {
    name: 'licences',
    moduleParsed({ id }) {
      const folder = /^\0?(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1];
      if (folder !== undefined && !/\/(vite|rolldown)$/.test(folder)) libraries.add(folder);
    },
    generateBundle(_, bundle) {
      if (bundle['sw.js'] === undefined) return; // of the worker
      const notices = [...[...libraries].sort().map(noticeOf), ...kInModule.map(debianNotice)];
      const source = notices.join(`\n\n${'-'.repeat(80)}\n\n`);
      this.emitFile({ type: 'asset', fileName: 'licences.txt', source });
    },
  };
}

// KaTeX's fonts in the one form that every browser with WebGPU or SIMD128 reads.
function oneFontForm(): Plugin {
  return {
    name: 'one-font-form',
    enforce: 'pre',
    transform(code, id) {
      if (!/katex(\.min)?\.css$/.test(id)) return null;
      return code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\("[^"]*"\)/g, '');
    },
  };
}

const kFixedNames: Record<string, string> = { sluice: 'sluice.js', sw: 'sw.js' };

export default defineConfig({
  root: import.meta.dirname,
  base: './',
  resolve: {
    alias: [
      { find: /^@sluice\/wasm-threads/, replacement: resolve(modules, 'sluice_threads.wasm') },
      { find: /^@sluice\/wasm/, replacement: resolve(modules, 'sluice.wasm') },
    ],
  },
  plugins: [demo(), oneFontForm(), licences(), shell()],
  worker: { format: 'es', plugins: () => [licences()] },
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      preserveEntrySignatures: 'strict',
      input: {
        page: resolve(import.meta.dirname, 'index.html'),
        sluice: resolve(import.meta.dirname, 'src/index.ts'),
        sw: resolve(import.meta.dirname, 'src/service_worker.ts'),
      },
      output: { entryFileNames: ({ name }) => kFixedNames[name] ?? 'assets/[name]-[hash].js' },
    },
  },
});
