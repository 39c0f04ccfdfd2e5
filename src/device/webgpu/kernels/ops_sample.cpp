// sample: two dispatches. In the first, each workgroup takes a part of a wanted row's vocabulary. It finds the largest
// logit, the sum of exponentials, the candidates and the best token after adjustments, mask and temperature. In the
// second, one workgroup for each row merges the parts. If the temperature is not 0, its threads pass over the whole
// vocabulary as often as needed. Nothing is sorted: top_k and top_p halve a range of keys that sort like logits. Sums
// have one order: a thread's tokens ascending, then the threads, then the parts.
#include <algorithm>

#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kSampleThreads = 256;
constexpr uint32_t kPartTokens = 1024;      // at least; the second kernel has one thread for each part
constexpr uint32_t kMostKeptTokens = 2048;  // in workgroup memory

// The noise of base/random.h.
constexpr const char* kGumbel = R"(
fn multiply_wide(a: u32, b: u32) -> vec2u {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let first = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let second = (a & 0xffffu) * (b >> 16u) + (first & 0xffffu);
  return vec2u(a * b, (a >> 16u) * (b >> 16u) + (first >> 16u) + (second >> 16u));
}
fn philox(counter_in: vec4u, key_in: vec2u) -> vec4u {
  var counter = counter_in;
  var key = key_in;
  for (var round_number = 0u; round_number < 10u; round_number++) {
    let a = multiply_wide(0xd2511f53u, counter.x);
    let b = multiply_wide(0xcd9e8d57u, counter.z);
    counter = vec4u(b.y ^ counter.y ^ key.x, b.x, a.y ^ counter.w ^ key.y, a.x);
    key += vec2u(0x9e3779b9u, 0xbb67ae85u);
  }
  return counter;
}
// -log(1 - v) for v = (bits + 1/2) / 2^32. For small v it is the series of 2 atanh(v / (2 - v)).
fn exponential(bits: u32) -> f32 {
  if (bits >= 0x40000000u) { return -exact_log((f32(~bits) + 0.5) * 2.3283064e-10); }
  let v = (f32(bits) + 0.5) * 2.3283064e-10;
  let s = v / (2.0 - v);
  let z = s * s;
  return 2.0 * s * fma(z, fma(z, fma(z, fma(z, 1.0 / 9.0, 1.0 / 7.0), 1.0 / 5.0), 1.0 / 3.0), 1.0);
}
fn gumbel(row: u32, position: u32, token: u32) -> f32 {
  let seed = vec2u(memory[row + 4u], memory[row + 5u]);
  let bits = philox(vec4u(token / 4u, position, memory[row + 6u], 0u), seed)[token % 4u];
  return -exact_log(exponential(bits));
}
)";

// `t`: a row's logits, adjusted and divided by the temperature. Each loop is written only once, because drivers inline
// every function and some take seconds to compile the result.
constexpr const char* kSample = R"(
var<workgroup> row_words: array<u32, SAMPLE_ROW_WORDS>;
var<workgroup> best_indices: array<u32, CANDIDATES>;

fn candidate(part: u32, i: u32, has_part: bool) -> Token {
  if (!has_part || i >= row_words[9]) { return NONE; }
  return Token(memory[part + 5u + 2u * i], memory[part + 6u + 2u * i]);
}

// Tokens are ordered by key, largest first, then by index. This is the number of tokens up to `cut` (included), or the
// sum of their probabilities relative to the best token's.
fn amount(t: u32, cut: Token, by_mass: bool, largest: f32, thread: u32) -> f32 {
  var own = 0.0;
  for (var i = thread; i < p.vocabulary; i += THREADS) {
    let x = load(t + i);
    if (is_before(cut, Token(key_of(x), i))) { continue; }
    if (by_mass) { own += exact_exp(x - largest); } else { own += 1.0; }
  }
  return sum_all(own, thread);
}

// The first token in that order for which amount() reaches `want`, or the last token. The search finds its key bit by
// bit, then its index.
fn first_enough(t: u32, by_mass: bool, want: f32, largest: f32, thread: u32) -> Token {
  var cut = Token(0u, 0xffffffffu);
  for (var i = 0u; i < 64u; i++) {
    let bit = 0x80000000u >> (i % 32u);
    var closer = cut;
    if (i < 32u) { closer.key |= bit; } else { closer.index ^= bit; }
    if (amount(t, closer, by_mass, largest, thread) >= want) { cut = closer; }
  }
  return cut;
}

// The last token that top_k and then top_p keep.
fn find_cut(t: u32, largest: f32, thread: u32) -> Token {
  let words = workgroupUniformLoad(&row_words);
  let top_k = words[1];
  let top_p = bitcast<f32>(words[2]);
  var cut = ALL;
  for (var by_mass = 0u; by_mass < 2u; by_mass++) {
    if (by_mass == 0u && (top_k == 0u || top_k >= p.vocabulary)) { continue; }
    if (by_mass == 1u && top_p >= 1.0) { continue; }
    var want = f32(top_k);
    if (by_mass == 1u) { want = top_p * amount(t, cut, true, largest, thread); }
    let shorter = first_enough(t, by_mass == 1u, want, largest, thread);
    if (is_before(shorter, cut)) { cut = shorter; }
  }
  return cut;
}

