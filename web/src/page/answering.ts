// An answer, from the question to its end: checked for room, shown and kept as it comes.
import { mediaOf } from '../index.ts';
import type { Answer, AnswerResult, GenerateOptions, LanguageModel, Message, Part } from '../index.ts';
import type { CurrentConversation } from './conversations/current.ts';
import { messagesOf } from './conversations/tree.ts';
import type { TreeMessage } from './conversations/tree.ts';
import { readSchema, readTools } from './json_settings.ts';
import { describe, speedOf } from './live_answer.ts';
import type { LiveAnswer } from './live_answer.ts';
import type { Settings } from './memory.ts';
import type { MessageList } from './messages.ts';
import { checkRoom, promptOf, surelyFits } from './room.ts';
import type { Seen } from './stats.ts';
import { announce, hideError, isGone, isOfServer } from './status.ts';

const kKeepEvery = 300; // ms: what a tab that ends at once loses of an answer
const kTellEvery = 500; // ms

interface Events {
  model: () => LanguageModel | null;
  settings: () => Settings;
  busy: () => void; // an answer begins or has ended
  grown: (begun: boolean) => void; // the list is longer
  seen: (seen: Seen) => void;
  failed: (error: unknown) => void;
}

// What the model does first with a message that shows something.
function lookingAt(question: TreeMessage): string {
  const types = new Set(mediaOf(question).map(({ type }) => type));
  if (types.size === 2) return 'Looking at the picture and listening to the sound…';
  return types.has('image') ? 'Looking at the picture…' : types.has('audio') ? 'Listening to the sound…' : '';
}

// Fails with a sentence where a setting cannot be read.
function optionsOf(settings: Settings): GenerateOptions {
  const { temperature, topK, topP, minP, repeatPenalty, maxTokens, seed, thinking } = settings;
  const schema = readSchema(settings.schema);
  const tools = readTools(settings.tools);
  const numbers = Object.entries({ temperature, topK, topP, minP, repeatPenalty, maxTokens, seed });
  const given = Object.fromEntries(numbers.filter(([, value]) => value !== null));
  const variables = { ...(thinking !== 'model' && { enable_thinking: thinking === 'on' }), ...(tools && { tools }) };
  return { ...given, ...(schema && { schema }), variables };
}

export class Answering {
  private controller: AbortController | null = null;
  private used = new Map<string, number>(); // tokens of the context, by the id of the last answer

  constructor(
    private readonly conversation: CurrentConversation,
    private readonly list: MessageList,
    private readonly events: Events,
  ) {}

  get isBusy(): boolean {
    return this.controller !== null;
  }
  stop(): void {
    this.controller?.abort();
  }
  usedBy(answer: TreeMessage | undefined): number | null {
    return (answer && this.used.get(answer.id)) ?? null;
  }

  // A new message. `taken` is called once it is said: until then, and where there is no room for it, it is the caller's.
  say(content: string | Part[], taken: () => void): void {
    const { path } = this.conversation;
    const before = path.at(-1)?.role === 'user' ? path.slice(0, -1) : path;
    this.whenFits([...messagesOf(before), { role: 'user', content }], () => {
      taken();
      this.follow(this.conversation.ask(content), true);
    });
  }
  // A question in other words.
  edit(question: TreeMessage, content: string | Part[]): void {
    const { path } = this.conversation;
    const before = path.slice(0, path.findIndex(({ id }) => id === question.id));
    this.whenFits([...messagesOf(before), { role: 'user', content }], () =>
      this.follow(this.conversation.askInstead(question, content), true),
    );
  }
  again(): void {
    const question = this.conversation.lastQuestion;
    if (question !== undefined && this.options() !== null && this.begin()) this.follow(question, false);
  }

  // Null: there is no model, or the settings cannot be honoured, which is said.
  private options(): GenerateOptions | null {
    const model = this.events.model();
    try {
      return model && optionsOf(this.events.settings());
    } catch (error) {
      this.events.failed(error);
      return null;
    }
  }

