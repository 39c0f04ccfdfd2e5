// The conversation as it is shown: one list item a message, with what can be done to it.
import { mediaOf } from '../index.ts';
import type { AnswerResult, MediaPart, Message, Part, Piece } from '../index.ts';
import { byId, formatCount, h } from './dom.ts';
import { markdown } from './markdown.ts';
import { contentOf, mediaView, textOf } from './media.ts';

interface Events {
  regenerate: () => void;
  edit: (index: number, content: string | Part[]) => void;
}

const action = (label: string, onclick: () => void): HTMLButtonElement =>
  h('button', { type: 'button', className: 'action', onclick }, label);

export const speedOf = (tokens: number, seconds: number): string =>
  seconds > 0 ? `${(tokens / seconds).toFixed(1)} tokens/s` : '';

// An answer that is being written.
export class LiveAnswer {
  readonly item: HTMLLIElement;
  private readonly body = h('div', { className: 'text' });
  private readonly thought = h('div', { className: 'text' });
  private readonly thinking = h(
    'details',
    { className: 'thinking', hidden: true },
    h('summary', {}, 'Thinking'),
    this.thought,
  );
  private readonly meta = h('p', { className: 'meta' });
  private text = '';
  private thoughts = '';
  private drawn = false; // asked for the next frame
  private known = -1; // tokens of the prompt that need not be computed; -1: not heard yet

  // `looking`: what is said until the first of the prompt's tokens is computed.
  constructor(private readonly looking: string) {
    this.meta.textContent = looking;
    this.item = h(
      'li',
      { className: 'assistant', ariaBusy: 'true' },
      h('span', { className: 'hidden' }, 'Answer:'),
      this.thinking,
      this.body,
      this.meta,
    );
    this.body.append(h('span', { className: 'waiting', ariaHidden: 'true' }, h('i'), h('i'), h('i')));
  }

  add({ text, thinking, promptDone, promptTokens, tokens }: Piece): void {
    this.text += text;
    this.thoughts += thinking;
    if (this.known < 0) this.known = promptDone;
    const reading =
      this.looking !== '' && promptDone === this.known
        ? this.looking
        : `reading ${formatCount(promptDone)} of ${formatCount(promptTokens)} tokens`;
    this.meta.textContent = tokens === 0 ? reading : '';
    if (this.drawn) return;
    this.drawn = true;
    requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.drawn = false;
    if (this.thoughts !== '') {
      this.thinking.hidden = false;
      if (this.text === '') this.thinking.open = true;
      this.thought.replaceChildren(...markdown(this.thoughts));
    }
    if (this.text !== '') this.body.replaceChildren(...markdown(this.text));
  }

  finish(result: AnswerResult): void {
    this.draw();
    if (this.text === '') this.body.replaceChildren(h('p', { className: 'quiet' }, 'No answer.'));
    this.thinking.open = false;
    this.item.removeAttribute('aria-busy');
    this.meta.textContent = describe(result);
  }
  fail(): void {
    this.item.remove();
  }
}

function describe({ tokens, promptTokens, reusedTokens, promptSeconds, answerSeconds, finish }: AnswerResult): string {
  const kept = reusedTokens > 0 ? `, ${formatCount(reusedTokens)} of them kept` : '';
  const ends = { stop: '', length: 'cut at the longest answer', cancelled: 'stopped' }[finish];
  const prompt = `${formatCount(promptTokens)} in the prompt${kept}`;
  const reading = speedOf(promptTokens - reusedTokens, promptSeconds);
  return [
    `${formatCount(tokens)} tokens`,
    speedOf(tokens - 1, answerSeconds),
    prompt,
    reading === '' ? '' : `read at ${reading}`,
    ends,
  ]
    .filter((part) => part !== '')
    .join(' · ');
}

export class MessageList {
  private readonly list = byId<HTMLOListElement>('messages');
  private readonly said = new WeakMap<HTMLElement, { text: string; media: MediaPart[] }>();

  constructor(private readonly events: Events) {}

  show(messages: Message[]): void {
    this.list.replaceChildren(...messages.map((message) => this.item(message)));
    this.offerActions();
  }
  add(message: Message): void {
    this.list.append(this.item(message));
  }
  // Messages from `count` on are taken back.
  truncate(count: number): void {
    while (this.list.children.length > count) this.list.lastElementChild!.remove();
  }
  begin(looking: string): LiveAnswer {
    const live = new LiveAnswer(looking);
    this.list.append(live.item);
    this.offerActions();
    return live;
  }

  // What can be done with the last answer and with each message of the user. None while an answer is made.
  offerActions(): void {
    for (const old of this.list.querySelectorAll('.actions')) old.remove();
    const items = [...this.list.children] as HTMLElement[];
    if (items.some((item) => item.hasAttribute('aria-busy'))) return;
    items.forEach((item, index) => {
      const copy = action('Copy', () => void this.copy(item, copy));
      const more = item.classList.contains('user') ? [action('Edit', () => this.edit(item, index))] : [];
      if (index === items.length - 1) more.push(action('Again', () => this.events.regenerate()));
      item.append(h('div', { className: 'actions' }, copy, ...more));
    });
  }

  private async copy(item: HTMLElement, button: HTMLElement): Promise<void> {
    await navigator.clipboard.writeText(item.querySelector<HTMLElement>(':scope > .text')!.innerText);
    button.textContent = 'Copied';
    setTimeout(() => (button.textContent = 'Copy'), 1500);
  }

  private item(message: Message): HTMLElement {
    const mine = message.role === 'user';
    const said = textOf(message);
    const media = mediaOf(message);
    const text = h('div', { className: 'text', hidden: mine && said === '' }, ...(mine ? [said] : markdown(said)));
    const item = h(
      'li',
      { className: mine ? 'user' : 'assistant' },
      h('span', { className: 'hidden' }, mine ? 'You:' : 'Answer:'),
      media.length === 0 ? null : h('div', { className: 'shown' }, ...media.map(mediaView)),
      text,
    );
    this.said.set(item, { text: said, media });
    return item;
  }

  // Pictures and sounds stay with the message.
  private edit(item: HTMLElement, index: number): void {
    const { text, media } = this.said.get(item) ?? { text: '', media: [] };
    const area = h('textarea', {
      value: text,
      rows: Math.min(text.split('\n').length + 1, 12),
      ariaLabel: 'Message, edited',
    });
    const close = (): void => {
      form.replaceWith(...hidden);
      item.querySelector<HTMLElement>('.action')?.focus();
    };
    const form = h(
      'form',
      { className: 'edit' },
      area,
      h(
        'div',
        { className: 'row' },
        h('button', { type: 'button', onclick: close }, 'Cancel'),
        h('button', { className: 'primary' }, 'Send'),
      ),
    );
    form.onsubmit = (event) => {
      event.preventDefault();
      if (area.value.trim() !== '' || media.length > 0) this.events.edit(index, contentOf(media, area.value));
    };
    form.onkeydown = (event) => {
      if (event.key === 'Escape') close();
      else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing)
        (event.preventDefault(), form.requestSubmit());
    };
    const hidden = [...item.children].filter(({ classList }) => !classList.contains('hidden') && !classList.contains('shown'));
    hidden[0]?.before(form);
    for (const child of hidden) child.remove();
    area.focus();
  }
}
