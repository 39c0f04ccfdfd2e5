// The goldens in the page's module: golden_test.mjs MODULE, with SIMD128, on one thread; golden_test.mjs MODULE webgpu
// [MODEL[:CASE,...]...]: the small models' on WebGPU through the page's host.
import { existsSync, readFileSync } from 'node:fs';
import { compareLogits, Golden, parting } from './golden.mjs';
import { loadModule, openGpu } from './host.mjs';
import { decodePicture } from './media_files.mjs';
import { chosenModels, filesOf, kData, kMediaGoldens, kStreamed, smallModels, textAndWeights } from './small_models.mjs';
import { kPeers, Verifier } from './verify.mjs';

const [path, where, ...chosen] = process.argv.slice(2);
const onGpu = where === 'webgpu';

const { module, files, addFile, host } = await loadModule(path, onGpu ? await openGpu() : null);
const verifier = new Verifier(module, decodePicture);
const hold = (what, holds) => verifier.hold(what, holds);
const verify = (...what) => verifier.verify(...what);
const goldenOf = (folder, name = 'golden') => new Golden(readFileSync(`${folder}/${name}.json`), readFileSync(`${folder}/${name}.safetensors`),
                                                         (file) => readFileSync(`${folder}/${file}`));

const kDemo = 'demo-gemma4-q8_0.gguf';
const demoGolden = goldenOf(`${kData}/gemma4`);

async function holdDemo() {
  const [one, other] = ['short17', 'chat_violin'].map((name) => demoGolden.cases.find((a) => a.name === name));
  hold('the bars can be missed',
       compareLogits(demoGolden.logits(one), demoGolden.logits(other), 4096).largest > 1 &&
       parting(one.greedy, other.greedy, other.greedy_margin) !== null);
  addFile(kDemo, readFileSync(`assets/${kDemo}`));
  await verify('demo q8_0', kDemo, demoGolden, { arithmetic: 'exact', judge: 'reference' });
  await verify('demo q8_0', kDemo, demoGolden, { arithmetic: 'fast', judge: 'reference', peer: kPeers.q8_0 });
  files.delete(kDemo);
}

// The small models of the tests, every family's.
async function holdSmall(models, where) {
  for (const { name, cases } of models) {
    for (const [file, path] of filesOf(name)) addFile(`${name}/${file}`, readFileSync(path));
    const golden = goldenOf(`${kData}/${name}`).only(cases);
    await verify(name, name, golden, { arithmetic: 'exact', judge: 'golden', ...where });
    await verifier.verifySavedState(name, name, golden, where);
    const arithmetics = kStreamed.includes(name) ? (onGpu ? ['exact'] : ['exact', 'fast']) : [];
    for (const arithmetic of arithmetics) await verifier.verifyStreamed(name, name, golden, { arithmetic, ...where });
    files.clear();
  }
}

// ---- the full set

// What llama.cpp's quantised files of the demo lose against the golden, found by others: exact arithmetic loses as much.
const kAnchors = { 'gemma4-q4_k_m': 8.57e-3, 'gemma4-q6_k': 1.195e-3 };

async function holdAnchor(name, path, meanKl) {
  const model = await module.open({ model: path, arithmetic: 'exact', context: 2048 });
  let found = 0;
  for (const one of demoGolden.cases) {
    const { logits } = await model.run({ prompt: one.input_ids, logits_at: one.positions });
    found += compareLogits(logits, demoGolden.logits(one), model.facts.vocabulary).kl / demoGolden.cases.length;
  }
  model.close();
  hold(`${name}, exact: mean KL ${found}: want ${meanKl} to 2 %`, Math.abs(found / meanKl - 1) <= 0.02);
  console.log(`${name} exact: mean KL ${found.toExponential(3)}, by others ${meanKl.toExponential(3)}`);
}

// Pictures, sounds and films of the reference models, whose towers lie in the model's files or in one of llama.cpp's.
const kProjectors = { gemma4_dense: 'gemma4_dense-bf16.gguf' };
async function holdMedia(models, where) {
  for (const [name, golden] of kMediaGoldens) {
    const folder = `${models}/${name}`;
    for (const [file, path] of textAndWeights(folder)) addFile(`${name}/${file}`, readFileSync(path));
    await verify(`${name} ${golden}`, name, goldenOf(folder, golden).onlyMedia(), { arithmetic: 'exact', judge: 'golden', ...where });
    files.clear();
  }
  for (const [name, file] of Object.entries(kProjectors)) {
    const projector = `mmproj-${name}.gguf`;
    for (const one of [file, projector]) addFile(one, readFileSync(`${models}/peer/${one}`));
    await verify(`${name} with ${projector}`, file, goldenOf(`${models}/${name}`).onlyMedia(),
                 { arithmetic: 'exact', judge: 'golden', projector, ...where });
    files.clear();
  }
}

async function holdFullSet(models) {
  for (const [file, path] of textAndWeights(`${models}/gemma4`)) addFile(`gemma4/${file}`, readFileSync(path));
  await verify('demo bf16', 'gemma4', demoGolden, { arithmetic: 'exact', judge: 'golden' });
  await verify('demo bf16', 'gemma4', demoGolden, { arithmetic: 'fast', judge: 'golden', peer: kPeers.bf16 });
  files.clear();
  await holdMedia(models, {});
  for (const [name, meanKl] of Object.entries(kAnchors)) {
    const file = `${name}.gguf`;
    addFile(file, readFileSync(`${models}/peer/${file}`));
    await holdAnchor(name, file, meanKl);
    files.clear();
  }
  for (const model of ['gemma4_dense', 'gemma4_moe']) {
    const name = `${model}-q4_k_m`, file = `${name}.gguf`;
    addFile(file, readFileSync(`${models}/peer/${file}`));
    await verify(name, file, goldenOf(`${kData}/${model}`), { arithmetic: 'exact', judge: 'reference' });
    files.clear();
  }
}

if (onGpu) {
  console.log(`on ${host.gpu.description}`);
  await holdSmall(chosenModels(chosen.length > 0 ? chosen : smallModels()), { device: 'webgpu', kind: 'webgpu', perplexity: false });
} else {
  await holdDemo();
  await holdSmall(chosenModels(smallModels()), {});
  const models = process.env.SLUICE_REFERENCE_MODELS;
  if (models && existsSync(`${models}/gemma4`) && existsSync(`${models}/peer`)) {
    await holdFullSet(models);
  } else {
    console.log('golden cases not run in the module: the bf16 demo model and files of llama.cpp: SLUICE_REFERENCE_MODELS ' +
                'names no folder with gemma4 and peer');
  }
}
console.log(`goldens in the module: ${verifier.missed} bars missed`);
process.exit(verifier.missed === 0 ? 0 : 1); // the GPU's driver would keep the process
