// The goldens in the page's module, with SIMD128, on one thread: golden_test.mjs MODULE. The bars are those of
// app/verify_bars.h; what has no peer's number there is held in exact arithmetic only.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { compareLogits, Golden, greedyOf, parting, perplexityOf } from './golden.mjs';
import { Module } from './module.mjs';

const kData = 'tests/data';
const kExactLogits = 1e-3, kFloat64Factor = 10, kExactGreedyFactor = 2, kExactLnPerplexity = 1e-3, kPeerFactor = 3;
// llama.cpp's mean KL on the demo model, and how clear a greedy choice may be that fast arithmetic makes otherwise.
const kPeers = { q8_0: { meanKl: 6.5e-4, margin: 0.5 }, bf16: { meanKl: 1.5e-5, margin: 0.05 } };
const kPeerCases = 11;

let missed = 0;
function hold(what, holds) {
  if (!holds) console.error(`missed: ${what}`);
  missed += holds ? 0 : 1;
}

const module = await Module.load(process.argv[2]);

function addFolder(folder, name) {
  for (const file of readdirSync(folder)) {
    if (/\.(json|jinja|safetensors)$/.test(file) && !file.startsWith('golden')) {
      module.addFile(`${name}/${file}`, readFileSync(`${folder}/${file}`));
    }
  }
}
function removeFolder(folder, name) {
  for (const file of readdirSync(folder)) module.removeFile(`${name}/${file}`);
}

const bar = (one) => Math.max(kExactLogits, kFloat64Factor * (one.float64_difference ?? 0));

// Rows of logits by position.
class Rows {
  constructor(positions, logits, vocabulary) {
    Object.assign(this, { positions, logits, vocabulary });
  }
  at(positions) {
    const out = new Float32Array(positions.length * this.vocabulary);
    positions.forEach((position, i) => {
      const row = this.positions.indexOf(position);
      out.set(this.logits.subarray(row * this.vocabulary, (row + 1) * this.vocabulary), i * this.vocabulary);
    });
    return out;
  }
}

function runCase(model, one, positions) {
  const answer = model.run({ prompt: one.input_ids, max_tokens: one.greedy?.length ?? 0, logits_at: positions });
  return { tokens: answer.tokens, rows: new Rows(positions, answer.logits, model.facts.vocabulary) };
}

function checkChat(model, one) {
  if (one.kind !== 'chat') return;
  const rendered = model.render({ messages: one.messages, extra: one.template_kwargs ?? null });
  hold(`${one.name}: rendered text`, rendered === one.text);
  const ids = model.encode(one.text);
  hold(`${one.name}: tokens of the rendered text`, JSON.stringify(ids) === JSON.stringify(one.input_ids));
  hold(`${one.name}: text of the tokens`, model.decode(ids) === one.text);
}

// What the reference device makes of the same file: rows of logits, and its choice after each of our tokens.
function referenceOf(reference, one, positions, tokens) {
  const steps = tokens.map((token, i) => one.input_ids.length - 1 + i);
  const all = [...new Set([...positions, ...steps])].sort((a, b) => a - b);
  const prompt = [...one.input_ids, ...tokens.slice(0, -1)];
  const rows = new Rows(all, reference.run({ prompt, logits_at: all }).logits, reference.facts.vocabulary);
  return { rows, ...greedyOf(rows.at(steps), reference.facts.vocabulary) };
}

