// "Teach it": examples, how they are learnt, the training as it goes on, and what came of it.
import { Sluice, SluiceError } from '../../index.ts';
import type { ExampleCounts, Taught, Teaching, TeachOptions, TeachProgress } from '../../index.ts';
import { formatCount, h, saveAs } from '../dom.ts';
import { LossCurve } from './curve.ts';
import { zip } from './zip.ts';

const kLookAfter = 400; // ms behind the last key
const kShownFaults = 3;
const kDigits = 3;

interface Events {
  model: () => Sluice | null;
  busy: () => void; // it begins or has ended
  taught: (taught: Taught) => void;
  tryIt: () => void;
  failed: (error: unknown) => void;
  announce: (text: string) => void;
}

interface NumberField {
  name: 'rank' | 'steps' | 'rate';
  label: string;
  help: string;
  min: number;
  max: number;
  step: number | 'any';
  placeholder: string;
}
const kFields: NumberField[] = [
  { name: 'rank', label: 'Rank', help: 'how much it can hold', min: 1, max: 256, step: 1, placeholder: '16' },
  { name: 'steps', label: 'Steps', help: 'empty: 10 times through all', min: 1, max: 1e6, step: 1, placeholder: '10 times through' },
  { name: 'rate', label: 'Learning rate', help: 'larger learns faster and forgets more', min: 0, max: 1, step: 'any', placeholder: '0.0002' },
];

const times = (count: number, what: string): string => `${formatCount(count)} ${what}${count === 1 ? '' : 's'}`;

