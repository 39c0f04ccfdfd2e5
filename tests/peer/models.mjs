// node models.mjs PEER BUILD REPOSITORY: files that `sluice convert` writes, run by llama.cpp (PEER/node_modules).
//
// F32 files of the models at hand: llama.cpp's logits against the goldens, with at most 1.1 times the error it shows on
// files of its own converter. Quantised files of the demo: its greedy tokens against Sluice's on the same file, up to a
// step whose two best logits are close. The same with an adapter that Sluice trains. The models are those of
// SLUICE_REFERENCE_MODELS where it is set, else tests/data's.
import {execFileSync} from "node:child_process";
import {existsSync, mkdirSync, readFileSync, rmSync} from "node:fs";
import {join, resolve} from "node:path";
import {pathToFileURL} from "node:url";

const [peer, build, repository] = process.argv.slice(2).map((path) => resolve(path));
const library = join(peer, "node_modules/node-llama-cpp/dist/index.js");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(library));
const llama = await getLlama({gpu: false, build: "never", skipDownload: true, maxThreads: 2, logLevel: LlamaLogLevel.error});
const reference = process.env.SLUICE_REFERENCE_MODELS;
const work = join(peer, "models");
mkdirSync(work, {recursive: true});

// The error llama.cpp has on its own converter's files: largest logit difference over all cases, mean KL divergence.
// Gemma's is that of its half-precision GELU table. The demo's was stated for a bf16 file, and as a mean KL only. Of
// Qwen3.5 and of MLX directories there was no file of its own: the bar is that of `sluice verify` in exact arithmetic.
// They stand in the manifest of small models; a bar that is null is not held.
const MODELS = JSON.parse(readFileSync(join(repository, "tests/data/models.json"))).models.filter(({peer}) => peer);
const PEERS_OWN = Object.fromEntries(MODELS.map(({name, peer}) => [name, {largest: peer.largest ?? Infinity, kl: peer.kl}]));
const MORE = 1.1;
// Best logit minus second best, below which two programs may choose differently.
const CLOSE = {bf16: 0.05, q8_0: 0.5, q4_k_m: 0.5};
const CLOSE_TRAINED = 0.05;  // of an adapter on the f32 file

// Tensors of a safetensors file by name; f32 only.
function readTensors(path) {
  const bytes = readFileSync(path);
  const header = Number(bytes.readBigUInt64LE(0));
  const entries = JSON.parse(bytes.subarray(8, 8 + header).toString());
  return (name) => {
    const {dtype, shape, data_offsets: [begin, end]} = entries[name];
    if (dtype !== "F32") throw new Error(`${path}: ${name} is ${dtype}: want F32`);
    const copy = Uint8Array.prototype.slice.call(bytes, 8 + header + begin, 8 + header + end);
    return {shape, values: new Float32Array(copy.buffer)};
  };
}

function convert(source, name, format) {
  const file = join(work, `${name}-${format}.gguf`);
  execFileSync(join(build, "sluice"), ["convert", source, file, "--to", format], {stdio: "pipe"});
  return file;
}

function known(format) {
  const help = execFileSync(join(build, "sluice"), ["convert", "--help"]).toString();
  return help.split(/[^a-z0-9_]+/).includes(format);
}

async function withModel(file, context, use, adapter = undefined) {
  const model = await llama.loadModel({modelPath: file, useMmap: true});
  const created = await model.createContext({contextSize: context, batchSize: 512, threads: 1, sequences: 1,
    flashAttention: false, experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32",
    ...(adapter && {lora: {adapters: [{filePath: adapter, scale: 1}]}})});
  try {
    return await use(created.getSequence());
  } finally {
    await model.dispose();
  }
}

const WANT = {generateNext: {logits: true, probabilities: false, token: false}};

// Rows of logits, one a position.
async function logitsAt(sequence, ids, positions) {
  await sequence.clearHistory();
  const wanted = new Set(positions);
  const out = await sequence.controlledEvaluate(ids.map((id, i) => wanted.has(i) ? [id, WANT] : id));
  return positions.map((position) => {
    const row = new Float32Array(out[position].next.logits.size);
    for (const [token, logit] of out[position].next.logits) row[token] = logit;
    return row;
  });
}

function klDivergence(want, found) {
  const logSum = (row) => {
    const most = row.reduce((a, b) => Math.max(a, b));
    return most + Math.log(row.reduce((sum, x) => sum + Math.exp(x - most), 0));
  };
  const [w, f] = [logSum(want), logSum(found)];
  return want.reduce((sum, x, i) => sum + Math.exp(x - w) * ((x - w) - (found[i] - f)), 0);
}

const runnable = (golden) => golden.cases.filter((one) => one.kind === "text" || one.kind === "chat");
const longest = (golden) => Math.max(...runnable(golden).map((one) => one.input_ids.length + (one.greedy?.length ?? 0)));

let failed = 0;
function judge(right, line) {
  console.log(line + (right ? "" : ": DIFFERS"));
  failed += right ? 0 : 1;
}

