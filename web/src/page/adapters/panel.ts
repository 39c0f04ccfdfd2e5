// The dialog of adapters: those of the model with their scales, files to add, a question both ways, and teaching.
import type { AdapterFacts, Sluice } from '../../index.ts';
import { byId, h, lightDismiss } from '../dom.ts';
import { announce, isGone, sentenceOf } from '../status.ts';
import { Comparison } from './compare.ts';
import { adaptersAmong } from './files.ts';
import { TeachForm } from './teach.ts';

const kMostScale = 2,
  kScaleStep = 0.05;

interface Events {
  model: () => Sluice | null;
  isAnswering: () => boolean; // in the conversation
  system: () => string;
  busy: () => void; // something here keeps the model from answering elsewhere, or does so no more
  lost: (error: unknown) => void; // the model has to be loaded again
}

export class AdapterPanel {
  private readonly dialog = byId<HTMLDialogElement>('adapters');
  private readonly note = byId('adapter-note');
  private readonly comparison: Comparison;
  private readonly teaching: TeachForm;
  private changes: Promise<void> = Promise.resolve(); // of adapters, one after the other
  private changing = 0;

  constructor(private readonly events: Events) {
    lightDismiss(this.dialog);
    byId('open-adapters').onclick = () => this.open();
    this.listenToPicker('adapter-file', 'adapter-open');
    this.listenToPicker('adapter-folder', 'adapter-open-folder');
    const shared = { model: events.model, busy: () => this.offer(), failed: (error: unknown) => this.fail(error), announce };
    this.comparison = new Comparison({ ...shared, system: events.system });
    this.teaching = new TeachForm(byId('teaching'), { ...shared, taught: () => this.draw(), tryIt: () => this.comparison.focus() });
  }

  // The model does nothing else meanwhile.
  get isAsking(): boolean {
    return this.comparison.isBusy;
  }
  get isTeaching(): boolean {
    return this.teaching.isBusy;
  }
  // Adapters come or go.
  get isChanging(): boolean {
    return this.changing > 0;
  }
  private get isBusy(): boolean {
    return this.isAsking || this.isTeaching || this.isChanging;
  }
  open(): void {
    this.hideError();
    this.draw();
    this.dialog.showModal();
  }
  // Picked or dropped ones.
  add(files: File[]): void {
    if (!this.dialog.open) this.open();
    this.change('Opening…', async (model) => {
      for (const adapter of adaptersAmong(files)) announce(`${(await model.adapters.load(adapter)).name} acts on the answers now`);
    });
  }
  // Another model is open, or none, or the conversation's answer begins or has ended.
  show(): void {
    byId('open-adapters').hidden = this.events.model() === null;
    if (this.events.model() === null) this.dialog.close();
    this.draw();
  }

  private listenToPicker(id: string, button: string): void {
    const picker = byId<HTMLInputElement>(id);
    byId(button).onclick = () => picker.click();
    picker.onchange = () => {
      const files = [...(picker.files ?? [])];
      picker.value = '';
      if (files.length > 0) this.add(files);
    };
  }

  private change(what: string, act: (model: Sluice) => Promise<void>): void {
    ++this.changing;
    this.note.textContent = what;
    this.hideError();
    this.offer();
    this.changes = this.changes.then(async () => {
      const model = this.events.model();
      try {
        if (model !== null) await act(model);
      } catch (error) {
        if (this.events.model() === model) this.fail(error);
      } finally {
        --this.changing;
        this.draw();
      }
    });
  }

  // Items that are shown already stay, with the focus in them.
  private draw(): void {
    const all = this.events.model()?.adapters.list() ?? [];
    const list = byId('adapter-list');
    const shown = [...list.children] as HTMLElement[];
    const items = all.map((one) => shown.find(({ dataset }) => dataset.name === one.name) ?? this.item(one));
    for (const item of shown) if (!items.includes(item)) item.remove();
    list.append(...items.filter((item) => !item.isConnected));
    if (this.changing === 0) items.forEach((item, i) => this.setScale(item, all[i]!.scale));
    list.hidden = all.length === 0;
    byId('comparing').hidden = all.length === 0;
    if (this.changing === 0) this.note.textContent = all.length === 0 ? 'None yet.' : '';
    this.offer();
  }
  // What may be done now.
  private offer(): void {
    const { model, isAnswering } = this.events;
    const ready = model() !== null && !isAnswering() && !this.isBusy;
    for (const id of ['adapter-open', 'adapter-open-folder']) byId<HTMLButtonElement>(id).disabled = !ready;
    for (const control of byId('adapter-list').querySelectorAll<HTMLInputElement | HTMLButtonElement>('input, button'))
      control.disabled = this.isTeaching || this.isAsking;
    this.comparison.offer(ready);
    this.teaching.offer(ready);
    this.events.busy();
  }

  private item({ name, scale, rank, weights }: AdapterFacts): HTMLElement {
    const output = h('output', {});
    const slider = h('input', { type: 'range', min: '0', max: `${kMostScale}`, step: `${kScaleStep}`, value: `${scale}`, ariaLabel: `Scale of ${name}` });
    slider.oninput = () => (output.value = slider.valueAsNumber.toFixed(2));
    slider.onchange = () => this.change('', (model) => model.adapters.scale(name, slider.valueAsNumber));
    const drop = h('button', { type: 'button', ariaLabel: `Drop ${name}` }, 'Drop');
    drop.onclick = () =>
      this.change('', async (model) => {
        await model.adapters.drop(name);
        byId('adapters-title').focus();
      });
    const item = h('li', {}, h('span', { className: 'grow' }, h('strong', {}, name), h('small', {}, `rank ${rank}, ${weights} weights`)), slider, output, drop);
    item.dataset.name = name;
    this.setScale(item, scale);
    return item;
  }

  private setScale(item: HTMLElement, scale: number): void {
    item.querySelector('input')!.value = `${scale}`;
    item.querySelector('output')!.value = scale.toFixed(2);
  }

  private fail(error: unknown): void {
    if (isGone(error)) {
      this.dialog.close();
      return this.events.lost(error);
    }
    byId('adapter-error').textContent = sentenceOf(error);
    byId('adapter-error').hidden = false;
  }
  private hideError(): void {
    byId('adapter-error').hidden = true;
  }
}
