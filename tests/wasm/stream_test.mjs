// A model of 4 GB goes to a GPU through the page's module, whose memory stays small: stream_test.mjs MODULE. Nobody has the
// file: its bytes are drawn as they are read. Nor the GPU: it forgets what is uploaded, when it was found to be the file's.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { loadModule } from './host.mjs';

const kMostHeap = 300e6, kLeastFile = 4e9;
const kFolder = 'tests/data/gemma4_dense';
const kHidden = 2048, kInner = 8192, kLayers = 44; // inner: of the feed-forward layers

const numbersOf = (shape) => shape.reduce((product, extent) => product * extent, 1);

// A tensor's shape when the model is that wide; heads stay as they are.
function widened(name, shape) {
  if (/[qk]_norm|layer_scalar/.test(name)) return shape;
  if (name.includes('down_proj')) return [kHidden, kInner];
  if (name.includes('.mlp.')) return [kInner, kHidden];
  return name.includes('o_proj') ? [kHidden, shape[1]] : [...shape.slice(0, -1), kHidden];
}

// The small model with as many layers, that wide: [config, header of the safetensors file, its bytes in all].
function grown() {
  const config = JSON.parse(readFileSync(`${kFolder}/config.json`));
  const text = config.text_config ?? config;
  const small = readFileSync(`${kFolder}/model.safetensors`);
  const tensors = JSON.parse(small.subarray(8, 8 + Number(small.readBigUInt64LE())));
  const layers = text.num_hidden_layers, header = {};
  let end = 0;
  const add = (name, { dtype, shape }) => {
    const wide = widened(name, shape);
    header[name] = { dtype, shape: wide, data_offsets: [end, (end += 2 * numbersOf(wide))] };
  };
  const ours = Object.entries(tensors).filter(([name]) => name.startsWith('model.language_model.'));
  // Scalars, of two bytes, last: all else begins at whole words.
  for (const [name, tensor] of ours.sort(([, a], [, b]) => numbersOf(b.shape) - numbersOf(a.shape))) {
    const layer = /\.layers\.(\d+)\./.exec(name);
    if (layer === null) add(name, tensor);
    else for (let i = Number(layer[1]); i < kLayers; i += layers) add(name.replace(layer[0], `.layers.${i}.`), tensor);
  }
  text.layer_types = Array.from({ length: kLayers }, (_, i) => text.layer_types[i % layers]);
  Object.assign(text, { hidden_size: kHidden, intermediate_size: kInner, num_hidden_layers: kLayers });
  const json = Buffer.from(JSON.stringify(header)), length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return { config: Buffer.from(JSON.stringify(config)), head: Buffer.concat([length, json]), bytes: end };
}

// Words that occur once in kPeriod bytes, so that what was read says where.
const kPeriod = 1 << 20;
const kRead = 4 << 20; // the most at once
const pattern = new Uint8Array(kPeriod + kRead);
new Uint32Array(pattern.buffer).forEach((_, i, words) => (words[i] = (i % (kPeriod / 4)) * 4));

class DrawnFile {
  constructor(head, bytes) {
    Object.assign(this, { head, size: head.length + bytes, read_bytes: 0 });
  }
  read(offset, target) {
    assert.ok(target.length <= kRead, `${target.length} bytes at once`);
    this.read_bytes += target.length;
    const drawn = Math.max(0, offset - this.head.length) % kPeriod, known = this.head.subarray(offset, offset + target.length);
    target.set(known);
    target.set(pattern.subarray(drawn, drawn + target.length - known.length), known.length);
    return target.length;
  }
}

class ForgetfulGpu {
  constructor() {
    Object.assign(this, { failure: null, uploaded: 0, last: 0 });
  }
  async settle() {}
  async wait() {}
  imports(memory) {
    const adapter = Buffer.from(JSON.stringify({
      description: 'none', driver: '', buffer_bytes: 2 ** 31, binding_bytes: 2 ** 31, uniform_alignment: 256, storage_alignment: 256,
      workgroup_bytes: 32768, workgroup_threads: 256, workgroups: 65535,
    }));
    const id = () => ++this.last;
    return {
      adapter: (into, room) => {
        Buffer.from(memory().buffer).set(adapter.subarray(0, room), into);
        return adapter.length;
      },
      failure: () => 0, buffer: id, pipeline: id, bind: id, submit: id, drop_buffer() {}, drop_binding() {}, pipelines: id, poll: () => 1,
      upload: (buffer, offset, from, bytes) => this.#upload(Buffer.from(memory().buffer, from >>> 0, bytes)),
    };
  }
  #upload(bytes) {
    this.uploaded += bytes.length;
    if (bytes.length < kRead) return; // a step's, or small weights as other numbers
    for (let at = 0; at < bytes.length; at += kRead) {
      const piece = bytes.subarray(at, at + kRead), from = piece.readUInt32LE() % kPeriod;
      assert.equal(Buffer.compare(piece, pattern.subarray(from, from + piece.length)), 0, 'uploaded bytes are not the file\'s');
    }
  }
}

const { config, head, bytes } = grown();
const gpu = new ForgetfulGpu(), file = new DrawnFile(head, bytes);
assert.ok(file.size > kLeastFile, `${file.size} bytes`);
const { module, files, addFile } = await loadModule(process.argv[2], gpu);
addFile('m/config.json', config);
for (const name of ['tokenizer.json', 'tokenizer_config.json']) addFile(`m/${name}`, readFileSync(`${kFolder}/${name}`));
files.set('m/model.safetensors', file);
const started = Date.now();
const model = await module.open({ model: 'm', device: 'webgpu', context: 256 });
console.log(`a file of ${(file.size / 1e9).toFixed(2)} GB: ${(gpu.uploaded / 1e9).toFixed(2)} GB uploaded, ` +
            `${(file.read_bytes / 1e9).toFixed(2)} GB read, ${(module.heapBytes / 1e6).toFixed(0)} MB of memory, ` +
            `${((Date.now() - started) / 1000).toFixed(1)} s`);
assert.ok(gpu.uploaded > kLeastFile * 0.99, 'all of it is uploaded');
assert.ok(file.read_bytes < 1.1 * file.size, 'and read once');
assert.ok(module.heapBytes < kMostHeap, `${module.heapBytes} bytes of memory: want fewer than ${kMostHeap}`);
model.close();
