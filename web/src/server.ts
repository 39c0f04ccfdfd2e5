// A server that speaks OpenAI's API, such as `sluice serve`, and its models as the page asks them: docs/server.md.
import { Answer } from './client.ts';
import type { GenerateOptions } from './client.ts';
import { SluiceError } from './errors.ts';
import type { AnswererFacts, LanguageModel } from './language_model.ts';
import type { AnswerResult, MediaFacts, MediaPart, Message, Part, Piece, ToolCall } from './protocol.ts';
import { eventsOf } from './server_events.ts';
import { sentMedia } from './server_media.ts';

type Fields = Record<string, unknown>;
interface Call {
  name: string;
  arguments: string; // JSON, as far as it has come
}
interface Chunk {
  error?: { message?: string };
  choices?: { text?: string; delta?: Delta; finish_reason?: string | null }[];
  usage?: { prompt_tokens: number; completion_tokens: number; prompt_tokens_details?: { cached_tokens?: number } } | null;
}
interface Delta {
  content?: string | null;
  reasoning_content?: string | null;
  tool_calls?: { index: number; function?: { name?: string; arguments?: string } }[];
}

const isJson = (response: Response): boolean => (response.headers.get('Content-Type') ?? '').includes('application/json');

export class Server {
  key: string | null = null; // sent as a bearer's

  constructor(private readonly base: string) {}

  // The one that answers beside this page. Null: there is none.
  static async find(base: string = document.baseURI): Promise<Server | null> {
    try {
      const response = await fetch(new URL('v1/models', base));
      if (!isJson(response) || !(response.ok || response.status === 401)) return null;
      const list = (await response.json()) as { data?: unknown; error?: unknown };
      return Array.isArray(list.data) || list.error !== undefined ? new Server(base) : null;
    } catch {
      return null;
    }
  }

  async models(): Promise<string[]> {
    const { data } = (await (await this.ask('v1/models')).json()) as { data: { id: string }[] };
    return data.map(({ id }) => id);
  }

  async open(name: string): Promise<ServerModel> {
    const shown = (await (await this.ask('api/show', { model: name })).json()) as Fields;
    const able = (shown.capabilities ?? []) as string[];
    const info = Object.entries((shown.model_info ?? {}) as Fields);
    return new ServerModel(this, {
      name,
      context: Number(info.find(([key]) => key.endsWith('.context_length'))?.[1] ?? Infinity),
      chat: shown.template !== '',
      takesPictures: able.includes('vision'),
      takesSounds: able.includes('audio'),
      device: 'server',
      deviceName: `the server at ${new URL(this.base).host}`,
      whyNotGpu: null,
      sampling: {},
    });
  }

  // Its reply; one that refuses is an error with the server's sentence.
  async ask(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
    const headers = { ...(this.key !== null && { Authorization: `Bearer ${this.key}` }) };
    const sent = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const response = await fetch(new URL(path, this.base), { headers, ...sent, ...(signal && { signal }) }).catch((error: unknown) => {
      if (signal?.aborted) throw error;
      throw new SluiceError('network', `${new URL(this.base).host}: the server does not answer: want it running, and a network to it`);
    });
    if (response.ok) return response;
    const sentence = isJson(response) ? sentenceIn(await response.json().catch(() => null)) : null;
    throw new SluiceError(response.status === 401 ? 'key' : 'server', sentence ?? `the server answers with status ${response.status}`);
  }
}

// {"error": {"message": ...}} of OpenAI, {"error": ...} of Ollama.
function sentenceIn(reply: unknown): string | null {
  const error = (reply as { error?: unknown } | null)?.error;
  const message = typeof error === 'string' ? error : (error as { message?: unknown } | undefined)?.message;
  return typeof message === 'string' ? message : null;
}

export class ServerModel implements LanguageModel {
  constructor(
    private readonly server: Server,
    readonly facts: AnswererFacts,
  ) {}

  generate(prompt: string | Message[], options: GenerateOptions = {}): Answer {
    return new Answer(async (onPiece, signal) => {
      const answer = new ServerAnswer(onPiece);
      try {
        const path = typeof prompt === 'string' ? 'v1/completions' : 'v1/chat/completions';
        const response = await this.server.ask(path, await this.bodyOf(prompt, options), signal);
        for await (const data of eventsOf(response)) if (answer.take(data)) return answer.result();
      } catch (error) {
        if (signal.aborted) return answer.result('cancelled');
        if (error instanceof SluiceError) throw error;
      }
      throw new SluiceError('network', 'the connection to the server broke before the answer ended: what has come stays');
    }, options.signal);
  }

