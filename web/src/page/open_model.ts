// The model that is open, and the loading of another one. The open one goes on answering until the other's files are there
// and are a model's.
import { formatBytes, Sluice, SluiceError } from '../index.ts';
import type { LanguageModel, LoadProgress, Server } from '../index.ts';
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
  server: () => Server | null;
  wantsKey: (error: unknown) => void; // of the server
  closing: () => void; // an answer that is being made ends with the model
  changed: () => void;
}

export class OpenModel {
  model: LanguageModel | null = null;
  private loading: AbortController | null = null;
  private last: Choice | null = null; // that was opened, or wants a key

  constructor(private readonly events: Events) {
    byId('load-cancel').onclick = () => this.loading?.abort();
  }

  // Null: a server's answers, or none.
  get engine(): Sluice | null {
    return this.model instanceof Sluice ? this.model : null;
  }
  // Opens the last one again.
  again(): void {
    if (this.last !== null) void this.load(this.last);
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
      this.last = this.keep(choice);
      announce(`${model.facts.name} is ready`);
    } catch (error) {
      if (error instanceof SluiceError && error.kind === 'key') this.last = choice;
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
    if (error instanceof SluiceError && error.kind === 'key') return this.events.wantsKey(error);
    if (isGone(error)) this.close();
    showError(error, this.model === null && last !== null ? () => void this.load(last) : null);
  }

  // For the next visit. Returns how it is opened again.
  private keep(choice: Choice): Choice {
    const { engine, model } = this;
    const id = engine?.facts.id ?? null;
    if (engine === null) remember('last', { served: model!.facts.name });
    else remember('last', id === null ? null : { id, name: engine.facts.name });
    return id === null ? choice : { source: { stored: id }, options: {} };
  }

  // One that the server no longer has gives way to its first.
  private async openServed(wanted: string): Promise<LanguageModel> {
    const server = this.events.server();
    if (server === null) throw new SluiceError('network', 'no server answers beside this page: want sluice serve');
    const names = await server.models();
    const name = names.includes(wanted) ? wanted : names[0];
    if (name === undefined) throw new SluiceError('server', 'the server has no model: want one');
    return server.open(name);
  }

  private open(choice: Choice, mine: AbortController): Promise<LanguageModel> {
    if ('served' in choice) return this.openServed(choice.served);
    const { source, options } = choice;
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
