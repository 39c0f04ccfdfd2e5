// A golden (golden.json and golden.safetensors, src/app/verify/golden.h says what they hold) and how far an answer is from it.

const kMediaKinds = { image: ['pictures'], audio: ['sounds'], mixed: ['pictures', 'sounds'], video: ['pictures'] };
export const showsMedia = ({ kind }) => kind in kMediaKinds;
// What the model would have to take for a case; null when it does.
export const missingFor = ({ kind }, facts) => kMediaKinds[kind]?.find((what) => !facts[`takes_${what}`]) ?? null;

export class Golden {
  // The bytes of the two files. `open(name)` resolves with the bytes of a picture or sound beside them.
  constructor(text, safetensors, open = null) {
    const json = JSON.parse(new TextDecoder().decode(text));
    this.model = json.model;
    // Adapters and training are other kinds.
    this.cases = json.cases.filter(({ kind }) => kind === 'text' || kind === 'chat' || showsMedia({ kind }));
    this.open = open;
    this.file = safetensors;
    const view = new DataView(safetensors.buffer, safetensors.byteOffset);
    this.headerBytes = Number(view.getBigUint64(0, true));
    this.header = JSON.parse(new TextDecoder().decode(safetensors.subarray(8, 8 + this.headerBytes)));
  }
  // Itself, with the cases of those names; none named: all.
  only(names) {
    if (names.length > 0) this.cases = this.cases.filter(({ name }) => names.includes(name));
    return this;
  }
  // Itself, with the cases that show something.
  onlyMedia() {
    this.cases = this.cases.filter(showsMedia);
    return this;
  }
  // Rows of logits, as many as the case has positions.
  logits(one) {
    const { dtype, data_offsets: [begin, end] } = this.header[one.tensors.logits];
    if (dtype !== 'F32') throw new Error(`${one.name}: logits are ${dtype}: want F32`);
    const first = 8 + this.headerBytes;
    return new Float32Array(Uint8Array.from(this.file.subarray(first + begin, first + end)).buffer);
  }
}

function logSumExp(row) {
  const largest = row.reduce((a, b) => Math.max(a, b));
  return largest + Math.log(row.reduce((sum, x) => sum + Math.exp(x - largest), 0));
}

// The largest difference, and the mean over the rows of KL(want || got). NaN when a logit is not finite.
export function compareLogits(got, want, vocabulary) {
  if (got.length !== want.length) throw new Error(`${got.length} logits: want ${want.length}`);
  const rows = want.length / vocabulary;
  let largest = 0, kl = 0;
  for (let row = 0; row < rows; ++row) {
    const ours = got.subarray(row * vocabulary, (row + 1) * vocabulary);
    const theirs = want.subarray(row * vocabulary, (row + 1) * vocabulary);
    const ourNorm = logSumExp(ours), theirNorm = logSumExp(theirs);
    let sum = 0;
    for (let i = 0; i < vocabulary; ++i) {
      largest = Math.max(largest, Math.abs(ours[i] - theirs[i])); // Math.max keeps a NaN
      sum += Math.exp(theirs[i] - theirNorm) * (theirs[i] - theirNorm - (ours[i] - ourNorm));
    }
    kl += Math.max(sum, 0) / rows;
  }
  return { largest, kl };
}

// Of every token after the first, by the row before it.
export function perplexityOf(logits, tokens, vocabulary) {
  let sum = 0;
  for (let i = 1; i < tokens.length; ++i) {
    const row = logits.subarray((i - 1) * vocabulary, i * vocabulary);
    sum -= row[tokens[i]] - logSumExp(row);
  }
  return Math.exp(sum / (tokens.length - 1));
}

// The greedy tokens of the rows and each one's margin over the next.
export function greedyOf(logits, vocabulary) {
  const greedy = [], margins = [];
  for (let row = 0; row < logits.length / vocabulary; ++row) {
    const values = logits.subarray(row * vocabulary, (row + 1) * vocabulary);
    let best = 0, second = -Infinity;
    for (let i = 1; i < vocabulary; ++i) {
      if (values[i] > values[best]) {
        second = values[best];
        best = i;
      } else if (values[i] > second) {
        second = values[i];
      }
    }
    greedy.push(best);
    margins.push(values[best] - second);
  }
  return { greedy, margins };
}

// Where greedy tokens part, and by how much that choice was clear; null when they never do.
export function parting(got, want, margins) {
  const at = want.findIndex((token, i) => got[i] !== token);
  return at < 0 ? null : { at, margin: margins[at] };
}
