// The box for the next message, with its buttons. What is in it stays there until it is said.
import type { Part } from '../index.ts';
import type { Attachments } from './attachments.ts';
import { byId } from './dom.ts';
import { contentOf } from './media.ts';

const kHighest = 200; // pixels

interface Events {
  send: (content: string | Part[], taken: () => void) => void;
  stop: () => void;
}

export class Composer {
  private readonly prompt = byId<HTMLTextAreaElement>('prompt');
  private readonly send = byId<HTMLButtonElement>('send');
  private readonly stop = byId<HTMLButtonElement>('stop');
  private ready = false;

  constructor(
    private readonly attachments: Attachments,
    private readonly events: Events,
  ) {
    byId('composer').onsubmit = (event) => {
      event.preventDefault();
      this.submit();
    };
    this.prompt.oninput = () => this.changed();
    this.prompt.onkeydown = (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      byId<HTMLFormElement>('composer').requestSubmit();
    };
    this.stop.onclick = () => events.stop();
    document.addEventListener('keydown', ({ key }) => {
      if (key === 'Escape' && document.querySelector('dialog[open]') === null) events.stop();
    });
  }

  // `name`: of the model that answers; null: there is none. `busy`: it answers. `why`: it does something else, which
  // this says.
  show(name: string | null, busy: boolean, why: string | null): void {
    this.ready = name !== null && why === null;
    this.prompt.disabled = !this.ready;
    this.prompt.placeholder = name === null ? 'Choose a model first' : (why ?? `Ask ${name}`);
    this.stop.hidden = !busy;
    this.send.hidden = busy;
    this.changed();
  }
  focus(): void {
    this.prompt.focus({ preventScroll: true });
  }

  private changed(): void {
    this.send.disabled = !this.ready || (this.prompt.value.trim() === '' && this.attachments.parts.length === 0);
    this.prompt.style.height = 'auto';
    this.prompt.style.height = `${Math.min(this.prompt.scrollHeight, kHighest)}px`;
  }
  private submit(): void {
    const text = this.prompt.value.trim();
    const { parts } = this.attachments;
    if (!this.ready || (text === '' && parts.length === 0)) return;
    this.events.send(contentOf(parts, text), () => {
      this.attachments.take();
      if (this.prompt.value.trim() === text) this.prompt.value = '';
      this.changed();
    });
  }
}
