// The line under the prompt: speed, memory, experts, how much of the context is used.
import { formatBytes } from '../index.ts';
import type { ExpertStats, LanguageModel, Stats } from '../index.ts';
import { byId, formatCount } from './dom.ts';

// "room for 120 of 1,024 experts, 43 % found there"
function sayExperts({ inMemory, all, uses, misses }: ExpertStats): string {
  const found = uses === 0 ? '' : `, ${Math.round(100 * (1 - misses / uses))} % found there`;
  return `room for ${formatCount(inMemory)} of ${formatCount(all)} experts${found}`;
}

// "800 MB memory, 2.1 GB on the GPU"; null: it is a server's.
function sayMemory(stats: Stats | null): string {
  if (stats === null) return '';
  return `${formatBytes(stats.heapBytes)} memory${stats.gpuBytes > 0 ? `, ${formatBytes(stats.gpuBytes)} on the GPU` : ''}`;
}

export interface Seen {
  speed: string;
  used: number | null; // tokens of the context; null: not known
}

export async function showStats(model: LanguageModel | null, { speed, used }: Seen): Promise<void> {
  const line = byId('stats');
  if (model === null) {
    line.textContent = '';
    return;
  }
  const stats = await model.stats();
  const context = formatCount(model.facts.context);
  const share = used === null || 100 * used < model.facts.context ? '' : ` (${Math.round((100 * used) / model.facts.context)} %)`;
  line.textContent = [
    speed,
    sayMemory(stats),
    stats?.experts && sayExperts(stats.experts),
    used === null ? `context ${context} tokens` : `context: ${formatCount(used)} of ${context} tokens used${share}`,
  ]
    .filter(Boolean)
    .join(' · ');
}