  private begin(): boolean {
    if (this.events.model() === null || this.isBusy) return false;
    hideError();
    this.controller = new AbortController();
    this.events.busy();
    return true;
  }
  private end(): void {
    this.controller = null;
    this.events.busy();
  }

  private whenFits(messages: Message[], go: () => void): void {
    const options = this.options();
    if (options === null || !this.begin()) return;
    const model = this.events.model()!;
    const { system } = this.events.settings();
    if (surelyFits(model, messages, system)) return go(); // at once
    const { variables = {} } = options;
    const { signal } = this.controller!;
    checkRoom(model, promptOf(model, messages, system), variables)
      .then(() => (signal.aborted ? this.end() : go()))
      .catch((error: unknown) => {
        this.end();
        this.events.failed(error);
      });
  }

  // `isNew`: the question goes with an answer that the model refuses.
  private follow(question: TreeMessage, isNew: boolean): void {
    const { conversation, list } = this;
    const id = conversation.id;
    const answer = conversation.answer(question);
    conversation.keep(...(isNew ? [question, answer] : [answer]));
    const looking = lookingAt(question);
    list.show(conversation.path.slice(0, -1), false);
    const live = list.begin(looking);
    this.events.grown(true);
    announce(looking || 'Answering');
    const said = conversation.path.slice(0, -1);
    const keep = (last: Partial<TreeMessage>): void => {
      Object.assign(answer, { content: live.text, thinking: live.thinking }, last);
      if (live.thinkingSeconds !== undefined) answer.thinkingSeconds = live.thinkingSeconds;
      if (live.calls.length > 0) answer.calls = live.calls;
      conversation.keep(answer);
    };
    void this.run(messagesOf(said), live, keep)
      .then(
        ({ result, model }) => {
          live.calls = result.toolCalls;
          const counted = result.promptTokens + result.tokens;
          const used = counted > 0 ? counted : null;
          if (used !== null) this.used.set(answer.id, used);
          keep({ finished: true, note: describe(result, counted >= model.facts.context - 1) });
          list.finish(live, answer);
          announce(result.text);
          this.events.seen({ speed: speedOf(result.tokens - 1, result.answerSeconds), used });
        },
        (error: unknown) => {
          if (live.text === '' && live.thinking === '') {
            live.fail();
            // The question stays where only the device or the server is to blame.
            const taken = isNew && !isGone(error) && !isOfServer(error) ? [question, answer] : [answer];
            conversation.takeBack(taken, taken.length === 2 ? question.parent : question.id);
            if (conversation.id === id) list.show(conversation.path, false);
          } else {
            keep({ finished: true, note: 'not finished' });
            list.finish(live, answer);
          }
          if (!(isGone(error) && this.controller?.signal.aborted)) this.events.failed(error);
        },
      )
      .finally(() => this.end());
  }

  private async run(
    messages: Message[],
    live: LiveAnswer,
    keep: (last: Partial<TreeMessage>) => void,
  ): Promise<{ result: AnswerResult; model: LanguageModel }> {
    const model = this.events.model()!;
    const settings = this.events.settings();
    const { signal } = this.controller!;
    const answer = model.generate(promptOf(model, messages, settings.system), { ...optionsOf(settings), signal });
    const leaving = (): void => keep({});
    addEventListener('pagehide', leaving);
    try {
      await this.show(answer, live, keep);
      return { result: await answer.result, model };
    } finally {
      removeEventListener('pagehide', leaving);
    }
  }

  private async show(answer: Answer, live: LiveAnswer, keep: (last: Partial<TreeMessage>) => void): Promise<void> {
    let [told, kept, first] = [performance.now(), performance.now(), 0];
    for await (const piece of answer) {
      live.add(piece);
      this.events.grown(false);
      const now = performance.now();
      if (piece.tokens > 0 && first === 0) first = now;
      if (piece.tokens > 0 && now - kept > kKeepEvery) {
        kept = now;
        keep({});
      }
      if (first > 0 && piece.promptTokens > 0 && now - told > kTellEvery) {
        told = now;
        this.events.seen({ speed: speedOf(piece.tokens - 1, (now - first) / 1000), used: piece.promptTokens + piece.tokens });
      }
    }
  }
}
