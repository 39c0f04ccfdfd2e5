// The conversation as it is shown: one list item a message, with what can be done to it.
import { mediaOf } from '../index.ts';
import type { MediaPart, Part } from '../index.ts';
import type { TreeMessage } from './conversations/tree.ts';
import { byId, h } from './dom.ts';
import { callsView, LiveAnswer, thinkingView } from './live_answer.ts';
import { contentOf, mediaView, textOf } from './media.ts';
import { copyText, TextView } from './text/view.ts';

interface Events {
  // Another answer to the last question.
  regenerate: () => void;
  edit: (question: TreeMessage, content: string | Part[]) => void;
  versionsOf: (message: TreeMessage) => TreeMessage[];
  showVersion: (message: TreeMessage) => void;
}

const action = (label: string, onclick: () => void): HTMLButtonElement =>
  h('button', { type: 'button', className: 'action', onclick }, label);

export class MessageList {
  private readonly list = byId<HTMLOListElement>('messages');
  private readonly said = new WeakMap<Element, TreeMessage>();

  constructor(private readonly events: Events) {}

  get isEditing(): boolean {
    return this.list.querySelector('form.edit') !== null;
  }
  // `ready`: whether a model is there to make further answers.
  // Items of messages that are shown already stay, with what is selected in them.
  show(messages: TreeMessage[], ready: boolean): void {
    const shown = new Map<TreeMessage | undefined, Element>();
    for (const item of this.list.children) if (!item.querySelector('form.edit')) shown.set(this.said.get(item), item);
    const items = messages.map((message) => shown.get(message) ?? this.item(message));
    for (const item of [...this.list.children]) if (!items.includes(item)) item.remove();
    items.forEach((item, i) => this.list.children[i] !== item && this.list.insertBefore(item, this.list.children[i] ?? null));
    this.offerActions(ready);
  }
  begin(looking: string): LiveAnswer {
    const live = new LiveAnswer(looking);
    this.list.append(live.item);
    this.offerActions(false);
    return live;
  }
  finish(live: LiveAnswer, message: TreeMessage): void {
    this.said.set(live.item, message);
    live.finish(message.note);
  }

  // What can be done with each message. None while an answer is made.
  offerActions(ready: boolean): void {
    this.hideActions();
    const items = [...this.list.children] as HTMLElement[];
    if (items.some((item) => item.hasAttribute('aria-busy'))) return;
    items.forEach((item, index) => {
      const message = this.said.get(item);
      if (message === undefined || item.querySelector('form.edit') !== null) return;
      const copy = action('Copy', () => void copyText(textOf(message), copy));
      const more = ready && message.role === 'user' ? [action('Edit', () => this.edit(item, message))] : [];
      if (ready && index === items.length - 1) more.push(action('Again', () => this.events.regenerate()));
      item.append(h('div', { className: 'actions' }, this.versions(message), copy, ...more));
    });
  }

  hideActions(): void {
    for (const old of this.list.querySelectorAll('.actions')) old.remove();
  }

  // "‹ 2 of 3 ›", where there are several at this place.
  private versions(message: TreeMessage): HTMLElement | null {
    const all = this.events.versionsOf(message);
    if (all.length < 2) return null;
    const at = all.findIndex(({ id }) => id === message.id);
    const step = (label: string, text: string, to: TreeMessage | undefined): HTMLElement => {
      const onclick = (): void => to && this.events.showVersion(to);
      return h(
        'button',
        { type: 'button', className: 'action', ariaLabel: label, title: label, disabled: to === undefined, onclick },
        text,
      );
    };
    const what = message.role === 'user' ? 'question' : 'answer';
    return h(
      'span',
      { className: 'versions' },
      step(`Earlier version of the ${what}`, '‹', all[at - 1]),
      `${at + 1} of ${all.length}`,
      step(`Later version of the ${what}`, '›', all[at + 1]),
    );
  }

  private item(message: TreeMessage): HTMLElement {
    const mine = message.role === 'user';
    const item = h(
      'li',
      { className: mine ? 'user' : 'assistant' },
      h('span', { className: 'hidden' }, mine ? 'You:' : 'Answer:'),
      ...(mine ? this.question(message) : this.answer(message)),
    );
    this.said.set(item, message);
    return item;
  }
  private question(message: TreeMessage): HTMLElement[] {
    const media = mediaOf(message);
    const text = textOf(message);
    const shown = media.length === 0 ? [] : [h('div', { className: 'shown' }, ...media.map(mediaView))];
    return [...shown, h('div', { className: 'text', hidden: text === '' }, text)];
  }
  private answer(message: TreeMessage): HTMLElement[] {
    const { thinking, thinkingSeconds, calls = [], finished, note } = message;
    const shown: HTMLElement[] = [];
    if (thinking !== '') {
      const { element, view } = thinkingView(thinkingSeconds);
      view.show(thinking);
      shown.push(element);
    }
    const view = new TextView();
    const text = textOf(message);
    view.show(text === '' && calls.length === 0 ? 'No answer.' : text);
    const unfinished = 'not finished: the page was closed, or another tab is writing it';
    const made = calls.length === 0 ? [] : [callsView(calls)];
    return [...shown, view.element, ...made, h('p', { className: 'meta' }, finished ? note : unfinished)];
  }

  // Pictures and sounds stay with the message.
  private edit(item: HTMLElement, message: TreeMessage): void {
    const media: MediaPart[] = mediaOf(message);
    const text = textOf(message);
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
      if (area.value.trim() !== '' || media.length > 0) this.events.edit(message, contentOf(media, area.value));
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
