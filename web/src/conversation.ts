// Answers of one model, one after the other, and what is computed of them. The module does the work (src/chat): it renders,
// encodes, goes on from what the last answer computed, and gives the new tokens as text.
import type { EngineModel, Turn } from './engine/module.ts';
import { SluiceError } from './errors.ts';
import type { AnswerRequest, AnswerResult, Piece, ToolCall } from './protocol.ts';

export class Conversation {
  // `turn` lets other messages in, between two steps.
  constructor(
    private readonly model: EngineModel,
    private readonly turn: () => Promise<void>,
  ) {}

  async answer(request: AnswerRequest, signal: AbortSignal, onPiece: (piece: Piece) => void): Promise<AnswerResult> {
    this.model.begin(this.turnOf(request));
    let text = '';
    let thinking = '';
    const toolCalls: ToolCall[] = [];
    for (;;) {
      if (signal.aborted) this.model.cancel();
      const news = await this.model.goOn();
      if (news !== null) {
        text += news.text;
        thinking += news.thinking;
        toolCalls.push(...news.tool_calls);
        const promptTokens = news.prompt_tokens;
        const promptDone = Math.min(news.reused_tokens + news.computed_tokens, promptTokens);
        onPiece({ text: news.text, thinking: news.thinking, promptTokens, promptDone, tokens: news.answer_tokens });
        if (news.finish !== 'running') {
          return {
            text,
            thinking,
            toolCalls,
            finish: news.finish,
            promptTokens,
            reusedTokens: news.reused_tokens,
            computedTokens: news.computed_tokens,
            tokens: news.answer_tokens,
            promptSeconds: news.prompt_seconds,
            answerSeconds: news.answer_seconds,
          };
        }
      }
      await this.turn();
    }
  }

  async saveState(): Promise<Uint8Array<ArrayBuffer>> {
    if (this.model.sequence === 0) throw new SluiceError('model', 'there is no state to save: want an answer first');
    return this.model.saveState(this.model.sequence);
  }
  // A note, empty when nothing has to be computed again.
  restoreState(state: Uint8Array): string {
    this.model.sequence = 0; // gives its room back first
    const { sequence, note } = this.model.restoreState(state);
    this.model.sequence = sequence;
    return note;
  }

  private turnOf({ prompt, variables, stop, sampling, maxTokens, adapters, schema }: AnswerRequest): Turn {
    const form = schema !== undefined && { schema };
    const settings = { ...sampling, max_tokens: maxTokens, stop, ...(adapters && { adapters }), ...form };
    if (typeof prompt === 'string') return { ...settings, prompt };
    if (!this.model.facts.has_chat_template) {
      throw new SluiceError('model', `${this.model.facts.name}: has no chat template: want plain text as the prompt`);
    }
    return { ...settings, messages: prompt, variables };
  }
}