async function compareLogits(name) {
  const folder = [reference, join(repository, "tests/data")].filter(Boolean).map((path) => join(path, name))
    .find((path) => existsSync(join(path, "config.json")));
  if (!folder) return console.log(`${name}: not here`);
  const golden = JSON.parse(readFileSync(join(folder, "golden.json")));
  const tensor = readTensors(join(folder, "golden.safetensors"));
  let file;
  try {
    file = convert(folder, name, "f32");
  } catch (problem) {
    return console.log(`${name}: not run: ${problem.stderr.toString().trim()}`);
  }
  let largest = 0;
  const divergences = [];
  await withModel(file, longest(golden) + 8, async (sequence) => {
    for (const one of runnable(golden)) {
      const {shape: [, vocabulary], values} = tensor(one.tensors.logits);
      const rows = await logitsAt(sequence, one.input_ids, one.positions);
      let sum = 0;
      rows.forEach((found, i) => {
        const want = values.subarray(i * vocabulary, (i + 1) * vocabulary);
        found.forEach((x, token) => { largest = Math.max(largest, Math.abs(x - want[token])); });
        sum += klDivergence(want, found);
      });
      divergences.push(sum / rows.length);
    }
  });
  const kl = divergences.reduce((a, b) => a + b, 0) / divergences.length;
  const own = PEERS_OWN[name];
  judge(divergences.length > 0 && largest <= MORE * own.largest && kl <= MORE * own.kl,
    `${name}, F32: ${divergences.length} cases, largest logit difference ${largest.toExponential(1)} `
    + `(its own file ${own.largest.toExponential(1)}), mean KL ${kl.toExponential(1)} (${own.kl.toExponential(1)})`);
}

// The peer's greedy tokens, and how far the best logit was from the second. One by one, as it would generate them: its
// products of many rows round otherwise than those of one (on q8_0 files by whole logits, at the demo's first tokens).
async function peersTokens(sequence, prompt, count) {
  await sequence.clearHistory();
  const steps = [];
  let next = prompt;
  while (steps.length < count) {
    const out = await sequence.controlledEvaluate(next.map((id, i) => i < next.length - 1 ? id : [id, WANT]));
    const [[best, logit], [, second]] = out.at(-1).next.logits;  // best first
    steps.push({token: best, margin: logit - second});
    next = [best];
  }
  return steps;
}

// Trains an adapter of the model on made-up words: its folder, and the GGUF file of it.
function train(file) {
  const [folder, gguf] = [join(work, "adapter"), join(work, "adapter.gguf")];
  execFileSync(join(build, "sluice"), ["train", file, join(repository, "examples/words.jsonl"), "--out", folder, "--gguf", gguf,
    "--steps", "40", "--batch-tokens", "256", "--rate", "2e-3"], {stdio: "pipe"});
  return {folder, gguf};
}

async function compareGreedy(source, goldenPath, format, trains = false) {
  if (!known(format)) return console.log(`demo, ${format}: convert has no such format yet`);
  const golden = JSON.parse(readFileSync(goldenPath));
  const file = convert(source, "demo", format);
  const adapter = trains ? train(file) : undefined;
  const ours = JSON.parse(execFileSync(join(build, "peer_greedy"), [file, goldenPath, ...(adapter ? [adapter.folder] : [])],
    {stdio: ["ignore", "pipe", "inherit"]}));
  let changed = 0;
  const partings = [];
  let cases = 0;
  let right = true;
  await withModel(file, longest(golden) + 8, async (sequence) => {
    for (const one of runnable(golden).filter((each) => each.greedy?.length)) {
      const steps = await peersTokens(sequence, one.input_ids, one.greedy.length);
      const parted = steps.findIndex(({token}, i) => token !== ours[one.name][i]);
      cases += 1;
      changed += steps.some(({token}, i) => token !== one.greedy[i]) ? 1 : 0;
      if (parted < 0) continue;
      partings.push(`${one.name} at ${parted} (margin ${steps[parted].margin.toFixed(3)})`);
      right &&= steps[parted].margin < (trains ? CLOSE_TRAINED : CLOSE[format]);
    }
  }, adapter?.gguf);
  // An adapter that changes no answer would show nothing.
  const shows = !trains || changed > 2;
  const what = trains ? ` with an adapter trained here, which changes ${changed} answers` : "";
  judge(right && cases > 0 && shows, `demo, ${format}${what}: greedy tokens of ${cases} cases, parting in ${partings.length}`
    + (partings.length ? `: ${partings.join(", ")}` : ""));
}

for (const name of Object.keys(PEERS_OWN)) await compareLogits(name);
const trained = reference && existsSync(join(reference, "gemma4/config.json"));
const source = trained ? join(reference, "gemma4") : join(repository, "assets/demo-gemma4-q8_0.gguf");
const golden = join(trained ? reference : join(repository, "tests/data"), "gemma4/golden.json");
for (const format of Object.keys(CLOSE)) await compareGreedy(source, golden, format);
await compareGreedy(source, golden, "f32", true);
rmSync(work, {recursive: true});
console.log(`models: ${failed} differ`);
process.exit(failed === 0 ? 0 : 1);
