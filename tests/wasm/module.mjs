// The page's module under Node: what it imports, and its exports (src/wasm/sluice.h) with JavaScript's types.
import { readFileSync } from 'node:fs';

// What wasi-libc asks a host for: a clock, a place for the words of a failed check, and no files.
function wasiImports(memory) {
  const EBADF = 8;
  const view = () => new DataView(memory().buffer);
  return {
    environ_sizes_get(count, bytes) {
      view().setUint32(count, 0, true);
      view().setUint32(bytes, 0, true);
      return 0;
    },
    environ_get: () => 0,
    clock_time_get(id, precision, time) {
      const now = id === 0 ? BigInt(Date.now()) * 1000000n : process.hrtime.bigint();
      view().setBigUint64(time, now, true);
      return 0;
    },
    fd_write(fd, parts, count, written) {
      let bytes = 0;
      for (let i = 0; i < count; ++i) {
        const at = view().getUint32(parts + 8 * i, true), size = view().getUint32(parts + 8 * i + 4, true);
        process.stderr.write(new Uint8Array(memory().buffer, at, size));
        bytes += size;
      }
      view().setUint32(written, bytes, true);
      return 0;
    },
    fd_close: () => EBADF,
    fd_seek: () => EBADF,
    fd_fdstat_get: () => EBADF,
    proc_exit(status) {
      throw new Error(`the module left with status ${status}`);
    },
  };
}

export class Module {
  // Instantiation fails with a sentence of the engine's own when it lacks an import or an instruction.
  static async load(path) {
    let memory = null;
    const imports = { wasi_snapshot_preview1: wasiImports(() => memory) };
    const { instance } = await WebAssembly.instantiate(readFileSync(path), imports);
    memory = instance.exports.memory;
    instance.exports._initialize();
    return new Module(instance.exports);
  }

  constructor(exports) {
    this.exports = exports;
  }

  bytes(at, size) {
    return new Uint8Array(this.exports.memory.buffer, at, size);
  }
  // A copy of `bytes` in the module's memory.
  copyIn(bytes) {
    const at = this.exports.sluice_allocate(Math.max(bytes.length, 1)) >>> 0;
    if (at === 0) throw new Error(`the module has no room for ${bytes.length} bytes`);
    this.bytes(at, bytes.length).set(bytes);
    return at;
  }
  // Calls f(address, bytes) with the text or bytes, which the module forgets again.
  with(data, f) {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
    const at = this.copyIn(bytes);
    try {
      return f(at, bytes.length);
    } finally {
      this.exports.sluice_free(at);
    }
  }
  reply() {
    return this.bytes(this.exports.sluice_reply() >>> 0, this.exports.sluice_reply_bytes()).slice();
  }
  replyText() {
    return new TextDecoder().decode(this.reply());
  }

  addFile(path, bytes) {
    const at = this.copyIn(bytes);
    this.with(path, (name, size) => this.exports.sluice_add_file(name, size, at, bytes.length));
  }
  removeFile(path) {
    this.with(path, (name, size) => this.exports.sluice_remove_file(name, size));
  }
  open(options) {
    const handle = this.with(JSON.stringify(options), (at, size) => this.exports.sluice_open(at, size));
    if (handle === 0) throw new Error(this.replyText());
    return new Model(this, handle, JSON.parse(this.replyText()));
  }
}

export class Model {
  constructor(module, handle, facts) {
    this.module = module;
    this.handle = handle;
    this.facts = facts; // name, numerics_id, vocabulary, context
  }

  // One export, whose failure is an Error with its sentence.
  call(name, ...rest) {
    if (this.module.exports[name](this.handle, ...rest) === 0) throw new Error(this.module.replyText());
  }
  callWith(name, data) {
    this.module.with(data, (at, size) => this.call(name, at, size));
  }

  encode(text) {
    this.callWith('sluice_encode', text);
    return Array.from(new Int32Array(this.module.reply().buffer));
  }
  decode(tokens) {
    const bytes = new Uint8Array(Int32Array.from(tokens).buffer);
    this.module.with(bytes, (at) => this.call('sluice_decode', at, tokens.length));
    return this.module.replyText();
  }
  render(chat) {
    this.callWith('sluice_render', JSON.stringify(chat));
    return this.module.replyText();
  }
  // The whole answer to a request: its tokens, and the logits that were asked for.
  run(request) {
    this.callWith('sluice_submit', JSON.stringify(request));
    const tokens = [], parts = [];
    for (let finished = false; !finished;) {
      this.module.exports.sluice_step(this.handle);
      this.call('sluice_collect');
      const progress = JSON.parse(this.module.replyText());
      finished = progress.finished;
      tokens.push(...progress.tokens);
      this.call('sluice_logits');
      parts.push(new Float32Array(this.module.reply().buffer));
    }
    const logits = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      logits.set(part, at);
      at += part.length;
    }
    return { tokens, logits };
  }
  close() {
    this.module.exports.sluice_close(this.handle);
  }
}
