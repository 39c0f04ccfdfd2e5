// The model that is open, and the loading of another one. The open one goes on answering until the other's files are there
// and are a model's.
import { formatBytes, Sluice } from '../index.ts';
import type { LoadProgress } from '../index.ts';
import { byId } from './dom.ts';
import { remember } from './memory.ts';
import type { Settings } from './memory.ts';
import type { Choice } from './models.ts';
import { announce, hideError, isAborted, isGone, showError } from './status.ts';

const kMegabyte = 1e6; // bytes
const kStages = {
  connecting: 'Asking the server',
  checking: 'Looking at the file',
  waiting: 'Another tab downloads it',
  downloading: 'Downloading',
  copying: 'Copying',
  opening: 'Opening the model',
};
const kWithoutAmount = new Set(['connecting', 'checking', 'opening']);

function showProgress({ stage, loaded, total }: LoadProgress): void {
  const bar = byId<HTMLProgressElement>('load-bar');
  const of = total === null ? '' : ` of ${formatBytes(total)}`;
  byId('load-text').textContent = kStages[stage] + (kWithoutAmount.has(stage) ? '' : `: ${formatBytes(loaded)}${of}`);
  if (kWithoutAmount.has(stage) || total === null || total === 0) bar.removeAttribute('value');
  else bar.value = loaded / total;
}

interface Events {
  settings: () => Settings;
  closing: () => void; // an answer that is being made ends with the model
  changed: () => void;
}

export class OpenModel {
  model: Sluice | null = null;
  private loading: AbortController | null = null;
  private last: Choice | null = null; // that was opened

  constructor(private readonly events: Events) {
    byId('load-cancel').onclick = () => this.loading?.abort();
  }

  get isLoading(): boolean {
    return this.loading !== null;
  }
  close(): void {
    if (this.model === null) return;
    this.events.closing();
    this.model.close();
    this.model = null;
    this.events.changed();
  }

  async load(choice: Choice): Promise<void> {
    this.loading?.abort();
    hideError();
    const mine = (this.loading = new AbortController());
    byId('load').hidden = false;
    showProgress({ stage: 'checking', loaded: 0, total: null });
    this.events.changed();
    try {
      const model = await this.open(choice, mine);
      this.close();
      this.model = model;
      const { id, name } = model.facts;
      this.last = id === null ? choice : { source: { stored: id }, options: {} };
      remember('last', id === null ? null : { id, name });
      announce(`${name} is ready`);
    } catch (error) {
      if (!isAborted(error)) this.fail(error);
    } finally {
      if (this.loading === mine) {
        this.loading = null;
        byId('load').hidden = true;
        this.events.changed();
        if (this.model !== null) byId('prompt').focus();
      }
    }
  }
  // Of loading or of an answer.
  fail(error: unknown): void {
    const { last } = this;
    if (isGone(error)) this.close();
    showError(error, this.model === null && last !== null ? () => void this.load(last) : null);
  }

  private open({ source, options }: Choice, mine: AbortController): Promise<Sluice> {
    const { device, context, expertMemory } = this.events.settings();
    return Sluice.load(source, {
      ...options,
      device,
      context: context ?? 0,
      expertMemory: (expertMemory ?? 0) * kMegabyte,
      onProgress: (progress) => {
        if (this.loading !== mine) return;
        if (progress.stage === 'opening') this.close(); // two models may not have room
        showProgress(progress);
      },
      signal: mine.signal,
    });
  }
}
