// The settings form: what is empty is the model's own choice, which stands in the field as its placeholder.
import type { AnswererFacts } from '../index.ts';
import { byId, formatCount, h, lightDismiss } from './dom.ts';
import { readSchema, readTools } from './json_settings.ts';
import { kDefaults, recall, remember } from './memory.ts';
import type { Settings } from './memory.ts';
import { sentenceOf } from './status.ts';

interface NumberField {
  name: 'temperature' | 'topK' | 'topP' | 'minP' | 'repeatPenalty' | 'maxTokens' | 'seed' | 'context' | 'expertMemory';
  label: string;
  help: string;
  min: number;
  max: number;
  step: number | 'any';
  otherwise: (facts: AnswererFacts | null) => string; // the placeholder
}

const kFields: NumberField[] = [
  {
    name: 'temperature',
    label: 'Temperature',
    help: '0 always takes the likeliest word',
    min: 0,
    max: 5,
    step: 'any',
    otherwise: (f) => `${f?.sampling.temperature ?? ''}`,
  },
  {
    name: 'topK',
    label: 'Top k',
    help: 'words to choose from; 0: all',
    min: 0,
    max: 1e6,
    step: 1,
    otherwise: (f) => `${f?.sampling.top_k ?? ''}`,
  },
  {
    name: 'topP',
    label: 'Top p',
    help: 'share of likelihood to choose from',
    min: 0,
    max: 1,
    step: 'any',
    otherwise: (f) => `${f?.sampling.top_p ?? ''}`,
  },
  {
    name: 'minP',
    label: 'Min p',
    help: 'least likelihood beside the likeliest',
    min: 0,
    max: 1,
    step: 'any',
    otherwise: (f) => `${f?.sampling.min_p ?? ''}`,
  },
  {
    name: 'repeatPenalty',
    label: 'Repeat penalty',
    help: '1: none',
    min: 0.1,
    max: 5,
    step: 'any',
    otherwise: (f) => `${f?.sampling.repeat_penalty ?? ''}`,
  },
  {
    name: 'maxTokens',
    label: 'Longest answer',
    help: 'tokens',
    min: 1,
    max: 1e6,
    step: 1,
    otherwise: () => 'what fits',
  },
  {
    name: 'seed',
    label: 'Seed',
    help: 'the same seed repeats an answer',
    min: 0,
    max: 4294967295,
    step: 1,
    otherwise: () => 'drawn',
  },
  {
    name: 'context',
    label: 'Context',
    help: 'tokens; from the next load on',
    min: 64,
    max: 1e7,
    step: 64,
    otherwise: (f) => (f && f.device !== 'server' ? `${f.context}` : 'what fits'),
  },
  {
    name: 'expertMemory',
    label: 'Memory for experts',
    help: 'MB; a mixture’s others are read as they are chosen; from the next load on',
    min: 0,
    max: 1e6,
    step: 'any',
    otherwise: () => 'what there is',
  },
];

const round = (text: string): string => (text.includes('.') ? `${Number(Number(text).toFixed(3))}` : text);

export class SettingsForm {
  readonly values: Settings = recall('settings');
  private readonly dialog = byId<HTMLDialogElement>('settings');
  private readonly inputs = new Map<NumberField, HTMLInputElement>();

  constructor(private readonly changed: () => void) {
    lightDismiss(this.dialog);
    byId('open-settings').onclick = () => this.dialog.showModal();
    byId('settings-form').append(
      this.systemField(),
      h(
        'fieldset',
        {},
        h('legend', {}, 'How words are chosen'),
        h('div', { className: 'grid' }, ...kFields.map((field) => this.numberField(field))),
      ),
      this.choice('thinking', 'Thinking', [
        ['model', 'as the model does by itself'],
        ['on', 'before the answer, where it can'],
        ['off', 'none'],
      ]),
      this.jsonField('schema', 'JSON schema', 'every answer is JSON that fits it', readSchema),
      this.jsonField('tools', 'Tools', 'a list as OpenAI’s API has it; the calls are shown, not made', readTools),
      this.choice(
        'device',
        'Computes on',
        [
          ['auto', 'a GPU where there is one, else the processor'],
          ['webgpu', 'WebGPU'],
          ['cpu', 'the processor'],
        ],
        'from the next load on',
      ),
      h('button', { type: 'button', onclick: () => this.reset() }, 'Back to the model’s own'),
    );
  }

