// The key that a server asks for. It is kept as long as this tab is open, and sent to that server only.
import { byId, lightDismiss } from './dom.ts';
import { sentenceOf } from './status.ts';

const kPlace = 'sluice.key';

export function keptKey(): string | null {
  try {
    return sessionStorage.getItem(kPlace);
  } catch {
    return null; // a browser that keeps nothing
  }
}

export class KeyDialog {
  private readonly dialog = byId<HTMLDialogElement>('key-dialog');
  private readonly input = byId<HTMLInputElement>('key');

  constructor(given: (key: string) => void) {
    lightDismiss(this.dialog);
    byId<HTMLFormElement>('key-form').onsubmit = (event) => {
      event.preventDefault();
      const key = this.input.value.trim();
      try {
        sessionStorage.setItem(kPlace, key);
      } catch {
        // Then it is asked for again after a reload.
      }
      this.input.value = '';
      this.dialog.close();
      given(key);
    };
  }

  // `error`: why the last one was refused; null: there was none.
  ask(error: unknown): void {
    byId('key-why').textContent = error === null ? 'This server answers who has a key.' : sentenceOf(error);
    if (!this.dialog.open) this.dialog.showModal();
  }
}
