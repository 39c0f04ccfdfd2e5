// How the goldens are held in the module, on any device, in Node and in a browser. The bars are those of
// app/verify/verify_bars.h; what has no peer's number there is held in exact arithmetic only.
import { compareLogits, greedyOf, missingFor, parting, perplexityOf, showsMedia } from './golden.mjs';
import { decodeWav } from './wav.mjs';

const kExactLogits = 1e-3, kFloat64Factor = 10, kExactGreedyFactor = 2, kExactLnPerplexity = 1e-3, kPeerFactor = 3;
// llama.cpp's mean KL on the demo model, and how clear a greedy choice may be that fast arithmetic makes otherwise.
export const kPeers = { q8_0: { meanKl: 6.5e-4, margin: 0.5 }, bf16: { meanKl: 1.5e-5, margin: 0.05 } };
const kPeerCases = 11;
// Of a conversation that is saved: more than a page of the cache, 64 tokens, which is what a state has of it.
const kSavedPrompt = 100, kSavedAnswer = 4, kSavedMore = 8, kPage = 64;

// Of a mixture whose experts are read as they are chosen: the shortest prompt in which a slot is used for several.
const kStreamedMemory = 240e3, kStreamedPrompt = 17, kStreamedAnswer = 3;

// Of a training on two devices: losses and norms of gradients may differ by these shares. AdamW's first steps make as much
// of the noise in a tiny gradient as of a large one, so later norms differ more.
const kTrainedShare = 1e-4, kTrainedLater = 1e-2, kTrainedSteps = 3;
const kTrainingExamples = 'one => two three\nfour five six => seven\n';

const contextOf = ({ cases }) => Math.max(...cases.map((one) => one.input_ids.length + (one.greedy?.length ?? 0)));
const bar = (one) => Math.max(kExactLogits, kFloat64Factor * (one.float64_difference ?? 0));

const norm = (numbers) => Math.sqrt(numbers.reduce((sum, number) => sum + number * number, 0));

// All numbers of a safetensors file of f32, whose header ends at a multiple of 8.
function numbersOf(file) {
  const header = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
  return new Float32Array(file.slice(8 + header).buffer);
}

// Rows of logits by position.
class Rows {
  constructor(positions, logits, vocabulary) {
    Object.assign(this, { positions, logits, vocabulary });
  }
  at(positions) {
    const out = new Float32Array(positions.length * this.vocabulary);
    positions.forEach((position, i) => {
      const row = this.positions.indexOf(position);
      out.set(this.logits.subarray(row * this.vocabulary, (row + 1) * this.vocabulary), i * this.vocabulary);
    });
    return out;
  }
}

async function runCase(model, one, positions, media) {
  const request = { prompt: one.input_ids, media, max_tokens: one.greedy?.length ?? 0, logits_at: positions };
  const answer = await model.run(request);
  return { tokens: answer.tokens, rows: new Rows(positions, answer.logits, model.facts.vocabulary) };
}

// What the reference device makes of the same file: rows of logits, and its choice after each of our tokens.
async function referenceOf(reference, one, positions, tokens) {
  const steps = tokens.map((token, i) => one.input_ids.length - 1 + i);
  const all = [...new Set([...positions, ...steps])].sort((a, b) => a - b);
  const prompt = [...one.input_ids, ...tokens.slice(0, -1)];
  const rows = new Rows(all, (await reference.run({ prompt, logits_at: all })).logits, reference.facts.vocabulary);
  return { rows, ...greedyOf(rows.at(steps), reference.facts.vocabulary) };
}

// How many tokens each picture of the case has among its ids, all of which are the one that occurs in runs.
function runsOf(ids) {
  const runs = [];
  ids.forEach((id, i) => (id === ids[i - 1] ? ++runs.at(-1).length : runs.push({ id, length: 1 })));
  const longest = runs.reduce((a, b) => (a.length >= b.length ? a : b));
  return runs.filter(({ id }) => id === longest.id).map(({ length }) => length);
}

export class Verifier {
  #module;
  #decodePicture;
  missed = 0;
  // `decodePicture(bytes)` resolves with pixels as EngineModel takes them; null: not here.
  constructor(module, decodePicture = () => null) {
    this.#module = module;
    this.#decodePicture = decodePicture;
  }
  hold(what, holds) {
    if (!holds) console.error(`missed: ${what}`);
    this.missed += holds ? 0 : 1;
  }