  async prepare(part: MediaPart): Promise<Pick<MediaFacts, 'seconds'>> {
    const what = part.type === 'image' ? 'pictures' : 'sounds';
    if (!(part.type === 'image' ? this.facts.takesPictures : this.facts.takesSounds))
      throw new SluiceError('model', `${this.facts.name}: takes no ${what}: want a model that does`);
    return sentMedia(part);
  }
  measure(): Promise<null> {
    return Promise.resolve(null); // the server counts them before it answers
  }
  stats(): Promise<null> {
    return Promise.resolve(null);
  }
  close(): void {} // others may use it

  private async bodyOf(prompt: string | Message[], options: GenerateOptions): Promise<Fields> {
    const { tools, ...variables } = options.variables ?? {};
    const { context } = this.facts;
    // Without a limit a completion has 16 tokens.
    const most = options.maxTokens || (typeof prompt === 'string' && Number.isFinite(context) ? context : undefined);
    const said = typeof prompt === 'string' ? { prompt } : { messages: await Promise.all(prompt.map(messageOf)) };
    return {
      model: this.facts.name,
      ...said,
      stream: true,
      stream_options: { include_usage: true },
      seed: options.seed ?? crypto.getRandomValues(new Uint32Array(1))[0],
      temperature: options.temperature,
      top_k: options.topK,
      top_p: options.topP,
      min_p: options.minP,
      repeat_penalty: options.repeatPenalty,
      presence_penalty: options.presencePenalty,
      frequency_penalty: options.frequencyPenalty,
      max_tokens: most,
      stop: options.stop,
      ...(tools !== undefined && { tools }),
      ...(Object.keys(variables).length > 0 && { chat_template_kwargs: variables }),
      ...(options.schema !== undefined && {
        response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema: options.schema } },
      }),
    };
  }
}

async function messageOf({ role, content, toolCalls = [] }: Message, at: number): Promise<Fields> {
  const part = async (one: Part): Promise<unknown> => (one.type === 'text' ? one : (await sentMedia(one)).part);
  const calls = toolCalls.map((call, i) => ({
    id: `call_${at}_${i}`,
    type: 'function',
    function: { name: call.name, arguments: JSON.stringify(call.arguments) },
  }));
  return {
    role,
    content: typeof content === 'string' ? content : await Promise.all(content.map(part)),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

// An answer from the chunks of its stream.
class ServerAnswer {
  private text = '';
  private thinking = '';
  private readonly calls: Call[] = [];
  private pieces = 0;
  private finish: 'stop' | 'length' = 'stop';
  private usage: NonNullable<Chunk['usage']> | null = null;
  private readonly began = performance.now();
  private first = 0; // ms, as `began`; 0: nothing has come

  constructor(private readonly onPiece: (piece: Piece) => void) {}

  // Whether that was the last one.
  take(data: string): boolean {
    if (data === '[DONE]') return true;
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error) throw new SluiceError('server', sentenceIn(chunk) ?? 'the server ended the answer with an error');
    if (chunk.usage) this.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (choice === undefined) return false;
    if (choice.finish_reason === 'length') this.finish = 'length';
    this.add(choice.text ?? choice.delta?.content ?? '', choice.delta?.reasoning_content ?? '', choice.delta?.tool_calls ?? []);
    return false;
  }

  // Where it was stopped the server has counted nothing.
  result(finish: AnswerResult['finish'] = this.finish): AnswerResult {
    const now = performance.now();
    const reusedTokens = this.usage?.prompt_tokens_details?.cached_tokens ?? 0;
    const promptTokens = this.usage?.prompt_tokens ?? 0;
    return {
      text: this.text,
      thinking: this.thinking,
      toolCalls: finish === 'cancelled' ? [] : this.calls.map(wholeCall),
      finish,
      promptTokens,
      reusedTokens,
      computedTokens: promptTokens - reusedTokens,
      tokens: this.usage?.completion_tokens ?? 0,
      promptSeconds: ((this.first || now) - this.began) / 1000,
      answerSeconds: this.first > 0 ? (now - this.first) / 1000 : 0,
    };
  }

  private add(text: string, thinking: string, calls: NonNullable<Delta['tool_calls']>): void {
    for (const { index, function: one } of calls) {
      const call = (this.calls[index] ??= { name: '', arguments: '' });
      call.name += one?.name ?? '';
      call.arguments += one?.arguments ?? '';
    }
    if (text === '' && thinking === '' && calls.length === 0) return;
    this.first ||= performance.now();
    this.text += text;
    this.thinking += thinking;
    // What was read of the prompt is told at the end only.
    this.onPiece({ text, thinking, promptTokens: 0, promptDone: 0, tokens: ++this.pieces });
  }
}

function wholeCall({ name, arguments: text }: Call): ToolCall {
  try {
    return { name, arguments: JSON.parse(text === '' ? '{}' : text) as Record<string, unknown> };
  } catch {
    throw new SluiceError('server', `the server's call of ${name} has arguments that are no JSON: ${text.slice(0, 80)}`);
  }
}
