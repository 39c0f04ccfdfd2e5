// The list of conversations beside the page: search, names, deletion that can be taken back, export and import.
import { byId, h, icon, saveAs } from '../dom.ts';
import { recall, remember } from '../memory.ts';
import { kExtension, readArchive, writeArchive } from './archive.ts';
import type { ConversationStore } from './store.ts';
import type { ConversationRecord } from './tree.ts';

interface Events {
  open: (id: string) => void;
  // The one that is shown was deleted.
  gone: () => void;
  isShown: (id: string) => boolean;
  failed: (error: unknown) => void;
  announce: (text: string) => void;
}

const kUndoFor = 15_000; // ms
const kWide = matchMedia('(min-width: 60rem)'); // where the list has a place beside the conversation

export class ConversationList {
  private readonly panel = byId('conversations');
  private readonly list = byId<HTMLUListElement>('conversation-list');
  private readonly search = byId<HTMLInputElement>('search');
  private drawing = 0;
  private drawn = ''; // what the list shows, so that nobody's focus is lost without a change
  private hiding: ReturnType<typeof setTimeout> | undefined; // of what brings a deleted one back

  constructor(
    private readonly store: ConversationStore,
    private readonly events: Events,
  ) {
    const toggle = byId('open-conversations');
    toggle.hidden = false;
    toggle.onclick = () => this.show(this.panel.hidden !== false);
    byId('close-conversations').onclick = () => this.show(false);
    this.panel.onkeydown = (event) => {
      if (event.key === 'Escape' && !kWide.matches) this.show(false);
    };
    this.search.oninput = () => void this.draw();
    this.listenToFiles();
    const begin = (): void => this.setShown(kWide.matches && recall('list') === 'open');
    kWide.addEventListener('change', begin);
    document.querySelector('main')!.addEventListener('pointerdown', () => !kWide.matches && this.setShown(false));
    begin();
    this.attempt(() => store.purge());
    void this.draw();
  }

  private show(shown: boolean): void {
    if (kWide.matches) remember('list', shown ? 'open' : 'closed');
    this.setShown(shown);
    (shown ? this.search : byId('open-conversations')).focus();
  }
  private setShown(shown: boolean): void {
    this.panel.hidden = !shown;
    byId('open-conversations').setAttribute('aria-expanded', `${shown}`);
  }

  async draw(): Promise<void> {
    const mine = ++this.drawing;
    const wanted = this.search.value.trim();
    try {
      const all = await this.store.list();
      const said = wanted === '' ? null : await this.store.withText(wanted);
      if (mine !== this.drawing || this.list.querySelector('input') !== null) return; // drawn anew meanwhile, or being renamed
      const isHit = ({ id, name }: ConversationRecord): boolean =>
        said === null || said.has(id) || name.toLowerCase().includes(wanted.toLowerCase());
      const hits = all.filter(isHit);
      const drawn = JSON.stringify(hits.map(({ id, name }) => [id, name, this.events.isShown(id)])) + wanted;
      if (drawn === this.drawn) return;
      this.drawn = drawn;
      const none = wanted === '' ? 'None yet.' : 'None has these words.';
      const rows = hits.map((record) => this.row(record));
      this.list.replaceChildren(...(rows.length > 0 ? rows : [h('li', { className: 'quiet' }, none)]));
      byId<HTMLButtonElement>('export-all').disabled = all.length === 0;
    } catch (error) {
      this.events.failed(error);
    }
  }

  private row(record: ConversationRecord): HTMLElement {
    const { id, name } = record;
    const isShown = this.events.isShown(id);
    const open = h('button', { type: 'button', className: 'name', onclick: () => this.open(id) }, name);
    if (isShown) open.setAttribute('aria-current', 'true');
    const tool = (label: string, path: string, onclick: () => void): HTMLElement =>
      h('button', { type: 'button', className: 'icon small', ariaLabel: `${label} ${name}`, title: label, onclick }, icon(path));
    const item = h(
      'li',
      { className: isShown ? 'shown-one' : '' },
      open,
      h(
        'span',
        { className: 'tools' },
        tool('Rename', 'M4 20h4L19 9l-4-4L4 16z', () => this.rename(item, record)),
        tool('Export', 'M12 4v11M7 10l5 5 5-5M5 20h14', () => this.attempt(() => this.export([record], name))),
        tool('Delete', 'M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13', () => this.attempt(() => this.delete(record))),
      ),
    );
    return item;
  }

  private open(id: string): void {
    if (!kWide.matches) this.setShown(false);
    this.events.open(id);
  }

  private rename(item: HTMLElement, { id, name }: ConversationRecord): void {
    const field = h('input', { type: 'text', value: name, ariaLabel: 'Name of the conversation', maxLength: 200 });
    let done = false;
    const end = (keep: boolean): void => {
      if (done) return;
      done = true;
      const given = field.value.trim();
      this.drawn = '';
      field.remove();
      this.attempt(async () => {
        if (keep && given !== '') await this.store.rename(id, given);
        await this.draw();
      });
    };
    field.onkeydown = (event) => {
      event.stopPropagation();
      if (event.key === 'Enter' && !event.isComposing) end(true);
      else if (event.key === 'Escape') end(false);
    };
    field.onblur = () => end(true);
    item.replaceChildren(field);
    field.select();
  }

  private async delete({ id, name }: ConversationRecord): Promise<void> {
    const wasShown = this.events.isShown(id);
    if (wasShown) this.events.gone();
    await this.store.delete(id);
    await this.draw();
    const bar = byId('undo');
    byId('undo-text').textContent = `“${name}” is deleted.`;
    bar.hidden = false;
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => (bar.hidden = true), kUndoFor);
    byId('undo-button').onclick = () => {
      bar.hidden = true;
      this.attempt(async () => {
        await this.store.bringBack(id);
        if (wasShown) this.events.open(id);
        await this.draw();
      });
    };
  }

  // ---- files

  private listenToFiles(): void {
    const picker = byId<HTMLInputElement>('import-file');
    byId('import').onclick = () => picker.click();
    picker.onchange = () => {
      const [file] = picker.files ?? [];
      picker.value = '';
      if (file) this.import(file);
    };
    byId('export-all').onclick = () =>
      this.attempt(async () => this.export(await this.store.list(), `all ${new Date().toISOString().slice(0, 10)}`));
  }
  import(file: File): void {
    this.attempt(async () => {
      const { records, messages } = await readArchive(file);
      await this.store.merge(records, messages);
      await this.draw();
      this.events.announce(`${records.length} conversations are here`);
    });
  }
  private async export(records: ConversationRecord[], name: string): Promise<void> {
    const messages = (await Promise.all(records.map(({ id }) => this.store.messages(id)))).flat();
    const file = name.replace(/[\\/:*?"<>|\p{Cc}]+/gu, ' ').trim() || 'conversation';
    saveAs(await writeArchive({ records, messages }), `${file}${kExtension}`);
  }

  private attempt(act: () => Promise<void>): void {
    act().catch(this.events.failed);
  }
}
