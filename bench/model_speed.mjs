// How fast a model opened by the page's module is, in tokens a second: in a page's worker, and in Node.
const kFirstToken = 2; // any

/** Of an answer, after its first token. */
export async function answerSpeed(model, tokens) {
  model.submit({ prompt: [kFirstToken], max_tokens: tokens + 1 });
  for (let began = 0, found = 0; ; ) {
    await model.step();
    const { tokens: more, finish } = model.collect();
    if (found === 0 && more.length > 0) began = performance.now();
    found += more.length;
    if (finish !== 'running') return (found - 1) / ((performance.now() - began) / 1000);
  }
}

/** Of a prompt, with the first token of its answer. */
export async function promptSpeed(model, tokens) {
  const prompt = Array.from({ length: tokens }, (_, i) => kFirstToken + i);
  const began = performance.now();
  await model.run({ prompt, max_tokens: 1 });
  return tokens / ((performance.now() - began) / 1000);
}

export const medianOf = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];
const rounded = (number) => number.toPrecision(3);
/** The median and the range. */
export const spread = (all) => `${rounded(medianOf(all))} (${rounded(Math.min(...all))} to ${rounded(Math.max(...all))})`;
