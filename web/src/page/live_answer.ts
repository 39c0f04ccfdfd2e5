// An answer that is being written, as it is shown; and what is said under a finished one.
import type { AnswerResult, Piece, ToolCall } from '../index.ts';
import { formatCount, h } from './dom.ts';
import { TextView } from './text/view.ts';

const kDrawingShare = 4; // of the page's time at most one in so many goes into drawing

export const speedOf = (tokens: number, seconds: number): string =>
  seconds > 0 && tokens > 0 ? `${(tokens / seconds).toFixed(1)} tokens/s` : '';

export interface ThinkingView {
  element: HTMLDetailsElement;
  view: TextView;
  took: (seconds: number) => void;
}
// The fold around a thought. `seconds`: what it took; undefined: not known.
export function thinkingView(seconds?: number): ThinkingView {
  const view = new TextView();
  const summary = h('summary', {}, 'Thinking');
  const element = h('details', { className: 'thinking' }, summary, view.element);
  const took = (whole: number): void => void (summary.textContent = `Thinking: ${whole.toFixed(1)} s`);
  if (seconds !== undefined) took(seconds);
  return { element, view, took };
}

// Calls of tools: each one's name and arguments.
export function callsView(calls: ToolCall[]): HTMLElement {
  const item = ({ name, arguments: given }: ToolCall): HTMLElement =>
    h('li', {}, h('span', {}, 'Calls ', h('strong', {}, name)), h('pre', {}, JSON.stringify(given, null, 2)));
  return h('ul', { className: 'calls', ariaLabel: 'Calls of tools' }, ...calls.map(item));
}

export class LiveAnswer {
  readonly item: HTMLLIElement;
  private readonly body = new TextView();
  private readonly thought = thinkingView();
  private readonly meta = h('p', { className: 'meta' });
  private readonly waiting = h('span', { className: 'waiting', ariaHidden: 'true' }, h('i'), h('i'), h('i'));
  text = '';
  thinking = '';
  calls: ToolCall[] = [];
  private thoughtBegan = 0; // ms; 0: it has not
  private thoughtEnded = 0; // ms; 0: it has not
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
    this.clockThought(text, thinking);
    if (this.known < 0) this.known = promptDone;
    const reading =
      this.looking !== '' && promptDone === this.known
        ? this.looking
        : `reading ${formatCount(promptDone)} of ${formatCount(promptTokens)} tokens`;
    this.meta.textContent = tokens === 0 ? reading : '';
    this.timer ??= setTimeout(() => requestAnimationFrame(() => this.draw()), this.cost * (kDrawingShare - 1));
  }

  // Seconds; undefined: there was no thought.
  get thinkingSeconds(): number | undefined {
    return this.thoughtBegan === 0 ? undefined : ((this.thoughtEnded || performance.now()) - this.thoughtBegan) / 1000;
  }
  private clockThought(text: string, thinking: string): void {
    if (thinking !== '') this.thoughtBegan ||= performance.now();
    if (text !== '' && this.thoughtBegan > 0) this.thoughtEnded ||= performance.now();
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
    if (this.thoughtBegan > 0) this.thoughtEnded ||= performance.now();
    this.draw();
    this.waiting.remove();
    if (this.thinkingSeconds !== undefined) this.thought.took(this.thinkingSeconds);
    if (this.calls.length > 0) this.body.element.after(callsView(this.calls));
    else if (this.text === '') this.body.element.replaceChildren(h('p', { className: 'quiet' }, 'No answer.'));
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
  if (finish === 'cancelled' && promptTokens === 0) return 'stopped'; // nothing was counted
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
