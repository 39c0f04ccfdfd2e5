// An answer that is being written, as it is shown; and what is said under a finished one.
import type { AnswerResult, Piece } from '../index.ts';
import { formatCount, h } from './dom.ts';
import { TextView } from './text/view.ts';

const kDrawingShare = 4; // of the page's time at most one in so many goes into drawing

export const speedOf = (tokens: number, seconds: number): string =>
  seconds > 0 && tokens > 0 ? `${(tokens / seconds).toFixed(1)} tokens/s` : '';

export function thinkingView(): { element: HTMLDetailsElement; view: TextView } {
  const view = new TextView();
  const element = h('details', { className: 'thinking' }, h('summary', {}, 'Thinking'), view.element);
  return { element, view };
}

export class LiveAnswer {
  readonly item: HTMLLIElement;
  private readonly body = new TextView();
  private readonly thought = thinkingView();
  private readonly meta = h('p', { className: 'meta' });
  private readonly waiting = h('span', { className: 'waiting', ariaHidden: 'true' }, h('i'), h('i'), h('i'));
  text = '';
  thinking = '';
  private timer: ReturnType<typeof setTimeout> | null = null; // of the next drawing
  private cost = 0; // ms of the last one
  private known = -1; // tokens of the prompt that need not be computed; -1: not heard yet

  // `looking`: what is said until the first of the prompt's tokens is computed.
  constructor(private readonly looking: string) {
    this.meta.textContent = looking;
    this.thought.element.hidden = true;
    this.item = h(
      'li',
      { className: 'assistant', ariaBusy: 'true' },
      h('span', { className: 'hidden' }, 'Answer:'),
      this.thought.element,
      this.waiting,
      this.body.element,
      this.meta,
    );
  }

  add({ text, thinking, promptDone, promptTokens, tokens }: Piece): void {
    this.text += text;
    this.thinking += thinking;
    if (this.known < 0) this.known = promptDone;
    const reading =
      this.looking !== '' && promptDone === this.known
        ? this.looking
        : `reading ${formatCount(promptDone)} of ${formatCount(promptTokens)} tokens`;
    this.meta.textContent = tokens === 0 ? reading : '';
    this.timer ??= setTimeout(() => requestAnimationFrame(() => this.draw()), this.cost * (kDrawingShare - 1));
  }

  private draw(): void {
    const began = performance.now();
    this.timer = null;
    if (this.thinking !== '') {
      this.thought.element.hidden = false;
      if (this.text === '') this.thought.element.open = true;
      this.thought.view.show(this.thinking);
    }
    if (this.text !== '') {
      this.waiting.remove();
      this.body.show(this.text);
    }
    this.cost = performance.now() - began;
  }

  finish(note: string): void {
    this.draw();
    this.waiting.remove();
    if (this.text === '') this.body.element.replaceChildren(h('p', { className: 'quiet' }, 'No answer.'));
    this.thought.element.open = false;
    this.item.removeAttribute('aria-busy');
    this.meta.textContent = note;
  }
  fail(): void {
    this.item.remove();
  }
}

// "24 tokens · 98.0 tokens/s · 31 in the prompt · read at 900.0 tokens/s": of what was computed, not of what was asked for.
export function describe(result: AnswerResult, fullContext: boolean): string {
  const { tokens, promptTokens, reusedTokens, computedTokens, promptSeconds, answerSeconds, finish } = result;
  const done = Math.min(reusedTokens + computedTokens, promptTokens);
  const kept = reusedTokens > 0 ? `, ${formatCount(reusedTokens)} of them kept` : '';
  const prompt =
    done < promptTokens
      ? `${formatCount(done)} of ${formatCount(promptTokens)} in the prompt read${kept}`
      : `${formatCount(promptTokens)} in the prompt${kept}`;
  const reading = speedOf(computedTokens, promptSeconds);
  const cut = fullContext ? 'cut: the context is full' : 'cut at the longest answer';
  const ends = { stop: '', length: cut, cancelled: 'stopped' }[finish];
  return [`${formatCount(tokens)} tokens`, speedOf(tokens - 1, answerSeconds), prompt, reading && `read at ${reading}`, ends]
    .filter((part) => part !== '')
    .join(' · ');
}
