// One question, answered without the adapters and with them.
import type { Answer, Sluice } from '../../index.ts';
import { byId, h } from '../dom.ts';
import { promptOf } from '../room.ts';
import { TextView } from '../text/view.ts';

const kMostTokens = 256; // of an answer

interface Events {
  model: () => Sluice | null;
  system: () => string;
  busy: () => void;
  failed: (error: unknown) => void;
  announce: (text: string) => void;
}

interface Side {
  title: string;
  adapters: Record<string, number>;
  place: HTMLElement;
}

export class Comparison {
  private readonly question = h('input', { id: 'compare-question', required: true, placeholder: 'A question' });
  private readonly button = h('button', {}, 'Ask both ways');
  private readonly without = h('div', { id: 'answer-without', tabIndex: 0 });
  private readonly with = h('div', { id: 'answer-with', tabIndex: 0 });
  private answer: Answer | null = null;
  private controller: AbortController | null = null;

  constructor(private readonly events: Events) {
    const form = h('form', { className: 'asking' }, h('label', { className: 'hidden', htmlFor: this.question.id }, 'Question'), this.question, this.button);
    form.onsubmit = (event) => {
      event.preventDefault();
      if (this.controller) this.controller.abort();
      else void this.ask();
    };
    const side = (title: string, place: HTMLElement): HTMLElement => {
      place.setAttribute('role', 'group');
      place.setAttribute('aria-label', title);
      return h('div', { className: 'side' }, h('h4', {}, title), place);
    };
    byId('comparing').append(
      h('h3', { id: 'comparing-title' }, 'Try it'),
      form,
      h('div', { className: 'sides' }, side('Without', this.without), side('With', this.with)),
    );
  }

  get isBusy(): boolean {
    return this.controller !== null;
  }
  focus(): void {
    this.question.focus();
  }
  offer(ready: boolean): void {
    this.button.disabled = !ready && !this.isBusy;
  }

  private async ask(): Promise<void> {
    const model = this.events.model();
    if (model === null) return;
    this.controller = new AbortController();
    this.button.textContent = 'Stop';
    this.events.busy();
    const scales = Object.fromEntries(model.adapters.list().map(({ name, scale }) => [name, scale]));
    const sides: Side[] = [
      { title: 'Without', adapters: {}, place: this.without },
      { title: 'With', adapters: scales, place: this.with },
    ];
    for (const { place } of sides) place.replaceChildren();
    try {
      for (const side of sides) if (!this.controller.signal.aborted) await this.show(model, side);
    } catch (error) {
      if (this.events.model() === model) this.events.failed(error);
    } finally {
      this.controller = null;
      this.button.textContent = 'Ask both ways';
      this.events.busy();
    }
  }
  // The likeliest words, so that nothing but the adapters tells the sides apart.
  private async show(model: Sluice, { title, adapters, place }: Side): Promise<void> {
    const prompt = promptOf(model, [{ role: 'user', content: this.question.value }], this.events.system());
    const { signal } = this.controller!;
    const view = new TextView();
    place.replaceChildren(view.element);
    place.setAttribute('aria-busy', 'true');
    this.answer = model.generate(prompt, { adapters, temperature: 0, maxTokens: kMostTokens, signal });
    let text = '';
    try {
      for await (const piece of this.answer) view.show((text += piece.text));
    } finally {
      place.removeAttribute('aria-busy');
    }
    if (text === '') view.show('No answer.');
    this.events.announce(`${title}: ${text || 'no answer'}`);
  }
}
