// A few models that run in a page, to begin with: what they take, and whether that fits here. Addresses and sizes are those of
// 25 November 2026; what the server says when one is downloaded counts.
import { formatBytes } from '../index.ts';
import type { StoredModel } from '../index.ts';
import { h } from './dom.ts';
import type { Choice } from './models.ts';

interface KnownModel {
  name: string;
  good: string; // for what
  url: string;
  bytes: number;
}

const hub = (repository: string, file: string): string => `https://huggingface.co/${repository}/resolve/main/${file}`;
const kModels: KnownModel[] = [
  {
    name: 'Qwen3.5 0.8B',
    good: 'quick on any machine, knows little',
    url: hub('unsloth/Qwen3.5-0.8B-GGUF', 'Qwen3.5-0.8B-Q4_K_M.gguf'),
    bytes: 532_517_120,
  },
  {
    name: 'Qwen3.5 2B',
    good: 'simple questions, also on the processor',
    url: hub('unsloth/Qwen3.5-2B-GGUF', 'Qwen3.5-2B-Q4_K_M.gguf'),
    bytes: 1_280_835_840,
  },
  {
    name: 'Qwen3.5 4B',
    good: 'everyday questions, on a GPU',
    url: hub('unsloth/Qwen3.5-4B-GGUF', 'Qwen3.5-4B-Q4_K_M.gguf'),
    bytes: 2_740_937_888,
  },
  {
    name: 'Gemma 4 E2B',
    good: 'everyday questions, many languages, on a GPU',
    url: hub('unsloth/gemma-4-E2B-it-GGUF', 'gemma-4-E2B-it-Q4_K_M.gguf'),
    bytes: 3_106_736_256,
  },
];

const kBesideWeights = 0.5e9; // bytes of the program, its cache and activations
const kMostShare = 0.7; // of a machine's memory; the browser and the system have the rest

// Why it does not fit; "": it does, as far as a browser tells.
function obstacle(bytes: number, storageLeft: number | null): string {
  if (storageLeft !== null && bytes > storageLeft) return `no room: ${formatBytes(storageLeft)} of storage left`;
  // Gibibytes, rounded down to a power of two and at most 8; only some browsers say.
  const { deviceMemory } = navigator as { deviceMemory?: number };
  const memory = (deviceMemory ?? Infinity) * 2 ** 30;
  return bytes + kBesideWeights > memory * kMostShare ? `may not fit: this machine has ${deviceMemory} GiB of memory` : '';
}

export function catalogueRows(
  stored: StoredModel[],
  storageLeft: number | null,
  choose: (choice: Choice) => void,
): HTMLElement[] {
  const isStored = ({ url }: KnownModel): boolean => stored.some((model) => model.url === url);
  return kModels
    .filter((model) => !isStored(model))
    .map(({ name, good, url, bytes }) => {
      const why = obstacle(bytes, storageLeft);
      const fits = why === '' ? 'fits here' : why;
      const get = (): void => choose({ source: url, options: {} });
      return h(
        'li',
        { className: why === '' ? '' : 'unfit' },
        h('span', { className: 'grow' }, h('strong', {}, name), h('small', {}, `${formatBytes(bytes)}, ${fits}; ${good}`)),
        h('button', { type: 'button', ariaLabel: `Download ${name}`, onclick: get }, 'Download'),
      );
    });
}