  showDefaults(facts: AnswererFacts | null): void {
    for (const [field, input] of this.inputs) input.placeholder = round(field.otherwise(facts));
  }

  private set<K extends keyof Settings>(name: K, value: Settings[K]): void {
    this.values[name] = value;
    remember('settings', this.values);
    this.changed();
  }

  private systemField(): HTMLElement {
    const area = h('textarea', {
      id: 'system',
      rows: 3,
      value: this.values.system,
      oninput: () => this.set('system', area.value),
    });
    return h(
      'label',
      { className: 'field' },
      'System prompt',
      h('small', {}, 'what the model is told before everything else'),
      area,
    );
  }

  // What is wrong is said at once, and again by a question, which is not sent then.
  private jsonField(name: 'schema' | 'tools', label: string, help: string, read: (text: string) => unknown): HTMLElement {
    const wrong = h('small', { id: `wrong-${name}`, className: 'wrong', hidden: true, role: 'alert' });
    const show = (): void => {
      wrong.textContent = '';
      try {
        read(area.value);
      } catch (error) {
        wrong.textContent = sentenceOf(error);
      }
      wrong.hidden = wrong.textContent === '';
      area.setAttribute('aria-invalid', `${!wrong.hidden}`);
    };
    const oninput = (): void => (this.set(name, area.value), show());
    const area = h('textarea', { id: `set-${name}`, rows: 3, value: this.values[name], spellcheck: false, oninput });
    area.setAttribute('aria-describedby', wrong.id);
    show();
    return h('div', { className: 'field' }, h('label', {}, label, h('small', {}, help), area), wrong);
  }

  private numberField(field: NumberField): HTMLElement {
    const { name, label, help, min, max, step } = field;
    const input = h('input', {
      id: `set-${name}`,
      type: 'number',
      min: `${min}`,
      max: `${max}`,
      step: `${step}`,
      value: `${this.values[name] ?? ''}`,
    });
    const wrong = h('small', { id: `wrong-${name}`, className: 'wrong', hidden: true, role: 'alert' });
    input.setAttribute('aria-describedby', wrong.id);
    input.oninput = () => {
      if (input.validity.valid) this.set(name, input.value === '' ? null : input.valueAsNumber);
      this.showFault(field, input, wrong);
    };
    this.inputs.set(field, input);
    return h('div', { className: 'field' }, h('label', {}, label, h('small', {}, help), input), wrong);
  }

  // What is wrong with a number, and which one is used as long as it is.
  private showFault({ name, min, max, step }: NumberField, input: HTMLInputElement, wrong: HTMLElement): void {
    wrong.hidden = input.validity.valid;
    input.setAttribute('aria-invalid', `${!input.validity.valid}`);
    if (input.validity.valid) return;
    const whole = step === 'any' ? 'a number' : step === 1 ? 'a whole number' : `a multiple of ${step}`;
    const used = this.values[name] ?? input.placeholder;
    const stays = /^[\d.]+$/.test(`${used}`) ? `; ${used} stays` : '';
    const found = input.validity.badInput ? 'no number' : input.value;
    wrong.textContent = `Found ${found}: want ${whole} from ${formatCount(min)} to ${formatCount(max)}${stays}.`;
  }

  private choice<K extends 'thinking' | 'device'>(
    name: K,
    label: string,
    options: [Settings[K], string][],
    help = '',
  ): HTMLElement {
    const select = h(
      'select',
      { id: `set-${name}` },
      ...options.map(([value, text]) => h('option', { value, selected: value === this.values[name] }, text)),
    );
    select.onchange = () => this.set(name, select.value as Settings[K]);
    return h('label', { className: 'field' }, label, help === '' ? null : h('small', {}, help), select);
  }

  private reset(): void {
    Object.assign(this.values, kDefaults, { system: this.values.system });
    remember('settings', this.values);
    for (const input of this.inputs.values()) {
      input.value = '';
      input.dispatchEvent(new Event('input'));
    }
    for (const name of ['schema', 'tools'] as const) {
      const area = byId<HTMLTextAreaElement>(`set-${name}`);
      area.value = '';
      area.dispatchEvent(new Event('input'));
    }
    for (const name of ['thinking', 'device'] as const)
      byId<HTMLSelectElement>(`set-${name}`).value = this.values[name];
    this.changed();
  }
}
