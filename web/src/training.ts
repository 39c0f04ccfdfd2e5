// An adapter that the model is taught, from the first step to its files. The module does the work (src/train).
import { SluiceError } from './errors.ts';
import type { EngineModel, TrainedFile, TrainOptions, TrainPlan } from './engine/module.ts';
import type { AdapterFacts, Taught, TeachProgress } from './protocol.ts';

// What the worker lends a training.
interface Host {
  turn: () => Promise<void>; // lets other messages in, between two steps
  onProgress: (progress: TeachProgress) => void;
  // Adds the adapter of these files to the model.
  add: (files: File[]) => Promise<AdapterFacts[]>;
}

const kPeft: TrainedFile[] = ['adapter_config.json', 'adapter_model.safetensors'];
const kSecond = 1000; // ms
const sentenceOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export class Training {
  private step = 0; // that have ended
  private loss: number | null = null;
  private began = 0; // ms; of the second step, because the first one brings the model to the GPU
  private tokens = 0; // of steps since then
  private tokensLeft = 0;

  constructor(
    private readonly model: EngineModel,
    private readonly host: Host,
  ) {}

  // Once a step has ended nothing throws: what was learnt by then is kept, and a note says what went wrong.
  async teach(name: string, options: TrainOptions, signal: AbortSignal): Promise<Taught> {
    const taught: Taught = { name, finish: 'done', note: null, steps: 0, loss: null, files: [], gguf: null, adapter: null, adapters: [] };
    try {
      taught.finish = await this.learn(this.model.train(options), signal);
    } catch (error) {
      if (this.step === 0) {
        await this.giveBack(error);
        throw error;
      }
      Object.assign(taught, { finish: 'failed', note: sentenceOf(error) });
    }
    Object.assign(taught, { steps: this.step, loss: this.loss });
    try {
      if (this.step > 0) this.takeFiles(taught);
      this.model.endTraining();
      if (taught.files.length > 0) taught.adapters = await this.host.add(taught.files);
      else await this.model.load();
      taught.adapter = taught.adapters.at(-1) ?? null;
    } catch (error) {
      taught.note ??= sentenceOf(error);
      await this.model.load().catch(() => (taught.note += '; the model has to be loaded again'));
    }
    taught.adapters = this.model.adapters;
    return taught;
  }

  private async learn(plan: TrainPlan, signal: AbortSignal): Promise<'done' | 'stopped'> {
    this.tokensLeft = plan.tokens;
    this.tell(plan);
    for (;;) {
      if (signal.aborted) this.model.stopTraining();
      const news = await this.model.trainOn();
      if (news !== null && news.step > this.step) {
        this.count(news.tokens);
        [this.step, this.loss] = [news.step, news.loss];
        this.tell(plan);
      }
      if (news !== null && news.finish !== 'running') return news.finish;
      await this.host.turn();
    }
  }

  private count(tokens: number): void {
    this.tokensLeft -= tokens;
    if (this.step === 0) this.began = performance.now();
    else this.tokens += tokens;
  }
  private tell({ examples, faults, steps }: TrainPlan): void {
    const { step, loss, tokens } = this;
    const tokensPerSecond = tokens === 0 ? null : (tokens * kSecond) / (performance.now() - this.began);
    const secondsLeft = tokensPerSecond === null ? null : this.tokensLeft / tokensPerSecond;
    this.host.onProgress({ examples, faults, step, steps, loss, tokensPerSecond, secondsLeft });
  }

  private takeFiles(taught: Taught): void {
    taught.files = kPeft.map((file) => new File([this.model.trainedFile(file)], file));
    try {
      taught.gguf = new File([this.model.trainedFile('adapter.gguf')], `${taught.name}.gguf`);
    } catch {
      // The form has no place for some factors; PEFT's has.
    }
  }
  private async giveBack(why: unknown): Promise<void> {
    this.model.endTraining();
    try {
      await this.model.load();
    } catch {
      throw new SluiceError('closed', `${sentenceOf(why)}; the model has to be loaded again`);
    }
  }
}
