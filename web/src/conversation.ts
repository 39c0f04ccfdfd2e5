// Answers of one model, one after the other: renders, encodes, goes on from what the last answer computed as far as the
// tokens agree, and reads the new tokens as text.
import type { EngineModel } from './engine/module.ts';
import { SluiceError } from './errors.ts';
import type { AnswerRequest, AnswerResult, Piece } from './protocol.ts';

interface Kept {
  sequence: number; // the engine's
  tokens: number[];
}

export class Conversation {
  private kept: Kept | null = null;

  // `turn` lets other messages in, between two steps.
  constructor(
    private readonly model: EngineModel,
    private readonly turn: () => Promise<void>,
  ) {}

  async answer(request: AnswerRequest, signal: AbortSignal, onPiece: (piece: Piece) => void): Promise<AnswerResult> {
    const tokens = this.promptOf(request);
    const { context, ends } = this.model.facts;
    if (tokens.length === 0) throw new SluiceError('model', 'the prompt is empty: want some text');
    if (tokens.length >= context) {
      throw new SluiceError(
        'model',
        `the conversation has ${tokens.length} tokens: want less than the context of ${context}`,
      );
    }
    const room = context - tokens.length;
    const { sequence, same } = this.goOnFrom(tokens);
    this.kept = null;
    this.model.submit({
      ...request.sampling,
      prompt: tokens.slice(same),
      max_tokens: request.maxTokens === 0 ? room : Math.min(room, request.maxTokens),
      stop_tokens: ends,
      sequence,
      keep_sequence: true,
    });
    return this.follow(tokens, signal, onPiece);
  }

  async saveState(): Promise<Uint8Array<ArrayBuffer>> {
    if (this.kept === null) throw new SluiceError('model', 'there is no state to save: want an answer first');
    return this.model.saveState(this.kept.sequence);
  }
  // A note, empty when nothing has to be computed again.
  restoreState(state: Uint8Array): string {
    this.forget();
    const { sequence, tokens, note } = this.model.restoreState(state);
    this.kept = { sequence, tokens };
    return note;
  }

  private promptOf({ prompt, variables, stop }: AnswerRequest): number[] {
    if (typeof prompt === 'string') return this.model.readAnswer({ prompt, stop, add_special: true });
    if (!this.model.facts.has_chat_template) {
      throw new SluiceError('model', `${this.model.facts.name}: has no chat template: want plain text as the prompt`);
    }
    return this.model.readAnswer({ prompt: this.model.render({ messages: prompt, extra: variables }), stop });
  }

  // How many of the prompt's tokens the kept sequence begins with, which is taken back to them.
  private goOnFrom(tokens: number[]): { sequence: number; same: number } {
    if (this.kept === null) return { sequence: 0, same: 0 };
    const known = this.kept.tokens;
    const most = Math.min(known.length, tokens.length - 1); // the last token gives the first logits
    let same = 0;
    while (same < most && known[same] === tokens[same]) ++same;
    try {
      this.model.truncate(this.kept.sequence, same);
      return { sequence: this.kept.sequence, same };
    } catch {
      this.forget();
      return { sequence: 0, same: 0 };
    }
  }

  private forget(): void {
    if (this.kept !== null) this.model.forget(this.kept.sequence);
    this.kept = null;
  }

  private async follow(tokens: number[], signal: AbortSignal, onPiece: (piece: Piece) => void): Promise<AnswerResult> {
    const began = performance.now();
    let first = began;
    const result: AnswerResult = {
      text: '',
      thinking: '',
      finish: 'cancelled',
      promptTokens: tokens.length,
      reusedTokens: 0,
      tokens: 0,
      promptSeconds: 0,
      answerSeconds: 0,
    };
    const made: number[] = [];
    for (let stopped = false; ;) {
      if (signal.aborted || stopped) this.model.cancel();
      await this.model.step();
      const progress = this.model.collect();
      const now = performance.now();
      const running = progress.finish === 'running';
      if (made.length === 0 && (progress.tokens.length > 0 || !running)) {
        result.promptSeconds = (now - began) / 1000;
        first = now;
      }
      const read = { text: '', thinking: '' };
      const take = (piece: number[]): void => {
        const part = this.model.readTokens(piece);
        read.text += part.text;
        read.thinking += part.thinking;
        stopped ||= part.stopped;
      };
      if (progress.tokens.length > 0) take(progress.tokens);
      if (!running) take([]);
      made.push(...progress.tokens);
      result.text += read.text;
      result.thinking += read.thinking;
      result.tokens = made.length;
      result.reusedTokens = progress.reused_tokens;
      result.answerSeconds = (now - first) / 1000;
      const promptDone = Math.min(result.reusedTokens + progress.computed_prompt_tokens, tokens.length);
      onPiece({ ...read, promptTokens: tokens.length, promptDone, tokens: made.length });
      if (!running) {
        this.kept = { sequence: progress.sequence, tokens: [...tokens, ...made] };
        result.finish =
          stopped || progress.finish === 'stop_token' ? 'stop' : progress.finish === 'length' ? 'length' : 'cancelled';
        return result;
      }
      await this.turn();
    }
  }
}
