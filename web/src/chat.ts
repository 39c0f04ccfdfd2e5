// A conversation with a model: keeps the messages, so that a caller says what is new. Stopping keeps what was said.
import type { Answer, GenerateOptions, Sluice } from './client.ts';
import { SluiceError } from './errors.ts';
import type { Message, Part } from './protocol.ts';

export interface ChatOptions extends Omit<GenerateOptions, 'signal'> {
  system?: string;
  messages?: Message[]; // what was said before, without the system message
}

export class Chat {
  readonly messages: Message[];

  constructor(
    private readonly model: Sluice,
    // May be changed between two answers.
    readonly options: ChatOptions,
  ) {
    this.messages = [...(options.messages ?? [])];
  }

  // The answer to one more message of the user: a text, or parts that show pictures and sounds.
  send(content: string | Part[], options: GenerateOptions = {}): Answer {
    const message: Message = { role: 'user', content };
    this.messages.push(message);
    const answer = this.answer(options);
    // A message that the model refuses is not said, so that later ones are answered.
    answer.result.catch(() => this.messages.at(-1) === message && this.messages.pop());
    return answer;
  }
  // Another answer to the user's last message.
  regenerate(options: GenerateOptions = {}): Answer {
    const last = this.messages.findLastIndex(({ role }) => role === 'user');
    if (last < 0) throw new SluiceError('model', 'there is no message to answer: send one first');
    this.messages.length = last + 1;
    return this.answer(options);
  }
  // Says the user's message at `index` in other words, and forgets what followed it.
  edit(index: number, content: string | Part[], options: GenerateOptions = {}): Answer {
    if (this.messages[index]?.role !== 'user')
      throw new SluiceError('model', `message ${index}: is none of the user's`);
    this.messages.length = index;
    return this.send(content, options);
  }

  private answer(options: GenerateOptions): Answer {
    const { system, messages: _, ...kept } = this.options;
    const opening: Message[] = system ? [{ role: 'system', content: system }] : [];
    const answer = this.model.generate([...opening, ...this.messages], { ...kept, ...options });
    const said = this.messages.length;
    answer.result.then(
      ({ text }) => {
        if (this.messages.length === said) this.messages.push({ role: 'assistant', content: text });
      },
      () => {}, // the caller hears of it
    );
    return answer;
  }
}
