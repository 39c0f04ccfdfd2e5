// The small models of the tests, every family's, and which files each consists of.
import { existsSync, readdirSync, readFileSync } from 'node:fs';

export const kData = 'tests/data';
const kTexts = ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja', 'generation_config.json'];
const isGolden = (file) => file.startsWith('golden');

// The manifest (tests/small_models.h says what its entries mean).
const models = JSON.parse(readFileSync(`${kData}/models.json`)).models;

// Those with weights and a golden.
export const smallModels = () => models.filter((one) => one.weights_here).map(({ name }) => name);

// "MODEL" or "MODEL:CASE,CASE": the model's name, and its golden's cases that are wanted, none of them for all.
export function chosenModels(texts) {
  return texts.map((text) => {
    const [name, cases] = text.split(':');
    return { name, cases: cases?.split(',') ?? [] };
  });
}

// [name, path] of what a Hugging Face directory's reader may want.
export function textAndWeights(folder) {
  return readdirSync(folder).filter((file) => /\.(json|jinja|safetensors)$/.test(file) && !isGolden(file))
    .map((file) => [file, `${folder}/${file}`]);
}

// Of a small model, some of whose texts may be another one's.
export function filesOf(name) {
  const owner = models.find((one) => one.name === name)?.tokenizer_of ?? name;
  const folder = `${kData}/${name}`, sibling = `${kData}/${owner}`;
  const missing = kTexts.filter((file) => !existsSync(`${folder}/${file}`) && existsSync(`${sibling}/${file}`));
  return [...textAndWeights(folder), ...missing.map((file) => [file, `${sibling}/${file}`])];
}

// Goldens of the reference models with cases that show pictures, sounds or a film.
export const kMediaGoldens = [['gemma4', 'golden'], ['gemma4', 'golden_audio'], ['gemma4_towers', 'golden'], ['gemma4_unified', 'golden'],
                              ['qwen3_5', 'golden'], ['qwen3_5', 'golden_media']];

// Of those, mixtures whose experts are also read as they are chosen.
export const kStreamed = models.filter((one) => one.weights_here && one.experts && one.format === 'bf16')
  .map(({ name }) => name);