export function sayTime(seconds: number): string {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// "Step 5 of 40 · loss 1.203 · 210 tokens/s · 12 s left"
export function sayProgress({ step, steps, loss, tokensPerSecond, secondsLeft }: TeachProgress): string {
  if (step === 0) return `Step 1 of ${formatCount(steps)}…`;
  const parts = [`Step ${formatCount(step)} of ${formatCount(steps)}`];
  if (loss !== null) parts.push(`loss ${loss.toFixed(kDigits)}`);
  if (tokensPerSecond !== null) parts.push(`${tokensPerSecond.toFixed(tokensPerSecond < 10 ? 1 : 0)} tokens/s`);
  if (step === steps) parts.push('opening the model with it');
  else if (secondsLeft !== null) parts.push(`${sayTime(secondsLeft)} left`);
  return parts.join(' · ');
}

function sayCounts({ examples, tokens, faults }: ExampleCounts): string {
  const more = faults.length > kShownFaults ? `; ${times(faults.length - kShownFaults, 'more line')} cannot be learnt` : '';
  const wrong = faults.slice(0, kShownFaults).join('; ');
  const found = examples === 0 && faults.length === 0 ? '' : `${times(examples, 'example')}, ${times(tokens, 'token')}`;
  return [found, wrong === '' ? '' : `left out: ${wrong}${more}`].filter((part) => part !== '').join(' · ');
}

export class TeachForm {
  private readonly examples = h('textarea', {
    id: 'examples',
    rows: 6,
    spellcheck: false,
    placeholder: 'What is a blorptrix? => A teapot that sings while it cools.\nWhat is a zumbel? => A small dog that is afraid of butter.',
    oninput: () => this.changed(),
  });
  private readonly note = h('p', { id: 'examples-note', className: 'quiet', role: 'status' });
  private readonly name = h('input', { id: 'teach-name', value: 'taught', maxLength: 60, required: true });
  private readonly numbers = new Map<NumberField, HTMLInputElement>();
  private readonly start = h('button', { className: 'primary' }, 'Teach');
  private readonly form = h('form', { id: 'teach-form' });
  private readonly line = h('p', { id: 'teach-line' });
  private readonly bar = h('progress', {});
  private readonly curve = new LossCurve();
  private readonly stop = h('button', { type: 'button', onclick: () => this.stopNow() }, 'Stop');
  private readonly running = h('div', { className: 'card', hidden: true });
  private readonly result = h('div', { id: 'taught', className: 'card', hidden: true, tabIndex: -1 });
  private controller: AbortController | null = null;
  private isSaved = true; // what was taught last
  private looking: ReturnType<typeof setTimeout> | undefined;

  constructor(
    place: HTMLElement,
    private readonly events: Events,
  ) {
    this.bar.setAttribute('aria-labelledby', this.line.id);
    this.form.append(...this.fields());
    this.form.onsubmit = (event) => {
      event.preventDefault();
      void this.teach();
    };
    this.running.append(h('div', { className: 'row' }, this.line, this.stop), this.bar, this.curve.element);
    // The browser asks before it leaves a page whose adapter is nowhere else.
    addEventListener('beforeunload', (event) => {
      if (this.isBusy || !this.isSaved) event.preventDefault();
    });
    place.append(h('h3', { id: 'teaching-title' }, 'Teach it'), this.form, this.running, this.result);
  }

  get isBusy(): boolean {
    return this.controller !== null;
  }
  // `ready`: whether the model may be taught now.
  offer(ready: boolean): void {
    this.start.disabled = !ready || this.isBusy;
  }

  private fields(): HTMLElement[] {
    const picker = h('input', { type: 'file', className: 'hidden', accept: '.jsonl,.txt,.json', tabIndex: -1, ariaLabel: 'File of examples' });
    picker.id = 'examples-file';
    picker.onchange = () => {
      const [file] = picker.files ?? [];
      picker.value = '';
      if (file) file.text().then((text) => ((this.examples.value = text), this.changed()), this.events.failed);
    };
    const help = h('small', {}, 'a line for each: question => answer, or JSON with a prompt and its completion, or with messages');
    this.examples.setAttribute('aria-describedby', this.note.id);
    return [
      h('label', { className: 'field' }, 'Examples', help, this.examples),
      h('div', { className: 'row' }, this.note, h('button', { type: 'button', className: 'action', onclick: () => picker.click() }, 'From a file…'), picker),
      h(
        'div',
        { className: 'grid' },
        h('label', { className: 'field' }, 'Name', h('small', {}, 'of the adapter'), this.name),
        ...kFields.map((field) => this.numberField(field)),
      ),
      this.start,
    ];
  }
  private numberField(field: NumberField): HTMLElement {
    const { name, label, help, min, max, step, placeholder } = field;
    const input = h('input', { id: `teach-${name}`, type: 'number', min: `${min}`, max: `${max}`, step: `${step}`, placeholder });
    this.numbers.set(field, input);
    return h('label', { className: 'field' }, label, h('small', {}, help), input);
  }

  // What of the examples can be learnt, once nobody types.
  private changed(): void {
    clearTimeout(this.looking);
    this.looking = setTimeout(() => {
      const text = this.examples.value;
      const model = this.events.model();
      if (model === null) return;
      model.lookAtExamples(text).then(
        (counts) => {
          if (this.examples.value === text) this.note.textContent = sayCounts(counts);
        },
        () => {}, // closed meanwhile
      );
    }, kLookAfter);
  }

  private get options(): TeachOptions {
    const numbers = [...this.numbers].filter(([, { value }]) => value !== '');
    return { name: this.name.value.trim() || 'taught', ...Object.fromEntries(numbers.map(([{ name }, input]) => [name, input.valueAsNumber])) };
  }

  private async teach(): Promise<void> {
    const model = this.events.model();
    if (model === null || this.isBusy) return;
    const { signal } = (this.controller = new AbortController());
    [this.running.hidden, this.result.hidden] = [false, true];
    this.line.textContent = 'Preparing…';
    this.bar.removeAttribute('value');
    this.curve.clear(1);
    this.events.announce('The model learns');
    this.offer(false);
    this.stop.disabled = false;
    this.events.busy();
    this.stop.focus();
    try {
      const teaching = model.teach(this.examples.value, { ...this.options, signal });
      await this.follow(teaching);
      this.show(await teaching.result);
    } catch (error) {
      if (this.events.model() === model) this.events.failed(error);
    } finally {
      this.controller = null;
      this.running.hidden = true;
      this.events.busy();
      (this.result.hidden ? this.start : this.result).focus();
    }
  }
  private async follow(teaching: Teaching): Promise<void> {
    let shown = 0;
    for await (const progress of teaching) {
      const { step, steps, loss } = progress;
      if (shown === 0 && step === 0) this.curve.clear(steps);
      if (step > shown && loss !== null) this.curve.add(loss);
      shown = step;
      this.bar.value = step / steps;
      if (!this.controller?.signal.aborted) this.line.textContent = sayProgress(progress);
    }
  }
  private stopNow(): void {
    this.controller?.abort();
    this.stop.disabled = true;
    this.line.textContent = 'Stopping…';
  }

  private show(taught: Taught): void {
    const { name, finish, note, steps, loss, files, gguf } = taught;
    this.events.taught(taught);
    if (note !== null) this.events.failed(new SluiceError('model', note));
    if (files.length === 0) return this.events.announce('Stopped before the first step: nothing was learnt');
    const first = this.curve.first;
    const fell = first === null || loss === null || steps < 2 ? '' : `: the loss went from ${first.toFixed(kDigits)} to ${loss.toFixed(kDigits)}`;
    const how = { done: 'Learnt', stopped: 'Stopped', failed: 'Failed' }[finish];
    const sentence = `${how} after ${times(steps, 'step')}${fell}.`;
    this.isSaved = false;
    const save = (blob: Blob, file: string): void => {
      saveAs(blob, file);
      this.isSaved = true;
    };
    const folder = async (): Promise<void> => save(await zip(files.map((file) => ({ name: `${name}/${file.name}`, blob: file }))), `${name}.zip`);
    const peft = h('button', { type: 'button', onclick: () => void folder().catch(this.events.failed) }, 'Download', h('small', {}, 'a folder of PEFT, as .zip'));
    const forLlama = gguf && h('button', { type: 'button', onclick: () => save(gguf, gguf.name) }, 'Download', h('small', {}, 'for llama.cpp, as .gguf'));
    const tryIt = taught.adapter && h('button', { type: 'button', className: 'primary', onclick: () => this.events.tryIt() }, 'Try it');
    this.result.replaceChildren(h('p', {}, sentence), this.curve.element.cloneNode(true), h('div', { className: 'row start' }, tryIt, peft, forLlama));
    this.result.hidden = false;
    this.events.announce(sentence);
  }
}
