// Which of some files are adapters.
import { SluiceError } from '../../index.ts';

const kConfig = 'adapter_config.json',
  kFactors = 'adapter_model.safetensors',
  kMlxFactors = 'adapters.safetensors';

export const isAdapterFolder = (files: File[]): boolean => files.some(({ name }) => name === kConfig);

const depthOf = ({ webkitRelativePath }: File): number => webkitRelativePath.split('/').length;

// Each adapter's files: a GGUF file, or the two of a folder of PEFT or MLX, which may have others, and checkpoints below
// it.
export function adaptersAmong(files: File[]): File[][] {
  const found = files.filter(({ name }) => name.toLowerCase().endsWith('.gguf')).map((file) => [file]);
  const outermost = (wanted: string): File | undefined =>
    files.filter(({ name }) => name === wanted).sort((one, other) => depthOf(one) - depthOf(other))[0];
  const [config, factors] = [outermost(kConfig), outermost(kFactors) ?? outermost(kMlxFactors)];
  if (config && factors) found.push([config, factors]);
  if (found.length > 0) return found;
  const missing = config ? `${kFactors} is missing` : factors ? `${kConfig} is missing` : `${files[0]?.name ?? 'nothing'} is no adapter`;
  throw new SluiceError('model', `${missing}: want a GGUF file, or ${kConfig} and ${kFactors} together`);
}
