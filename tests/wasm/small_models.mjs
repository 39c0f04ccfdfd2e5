// The small models of the tests, every family's, and which files each consists of.
import { existsSync, readdirSync } from 'node:fs';

export const kData = 'tests/data';
const kTexts = ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja', 'generation_config.json'];
const isGolden = (file) => file.startsWith('golden');

// Those with weights and a golden.
export function smallModels() {
  const isModel = (file) => file.endsWith('.safetensors') && !isGolden(file);
  return readdirSync(kData).filter((name) => existsSync(`${kData}/${name}/golden.json`) &&
                                             readdirSync(`${kData}/${name}`).some(isModel));
}

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

// Of a small model. An MLX directory's tokenizer is that of the model it is named after: they are the same files.
export function filesOf(name) {
  const folder = `${kData}/${name}`, sibling = `${kData}/${name.replace(/_mlx\d$/, '')}`;
  const missing = kTexts.filter((file) => !existsSync(`${folder}/${file}`) && existsSync(`${sibling}/${file}`));
  return [...textAndWeights(folder), ...missing.map((file) => [file, `${sibling}/${file}`])];
}

// Of those, mixtures whose experts are also read as they are chosen.
export const kStreamed = ['gemma4_moe', 'qwen3_5_moe', 'deepseek_v3'];