  #checkChat(model, one) {
    if (one.kind !== 'chat') return;
    const rendered = model.render({ messages: one.messages, extra: one.template_kwargs ?? null });
    this.hold(`${one.name}: rendered text`, rendered === one.text);
    const ids = model.encode(one.text);
    this.hold(`${one.name}: tokens of the rendered text`, JSON.stringify(ids) === JSON.stringify(one.input_ids));
    this.hold(`${one.name}: text of the tokens`, model.decode(ids) === one.text);
  }

  // The decoded files of a case; null where one of them cannot be decoded here.
  async #filesOf(golden, one) {
    const decode = async (file) => {
      const bytes = await golden.open(file);
      return file.endsWith('.wav') ? decodeWav(bytes) : this.#decodePicture(bytes);
    };
    const files = showsMedia(one) ? await Promise.all(one.files.map(decode)) : [];
    return files.includes(null) ? null : files;
  }

  // Numbers of a case's pictures and sounds in the model. A file of towers may say another number of tokens than the
  // golden has for a picture, which then gets the smallest limit that gives it as many.
  #give(model, one, files) {
    if (one.kind === 'video') return model.addFilm(files).media;
    return files.flatMap((file) => {
      if ('samples' in file) return model.addSound(file.samples, file.rate).media;
      let picture = model.addPicture(file);
      const wanted = runsOf(one.input_ids);
      if (one.kind !== 'image' || files.length > 1 || picture.rows === wanted[0]) return picture.media;
      for (let limit = wanted[0]; limit <= 2 * wanted[0] && picture.rows !== wanted[0]; ++limit)
        picture = model.addPicture(file, limit);
      return picture.media;
    });
  }

  // One model in one arithmetic on one device, whose numerics id says `kind`. `judge`: "golden" when the file's weights are the golden's, else "reference".
  async verify(name, path, golden, { arithmetic, judge, peer, device = 'cpu', kind = 'simd128', perplexity = true, projector }) {
    const started = Date.now();
    const context = contextOf(golden);
    const model = await this.#module.open({ model: path, projector, arithmetic, context, device });
    const { vocabulary } = model.facts;
    this.hold(`${name}: ${kind}, found ${model.facts.numerics_id}`, model.facts.numerics_id.includes(kind));
    const plain = { model: path, device: 'reference', arithmetic: 'exact', context };
    const reference = judge === 'reference' ? await this.#module.open(plain) : null;
    const worst = { logits: 0, equal: 0, greedy: 0 };
    let meanKl = 0;
    const cases = golden.cases.filter((one) => missingFor(one, model.facts) === null);
    let notRun = golden.cases.length - cases.length;
    for (const one of cases) {
      const files = await this.#filesOf(golden, one);
      if (files === null) {
        console.log(`${name}, ${one.name}: not run: nothing here decodes ${one.files.join(', ')}`);
        ++notRun;
        continue;
      }
      const where = `${name}, ${arithmetic}, ${one.name}`;
      const exact = arithmetic === 'exact';
      // The perplexity needs all rows, which the reference device or a GPU without silicon would take a minute for.
      const all = exact && judge === 'golden' && perplexity && one.perplexity;
      const positions = all ? one.input_ids.map((id, i) => i) : one.positions;
      this.#checkChat(model, one);
      const media = this.#give(model, one, files);
      const ours = await runCase(model, one, positions, media);
      for (const number of media) model.removeMedia(number);
      const errors = compareLogits(ours.rows.at(one.positions), golden.logits(one), vocabulary);
      this.hold(`${where}: logits are finite`, Number.isFinite(errors.kl) && Number.isFinite(errors.largest));
      meanKl += errors.kl / cases.length;

      let largest = errors.largest, most = bar(one), theirs = { greedy: one.greedy ?? [], margins: one.greedy_margin ?? [] };
      if (reference !== null) {
        if (!exact && ours.tokens.length === 0) continue; // nothing that the reference would judge
        theirs = await referenceOf(reference, one, positions, ours.tokens);
        largest = compareLogits(ours.rows.at(one.positions), theirs.rows.at(one.positions), vocabulary).largest;
        most = kExactLogits;
      }
      worst.logits = Math.max(worst.logits, largest);
      if (exact) this.hold(`${where}: largest logit difference ${largest}: want at most ${most}`, largest <= most);
      if (all) {
        const ln = Math.abs(Math.log(perplexityOf(ours.rows.at(positions), one.input_ids, vocabulary) / one.perplexity));
        this.hold(`${where}: ln perplexity is ${ln} off: want at most ${kExactLnPerplexity}`, ln <= kExactLnPerplexity);
      }
      if (theirs.greedy.length === 0) continue;
      const margin = exact ? kExactGreedyFactor * most : peer.margin;
      const parted = parting(ours.tokens, theirs.greedy, theirs.margins);
      this.hold(`${where}: greedy tokens part at ${parted?.at} with margin ${parted?.margin}: want below ${margin}`,
           parted === null || parted.margin < margin);
      worst.equal += parted === null ? 1 : 0;
      ++worst.greedy;
    }
    this.hold(`${name}: no case was run`, notRun < golden.cases.length);
    if (arithmetic === 'fast') {
      const most = kPeerFactor * peer.meanKl;
      this.hold(`${name}, fast: ${cases.length} cases: want ${kPeerCases}`, cases.length === kPeerCases);
      this.hold(`${name}, fast: mean KL ${meanKl}: want at most ${most}`, meanKl <= most);
    }
    reference?.close();
    model.close();
    console.log(`${name} ${arithmetic} (${model.facts.numerics_id}): ${golden.cases.length - notRun} cases, ` +
                (notRun > 0 ? `${notRun} not run, ` : '') + 'mean KL ' +
                `${meanKl.toExponential(2)}; by the ${judge}: largest ${worst.logits.toExponential(1)}, greedy tokens equal ` +
                `in ${worst.equal} of ${worst.greedy}; ${((Date.now() - started) / 1000).toFixed(1)} s`);
  }

  // A conversation goes on with the same bits after its state was saved and read into a model that was opened anew. A state is
  // refused while the GPU makes an answer.
  async verifySavedState(name, path, golden, { device = 'cpu' } = {}) {
    const options = { model: path, arithmetic: 'exact', context: Math.max(contextOf(golden), 2 * kSavedPrompt), device };
    const known = golden.cases.findLast((one) => !showsMedia(one)).input_ids;
    const tokens = Array.from({ length: kSavedPrompt + kSavedMore }, (_, i) => known[i % known.length]);
    const prompt = tokens.slice(0, kSavedPrompt), more = tokens.slice(kSavedPrompt);
    const goOn = (model, sequence) =>
      model.run({ sequence, prompt: more, max_tokens: kSavedAnswer, logits_at: more.map((token, i) => i) });

    let model = await this.#module.open(options);
    const { progress, tokens: answer } = await model.run({ prompt, max_tokens: kSavedAnswer, keep_sequence: true });
    const state = await model.saveState(progress.sequence);
    const straight = await goOn(model, progress.sequence);
    model.close();

    model = await this.#module.open(options);
    if (device === 'webgpu') {
      model.submit({ prompt, max_tokens: kSavedAnswer });
      let refused = '';
      try {
        model.restoreState(state);
      } catch (error) {
        refused = error.message;
      }
      this.hold(`${name}: a state during an answer: found "${refused}"`, /^restore: the GPU is at work/.test(refused));
      model.cancel();
      do await model.step();
      while (model.collect().finish === 'running');
    }
    const restored = model.restoreState(state);
    const later = await goOn(model, restored.sequence);
    model.close();
    this.hold(`${name}: a restored state has "${restored.note}" to say`, restored.note === '');
    this.hold(`${name}: a restored state's tokens`, JSON.stringify(restored.tokens) === JSON.stringify([...prompt, ...answer]));
    this.hold(`${name}: ${later.progress.reused_tokens} restored tokens were reused`, later.progress.reused_tokens >= kPage);
    this.hold(`${name}: tokens after a restored state`, JSON.stringify(later.tokens) === JSON.stringify(straight.tokens));
    this.hold(`${name}: bits after a restored state`,
              straight.logits.length > 0 && later.logits.every((logit, i) => logit === straight.logits[i]));
    console.log(`${name}: a state of ${state.length} bytes saved and restored on ${device}`);
  }

  // A training step by step on the device and on the processor, in two parts a step.
  async verifyTraining(name, path, { device }) {
    const newsOn = async (where) => {
      const model = await this.#module.open({ model: path, arithmetic: 'exact', context: 64, device: where });
      model.train({ examples: kTrainingExamples, rank: 4, rate: 1e-2, steps: kTrainedSteps, part_tokens: 2, arithmetic: 'exact' });
      const steps = [];
      while (steps.at(-1)?.finish !== 'done') {
        const news = await model.trainOn();
        if (news !== null) steps.push(news);
      }
      const file = model.trainedFile('adapter_model.safetensors');
      model.endTraining();
      await model.load();
      const { tokens } = await model.run({ prompt: model.encode('one'), max_tokens: 1 });
      model.close();
      return { steps, bytes: file.length, factors: numbersOf(file), tokens };
    };
    const started = Date.now();
    const ours = await newsOn(device), theirs = await newsOn('cpu');
    const isNear = (found, want, share) => Math.abs(found - want) <= share * Math.abs(want);
    theirs.steps.forEach(({ loss, gradient_norm }, i) => {
      const found = ours.steps[i];
      this.hold(`${name}: loss of step ${i + 1} is ${found?.loss}: want ${loss}`, isNear(found?.loss, loss, kTrainedShare));
      this.hold(`${name}: gradients of step ${i + 1} have the norm ${found?.gradient_norm}: want ${gradient_norm}`,
                isNear(found?.gradient_norm, gradient_norm, i === 0 ? kTrainedShare : kTrainedLater));
    });
    const off = norm(theirs.factors.map((number, i) => number - ours.factors[i])) / norm(theirs.factors);
    this.hold(`${name}: the adapter's numbers are off by ${off}`, off <= kTrainedLater);
    this.hold(`${name}: the loss falls`, theirs.steps.at(-1).loss < theirs.steps[0].loss);
    this.hold(`${name}: an adapter of ${ours.bytes} bytes, and an answer after it`, ours.bytes === theirs.bytes && ours.tokens.length === 1);
    console.log(`${name}: ${kTrainedSteps} steps of a training on ${device} as on the processor; ${((Date.now() - started) / 1000).toFixed(1)} s`);
  }

  // A mixture in a few slots gives the bits that it gives where all experts lie in memory; less than a slot is refused.
  async verifyStreamed(name, path, golden, { device = 'cpu', arithmetic = 'exact' } = {}) {
    const options = { model: path, arithmetic, context: 64, device };
    const known = golden.cases.find((one) => !showsMedia(one) && one.input_ids.length >= kStreamedPrompt).input_ids;
    const prompt = known.slice(0, kStreamedPrompt);
    const request = { prompt, max_tokens: kStreamedAnswer, logits_at: prompt.map((token, i) => i) };
    const answerOf = async (more) => {
      const model = await this.#module.open({ ...options, ...more });
      const answer = { ...(await model.run(request)), experts: model.stats().experts };
      model.close();
      return answer;
    };
    const resident = await answerOf({}), streamed = await answerOf({ expert_memory: kStreamedMemory });
    const { slots, slot_bytes, experts, uses, misses, read_bytes } = streamed.experts;
    this.hold(`${name}: experts of a resident model`, resident.experts === null);
    this.hold(`${name}: ${misses} of ${uses} experts read into ${slots} of ${experts} slots`,
              slots > 0 && slots < experts && misses > slots && misses < uses && read_bytes >= misses * slot_bytes / 2);
    this.hold(`${name}: tokens of streamed experts`, JSON.stringify(streamed.tokens) === JSON.stringify(resident.tokens));
    this.hold(`${name}: bits of streamed experts`,
              resident.logits.length > 0 && streamed.logits.every((logit, i) => logit === resident.logits[i]));
    const refused = await this.#module.open({ ...options, expert_memory: 1 }).then(() => '', ({ message }) => message);
    this.hold(`${name}: memory for less than an expert: found "${refused}"`, /^experts: .* for them: want at least the .* of one$/.test(refused));
    console.log(`${name} ${arithmetic}: experts in ${slots} of ${experts} slots on ${device}: ${misses} of ${uses} uses read, the bits of all in memory`);
  }
}