// Samples one of the tokens that are left. `best` is the token with the largest logit.
fn choose(t: u32, row: u32, position: u32, best: Token, thread: u32) -> u32 {
  let words = workgroupUniformLoad(&row_words);
  let min_p = bitcast<f32>(words[3]);
  let largest = load(t + best.index);
  let cut = find_cut(t, largest, thread);
  var own = NONE;
  for (var i = thread; i < p.vocabulary; i += THREADS) {
    let x = load(t + i);
    if (is_before(cut, Token(key_of(x), i))) { continue; }
    if (i != best.index && exact_exp(x - largest) < min_p) { continue; }
    let token = Token(key_of(x + gumbel(row, position, i)), i);
    if (is_before(token, own)) { own = token; }
  }
  return best_of_all(own, thread).index;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let wanted = group_index(group, groups);
  if (wanted >= rows()) { return; }
  let logits = p.logits + wanted * p.vocabulary;
  let row = p.sample_rows + wanted * SAMPLE_ROW_WORDS;
  let out = p.out + wanted * SAMPLE_WORDS;
  if (thread < SAMPLE_ROW_WORDS) { row_words[thread] = memory[row + thread]; }
  if (thread < CANDIDATES) { best_indices[thread] = NONE.index; }
  let candidates = workgroupUniformLoad(&row_words)[9];
  let part = p.parts + (wanted * PARTS + thread) * PART_WORDS;
  let has_part = thread < PARTS;
  var own_largest = -3.4e38;
  if (has_part) { own_largest = load(part); }
  let largest = max_all(own_largest, thread);
  var own_sum = 0.0;
  var own_bad = 0.0;
  var own_best = NONE;
  if (has_part) {
    own_sum = load(part + 1u) * exact_exp(own_largest - largest);
    own_bad = load(part + 2u);
    own_best = Token(memory[part + 3u], memory[part + 4u]);
  }
  let log_sum_exp = largest + exact_log(sum_all(own_sum, thread));
  let is_bad = sum_all(own_bad, thread) > 0.0;
  // The part's next candidate, and the candidate after it, which is loaded in advance.
  var next = 1u;
  var own = candidate(part, 0u, has_part);
  var behind = candidate(part, 1u, has_part);
  for (var i = 0u; i < candidates; i++) {
    let first = best_of_all(own, thread);
    if (first.index == own.index) {
      next++;
      own = behind;
      behind = candidate(part, next, has_part);
    }
    if (thread == 0u) { best_indices[i] = first.index; }
  }
  workgroupBarrier();
  if (thread < CANDIDATES) {
    let index = best_indices[thread];
    memory[out + 4u + 2u * thread] = index;
    memory[out + 5u + 2u * thread] = 0u;
    if (index != NONE.index) { memory[out + 5u + 2u * thread] = memory[logits + index]; }
  }
  let best = best_of_all(own_best, thread);
  var token = best.index;
  if (workgroupUniformLoad(&row_words)[0] << 1u != 0u) {
    token = choose(p.t + wanted * p.vocabulary, row, position(step_row(wanted)), best, thread);
  }
  if (thread == 0u) {
    memory[out] = token;
    memory[out + 1u] = select(1u, 0u, is_bad);
    if (token < p.vocabulary) { store(out + 2u, load(logits + token) - log_sum_exp); }
    store(out + 3u, log_sum_exp);
  }
}
)";

// Logits are kept in workgroup memory. Each thread reads only the logits that it wrote itself.
constexpr const char* kLogitsKept = R"(
var<workgroup> kept: array<f32, TOKENS>;
fn keep_logit(i: u32, x: f32) { kept[i] = x; }
fn logit(logits: u32, begin: u32, i: u32) -> f32 { return kept[i - begin]; }
)";
constexpr const char* kLogitsThere = R"(
fn keep_logit(i: u32, x: f32) {}
fn logit(logits: u32, begin: u32, i: u32) -> f32 { return load(logits + i); }
)";

