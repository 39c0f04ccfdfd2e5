// Where a model comes from: the demo, a file, an address, the catalogue, this browser's storage; and what is stored, with
// deletion.
import { formatBytes, Sluice, SluiceError } from '../index.ts';
import type { LoadOptions, ModelSource, Server, StoredModel } from '../index.ts';
import { catalogueRows } from './catalogue.ts';
import { byId, h, lightDismiss } from './dom.ts';
import { sentenceOf } from './status.ts';

const kDemo = { file: 'demo-gemma4-q8_0.gguf', towers: 'mmproj-demo-gemma4.gguf', bytes: 11_124_000 };

export interface EngineChoice {
  source: ModelSource;
  options: LoadOptions;
}
// Of the server by its name; "": the first one that it has.
export type Choice = EngineChoice | { served: string };

interface Events {
  choose: (choice: Choice) => void;
  // Before a stored model is deleted: closes it if it is the one that is open.
  release: (id: string) => void;
  server: () => Server | null;
  failed: (error: unknown) => void;
}

export class Models {
  private readonly dialog = byId<HTMLDialogElement>('models');

  constructor(private readonly events: Events) {
    lightDismiss(this.dialog);
    byId('open-models').onclick = () => this.show();
    byId('welcome-choices').append(...this.choices('welcome'));
    byId('models-choices').append(...this.choices('dialog'));
  }

  show(): void {
    byId('storage-left').textContent = '';
    void this.list();
    void this.listServed();
    this.dialog.showModal();
  }

  // Dropped ones are kept as picked ones are.
  openFiles(files: File[]): void {
    this.choose({ source: files, options: { keep: byId<HTMLInputElement>('welcome-keep').checked } });
  }

  // The three ways to a model, in the welcome and in the dialog.
  private choices(where: string): HTMLElement[] {
    const demo = h(
      'button',
      { type: 'button', className: 'primary', onclick: () => this.choose({ source: kDemo.file, options: { projector: kDemo.towers } }) },
      'Try the demo model',
      h('small', {}, `a small dictionary that sees and hears a little, ${formatBytes(kDemo.bytes)}`),
    );
    const picker = h('input', {
      type: 'file',
      multiple: true,
      id: `${where}-file`,
      accept: '.gguf,.safetensors,.json,.jinja',
      className: 'hidden',
    });
    const keep = h('input', { type: 'checkbox', checked: true, id: `${where}-keep` });
    picker.onchange = () => {
      const files = [...(picker.files ?? [])];
      picker.value = '';
      if (files.length > 0) this.choose({ source: files, options: { keep: keep.checked } });
    };
    const open = h(
      'button',
      { type: 'button', onclick: () => picker.click() },
      'Open a file…',
      h('small', {}, 'GGUF, with its mmproj file for pictures, or all files of a Hugging Face folder'),
    );
    picker.setAttribute('aria-label', 'Model file');
    picker.tabIndex = -1;
    return [
      demo,
      h(
        'div',
        { className: 'choice' },
        open,
        picker,
        h('label', { className: 'check' }, keep, 'Keep a copy in this browser'),
      ),
      this.address(where),
    ];
  }

  private address(where: string): HTMLElement {
    const url = h('input', {
      type: 'url',
      required: true,
      id: `${where}-url`,
      placeholder: 'https://…/model.gguf',
      spellcheck: false,
    });
    const digest = h('input', {
      type: 'text',
      id: `${where}-sha256`,
      pattern: '\\s*[0-9A-Fa-f]{64}\\s*',
      placeholder: 'SHA-256 (optional)',
      spellcheck: false,
      title: '64 hexadecimal digits',
    });
    const form = h(
      'form',
      { className: 'address' },
      h('label', { className: 'hidden', htmlFor: url.id }, 'Address of a model'),
      url,
      h('label', { className: 'hidden', htmlFor: digest.id }, 'SHA-256 of the file, optional'),
      digest,
      h('button', {}, 'Download'),
    );
    form.onsubmit = (event) => {
      event.preventDefault();
      const sha256 = digest.value.trim();
      this.choose({ source: url.value.trim(), options: sha256 === '' ? {} : { sha256 } });
    };
    return form;
  }

  private choose(choice: Choice): void {
    this.dialog.close();
    // Asks the browser not to clear the models when the disk fills; it may say no.
    void navigator.storage.persist?.();
    this.events.choose(choice);
  }

  // The server's. What it refuses stands in their place.
  private async listServed(): Promise<void> {
    const server = this.events.server();
    byId('served').hidden = byId('served-title').hidden = server === null;
    if (server === null) return;
    const row = (name: string, label: string, served: string): HTMLElement =>
      h(
        'li',
        {},
        h('span', { className: 'grow' }, name),
        h('button', { type: 'button', ariaLabel: `${label} ${name}`.trim(), onclick: () => this.choose({ served }) }, label),
      );
    const rows = await server.models().then(
      (names) => names.map((name) => row(name, 'Use', name)),
      (error: unknown) => [row(sentenceOf(error), 'Ask again', '')],
    );
    byId('served').replaceChildren(...rows);
  }

  async list(): Promise<void> {
    try {
      const stored = await Sluice.storage.list();
      byId('stored').replaceChildren(
        ...(stored.length === 0
          ? [h('li', { className: 'quiet' }, 'Nothing yet.')]
          : stored.map((model) => this.row(model))),
      );
      const left = await Sluice.storage.left();
      const known = catalogueRows(stored, left, (choice) => this.choose(choice));
      byId('catalogue').replaceChildren(...known);
      byId('catalogue').hidden = byId('catalogue-title').hidden = known.length === 0;
      byId('storage-left').textContent = left === null ? '' : `${formatBytes(left)} of storage left for this page.`;
    } catch (error) {
      this.events.failed(error);
    }
  }

  private row(model: StoredModel): HTMLElement {
    const { id, name, bytes, total, complete, url } = model;
    const size = complete
      ? formatBytes(bytes)
      : `${formatBytes(bytes)} of ${total === null ? '?' : formatBytes(total)} so far`;
    const goOn = complete
      ? { source: { stored: id }, options: {} }
      : url === null
        ? null
        : { source: url, options: {} };
    const open =
      goOn &&
      h(
        'button',
        { type: 'button', onclick: () => this.choose(goOn), ariaLabel: `${complete ? 'Open' : 'Go on with'} ${name}` },
        complete ? 'Open' : 'Go on',
      );
    const remove = h(
      'button',
      { type: 'button', className: 'danger', ariaLabel: `Delete ${name}`, onclick: () => void this.delete(id, remove) },
      'Delete',
    );
    return h('li', {}, h('span', { className: 'grow' }, h('strong', {}, name), h('small', {}, size)), open, remove);
  }

  // The first press asks, the second deletes.
  private async delete(id: string, button: HTMLButtonElement): Promise<void> {
    if (button.textContent !== 'Really delete?') {
      button.textContent = 'Really delete?';
      button.onblur = () => (button.textContent = 'Delete');
      return;
    }
    try {
      this.events.release(id);
      await deleteSoon(id);
    } catch (error) {
      this.dialog.close();
      this.events.failed(error);
    }
    await this.list();
    byId('models-title').focus();
  }
}

// The lock of a model that this page has just closed is free a moment later.
async function deleteSoon(id: string): Promise<void> {
  for (let tries = 0; ; ++tries) {
    try {
      return await Sluice.storage.delete(id);
    } catch (error) {
      if (!(error instanceof SluiceError) || tries >= 20) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