// One model in one arithmetic. `judge`: "golden" when the file's weights are the golden's, else "reference".
function verify(name, path, golden, { arithmetic, judge, peer }) {
  const started = Date.now();
  const context = Math.max(...golden.cases.map((one) => one.input_ids.length + (one.greedy?.length ?? 0)));
  const model = module.open({ model: path, arithmetic, context });
  const { vocabulary } = model.facts;
  hold(`${name}: SIMD128, found ${model.facts.numerics_id}`, model.facts.numerics_id.includes('simd128'));
  const plain = { model: path, device: 'reference', arithmetic: 'exact', context };
  const reference = judge === 'reference' ? module.open(plain) : null;
  const worst = { logits: 0, equal: 0, greedy: 0 };
  let meanKl = 0;
  for (const one of golden.cases) {
    const where = `${name}, ${arithmetic}, ${one.name}`;
    const exact = arithmetic === 'exact';
    // The perplexity needs all rows, which the reference device would take a minute for.
    const all = exact && judge === 'golden' && one.perplexity;
    const positions = all ? one.input_ids.map((id, i) => i) : one.positions;
    checkChat(model, one);
    const ours = runCase(model, one, positions);
    const errors = compareLogits(ours.rows.at(one.positions), golden.logits(one), vocabulary);
    hold(`${where}: logits are finite`, Number.isFinite(errors.kl) && Number.isFinite(errors.largest));
    meanKl += errors.kl / golden.cases.length;

    let largest = errors.largest, most = bar(one), theirs = { greedy: one.greedy ?? [], margins: one.greedy_margin ?? [] };
    if (reference !== null) {
      if (!exact && ours.tokens.length === 0) continue; // nothing that the reference would judge
      theirs = referenceOf(reference, one, positions, ours.tokens);
      largest = compareLogits(ours.rows.at(one.positions), theirs.rows.at(one.positions), vocabulary).largest;
      most = kExactLogits;
    }
    worst.logits = Math.max(worst.logits, largest);
    if (exact) hold(`${where}: largest logit difference ${largest}: want at most ${most}`, largest <= most);
    if (all) {
      const ln = Math.abs(Math.log(perplexityOf(ours.rows.at(positions), one.input_ids, vocabulary) / one.perplexity));
      hold(`${where}: ln perplexity is ${ln} off: want at most ${kExactLnPerplexity}`, ln <= kExactLnPerplexity);
    }
    if (theirs.greedy.length === 0) continue;
    const margin = exact ? kExactGreedyFactor * most : peer.margin;
    const parted = parting(ours.tokens, theirs.greedy, theirs.margins);
    hold(`${where}: greedy tokens part at ${parted?.at} with margin ${parted?.margin}: want below ${margin}`,
         parted === null || parted.margin < margin);
    worst.equal += parted === null ? 1 : 0;
    ++worst.greedy;
  }
  if (arithmetic === 'fast') {
    const most = kPeerFactor * peer.meanKl;
    hold(`${name}, fast: ${golden.cases.length} cases: want ${kPeerCases}`, golden.cases.length === kPeerCases);
    hold(`${name}, fast: mean KL ${meanKl}: want at most ${most}`, meanKl <= most);
  }
  reference?.close();
  model.close();
  console.log(`${name} ${arithmetic} (${model.facts.numerics_id}): ${golden.cases.length} cases, mean KL ` +
              `${meanKl.toExponential(2)}; by the ${judge}: largest ${worst.logits.toExponential(1)}, greedy tokens equal ` +
              `in ${worst.equal} of ${worst.greedy}; ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

const demo = 'demo-gemma4-q8_0.gguf';
const demoGolden = new Golden(`${kData}/gemma4`);
const [one, other] = ['short17', 'chat_violin'].map((name) => demoGolden.cases.find((a) => a.name === name));
hold('the bars can be missed',
     compareLogits(demoGolden.logits(one), demoGolden.logits(other), 4096).largest > 1 &&
     parting(one.greedy, other.greedy, other.greedy_margin) !== null);
module.addFile(demo, readFileSync(`assets/${demo}`));
verify('demo q8_0', demo, demoGolden, { arithmetic: 'exact', judge: 'reference' });
verify('demo q8_0', demo, demoGolden, { arithmetic: 'fast', judge: 'reference', peer: kPeers.q8_0 });
module.removeFile(demo);

// The small models of the tests, every family's.
const kTexts = ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja', 'generation_config.json'];
const isModel = (file) => file.endsWith('.safetensors') && !file.startsWith('golden');
for (const name of readdirSync(kData).filter((name) => existsSync(`${kData}/${name}/golden.json`))) {
  if (!readdirSync(`${kData}/${name}`).some(isModel)) continue;
  addFolder(`${kData}/${name}`, name);
  // An MLX directory's tokenizer is that of the model it is named after: they are the same files.
  const sibling = `${kData}/${name.replace(/_mlx\d$/, '')}`;
  const missing = kTexts.filter((file) => !existsSync(`${kData}/${name}/${file}`) && existsSync(`${sibling}/${file}`));
  for (const file of missing) module.addFile(`${name}/${file}`, readFileSync(`${sibling}/${file}`));
  verify(name, name, new Golden(`${kData}/${name}`), { arithmetic: 'exact', judge: 'golden' });
  removeFolder(`${kData}/${name}`, name);
  for (const file of missing) module.removeFile(`${name}/${file}`);
}

// ---- the full set

// What llama.cpp's quantised files of the demo lose against the golden, found by others: exact arithmetic loses as much.
const kAnchors = { 'gemma4-q4_k_m': 8.57e-3, 'gemma4-q6_k': 1.195e-3 };

function holdAnchor(name, path, meanKl) {
  const model = module.open({ model: path, arithmetic: 'exact', context: 2048 });
  const kls = demoGolden.cases.map((one) => {
    const { logits } = model.run({ prompt: one.input_ids, logits_at: one.positions });
    return compareLogits(logits, demoGolden.logits(one), model.facts.vocabulary).kl;
  });
  model.close();
  const found = kls.reduce((sum, kl) => sum + kl / kls.length, 0);
  hold(`${name}, exact: mean KL ${found}: want ${meanKl} to 2 %`, Math.abs(found / meanKl - 1) <= 0.02);
  console.log(`${name} exact: mean KL ${found.toExponential(3)}, by others ${meanKl.toExponential(3)}`);
}

function withFile(name, file, test) {
  module.addFile(name, readFileSync(file));
  test();
  module.removeFile(name);
}

const models = process.env.SLUICE_REFERENCE_MODELS;
if (models && existsSync(`${models}/gemma4`) && existsSync(`${models}/peer`)) {
  addFolder(`${models}/gemma4`, 'gemma4');
  verify('demo bf16', 'gemma4', demoGolden, { arithmetic: 'exact', judge: 'golden' });
  verify('demo bf16', 'gemma4', demoGolden, { arithmetic: 'fast', judge: 'golden', peer: kPeers.bf16 });
  removeFolder(`${models}/gemma4`, 'gemma4');
  for (const [name, meanKl] of Object.entries(kAnchors)) {
    const file = `${name}.gguf`;
    withFile(file, `${models}/peer/${file}`, () => holdAnchor(name, file, meanKl));
  }
  for (const model of ['gemma4_dense', 'gemma4_moe']) {
    const name = `${model}-q4_k_m`, file = `${name}.gguf`;
    withFile(file, `${models}/peer/${file}`, () => {
      verify(name, file, new Golden(`${kData}/${model}`), { arithmetic: 'exact', judge: 'reference' });
    });
  }
} else {
  console.log('golden cases not run in the module: the bf16 demo model and files of llama.cpp: SLUICE_REFERENCE_MODELS ' +
              'names no folder with gemma4 and peer');
}

console.log(`goldens in the module: ${missed} bars missed`);
process.exitCode = missed === 0 ? 0 : 1;
