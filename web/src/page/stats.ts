// The line under the prompt: speed, memory, experts, how much of the context is used.
import { formatBytes } from '../index.ts';
import type { ExpertStats, Sluice } from '../index.ts';
import { byId, formatCount } from './dom.ts';

// "room for 120 of 1,024 experts, 43 % found there"
function sayExperts({ inMemory, all, uses, misses }: ExpertStats): string {
  const found = uses === 0 ? '' : `, ${Math.round(100 * (1 - misses / uses))} % found there`;
  return `room for ${formatCount(inMemory)} of ${formatCount(all)} experts${found}`;
}

export interface Seen {
  speed: string;
  used: number | null; // tokens of the context; null: not known
}

export async function showStats(model: Sluice | null, { speed, used }: Seen): Promise<void> {
  const line = byId('stats');
  if (model === null) {
    line.textContent = '';
    return;
  }
  const { heapBytes, gpuBytes, experts } = await model.stats();
  const onGpu = gpuBytes > 0 ? `, ${formatBytes(gpuBytes)} on the GPU` : '';
  const context = formatCount(model.facts.context);
  const share = used === null || 100 * used < model.facts.context ? '' : ` (${Math.round((100 * used) / model.facts.context)} %)`;
  line.textContent = [
    speed,
    `${formatBytes(heapBytes)} memory${onGpu}`,
    experts && sayExperts(experts),
    used === null ? `context ${context} tokens` : `context: ${formatCount(used)} of ${context} tokens used${share}`,
  ]
    .filter(Boolean)
    .join(' · ');
}