// A part's result, in words: the largest logit; the sum of exp(logit - largest); the number of logits that are not
// finite; key and index of the best token after adjustments; then key and index of each candidate, the best first.
constexpr const char* kSamplePart = R"(
var<workgroup> shared_candidates: u32;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let wanted = group_index(group, groups) / PARTS;
  if (wanted >= rows()) { return; }
  let number = group_index(group, groups) % PARTS;
  let logits = p.logits + wanted * p.vocabulary;
  let t = p.t + wanted * p.vocabulary;
  let begin = min(number * TOKENS, p.vocabulary);
  let end = min(begin + TOKENS, p.vocabulary);
  let part = p.parts + (wanted * PARTS + number) * PART_WORDS;
  let row = p.sample_rows + wanted * SAMPLE_ROW_WORDS;
  if (thread == 0u) { shared_candidates = memory[row + 9u]; }
  let candidates = workgroupUniformLoad(&shared_candidates);
  var own_largest = -3.4e38;
  var own_bad = 0.0;
  for (var i = begin + thread; i < end; i += THREADS) {
    let x = load(logits + i);
    if (!is_finite(x)) { own_bad += 1.0; }
    own_largest = max(own_largest, x);
    keep_logit(i - begin, x);
    store(t + i, x);
  }
  let bad = sum_all(own_bad, thread);
  let largest = max_all(own_largest, thread);
  var own_sum = 0.0;
  for (var i = begin + thread; i < end; i += THREADS) { own_sum += exact_exp(logit(logits, begin, i) - largest); }
  let sum = sum_all(own_sum, thread);

  // Each thread has its best token. After each round, the thread with the winner searches for its next best.
  var own = NONE;
  var last = Token(0xffffffffu, 0u);
  for (var i = 0u; i < candidates; i++) {
    if (i == 0u || last.index == own.index) {
      own = NONE;
      for (var k = begin + thread; k < end; k += THREADS) {
        let token = Token(key_of(logit(logits, begin, k)), k);
        if (is_before(last, token) && is_before(token, own)) { own = token; }
      }
    }
    last = best_of_all(own, thread);
    if (thread == 0u) {
      memory[part + 5u + 2u * i] = last.key;
      memory[part + 6u + 2u * i] = last.index;
    }
  }

  // The thread that handles a token applies all adjustments of that token, in their order.
  let first_adjustment = memory[row + 7u];
  for (var i = first_adjustment; i < first_adjustment + memory[row + 8u]; i++) {
    let token = memory[p.adjustments + 3u * i];
    if (token < begin || token >= end || (token - begin) % THREADS != thread) { continue; }
    let repeat = load(p.adjustments + 3u * i + 1u);
    let x = load(t + token);
    store(t + token, select(x * repeat, x / repeat, x > 0.0) + load(p.adjustments + 3u * i + 2u));
  }
  let temperature = load(row);
  let mask = memory[row + 10u];
  own = NONE;
  for (var i = begin + thread; i < end; i += THREADS) {
    if (mask != 0u) {
      let allowed = memory[p.masks + (mask - 1u) * MASK_WORDS + i / 32u];
      if (((allowed >> (i % 32u)) & 1u) == 0u) { memory[t + i] = 0xff800000u; }  // -infinity
    }
    var x = load(t + i);
    if (temperature != 0.0) {
      x = x / temperature;
      store(t + i, x);
    }
    let token = Token(key_of(x), i);
    if (is_before(token, own)) { own = token; }
  }
  let best = best_of_all(own, thread);
  if (thread == 0u) {
    store(part, largest);
    store(part + 1u, sum);
    store(part + 2u, bad);
    memory[part + 3u] = best.key;
    memory[part + 4u] = best.index;
  }
}
)";

}  // namespace

void Emitter::emit(const Sample& op) {
  static_assert(sizeof(SampleRow) == 44 && sizeof(Adjustment) == 12);
  const uint32_t vocabulary = columns(op.logits);
  const uint32_t tokens = std::max(kPartTokens, (vocabulary + kSampleThreads - 1) / kSampleThreads);
  const uint32_t parts = (vocabulary + tokens - 1) / tokens;
  constexpr uint32_t kPartWords = 5 + 2 * kCandidates;
  const uint64_t most = most_rows(type(op.logits).extent);
  const uint32_t t = scratch(most * vocabulary), part_words = scratch(most * parts * kPartWords);
  const auto kernel_of = [&](const char* name, const char* body) {
    Kernel kernel{.name = name, .body = body, .extent = type(op.logits).extent, .threads = kSampleThreads};
    kernel.constants = {{"CANDIDATES", kCandidates},
                        {"SAMPLE_ROW_WORDS", static_cast<uint32_t>(sizeof(SampleRow) / 4)},
                        {"PARTS", parts},
                        {"PART_WORDS", kPartWords}};
    kernel.params = {{"vocabulary", vocabulary},
                     {"logits", at(op.logits)},
                     {"t", t},
                     {"parts", part_words},
                     {"sample_rows", layout_.step().sample_rows}};
    kernel.bindings = {memory()};
    kernel.snippets = {kMath, kSortKeys};
    use_reduce(kernel, adapter_);
    use_best(kernel, adapter_);
    return kernel;
  };
  Kernel part = kernel_of("sample_part", kSamplePart);
  part.constants.push_back({"TOKENS", tokens});
  part.snippets.emplace_back(tokens <= kMostKeptTokens ? kLogitsKept : kLogitsThere);
  part.constants.push_back({"MASK_WORDS", mask_words(vocabulary)});
  part.params.push_back({"adjustments", layout_.step().adjustments});
  part.params.push_back({"masks", layout_.step().masks});
  part.grid = {.times = parts};
  add(part);

  Kernel kernel = kernel_of("sample", kSample);
  kernel.constants.push_back({"SAMPLE_WORDS", kSampleWords});
  kernel.params.push_back({"out", at(op.out)});
  kernel.snippets.emplace_back(kGumbel);
  use_step_rows(kernel);
  add(kernel);
}

}  // namespace sluice::webgpu
