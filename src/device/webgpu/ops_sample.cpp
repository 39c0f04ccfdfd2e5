// sample: a workgroup a wanted row. Its threads go over the vocabulary together, as often as needed; what depends on an
// order among tokens is found by halving the range of keys that sort as logits do (top_k, top_p), so that nothing is
// sorted. Sums run in one order: a thread's tokens ascending, then the threads as a tree.
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kSampleThreads = 256;

// A token and its key; the larger key goes first, of equal ones the lower index.
constexpr const char* kToken = R"(
struct Token { key: u32, index: u32 }
const NONE = Token(0u, 0xffffffffu);
const ALL = Token(0u, 0xffffffffu);
var<workgroup> tokens: array<Token, THREADS>;
fn is_before(a: Token, b: Token) -> bool { return a.key > b.key || (a.key == b.key && a.index < b.index); }
fn best_of_all(own: Token, thread: u32) -> Token {
  workgroupBarrier();
  tokens[thread] = own;
  for (var step = THREADS / 2u; step > 0u; step = step / 2u) {
    workgroupBarrier();
    if (thread < step && is_before(tokens[thread + step], tokens[thread])) { tokens[thread] = tokens[thread + step]; }
  }
  workgroupBarrier();
  return tokens[0];
}
)";

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
// -log(1 - v) of v = (bits + 1/2) / 2^32: of small v by the series of 2 atanh(v / (2 - v)).
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

// `t`: a row's logits, adjusted and divided by the temperature. Each loop stands here once: drivers inline all, and
// some take seconds for it.
constexpr const char* kSample = R"(
var<workgroup> row_words: array<u32, SAMPLE_ROW_WORDS>;

// Of the tokens up to and with `cut`, in their order: how many, or what their probabilities add up to, that of the best
// being 1.
fn amount(t: u32, cut: Token, by_mass: bool, largest: f32, thread: u32) -> f32 {
  var own = 0.0;
  for (var i = thread; i < p.vocabulary; i += THREADS) {
    let x = load(t + i);
    if (is_before(cut, Token(key_of(x), i))) { continue; }
    if (by_mass) { own += exact_exp(x - largest); } else { own += 1.0; }
  }
  return sum_all(own, thread);
}

// The first token, in their order, up to which there is `want`, or all there is: the largest key with which there is as
// much, then the lowest index of that key.
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

// What top_k and then top_p leave.
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

// Two rounds: the best token, then the best by chance of those that are left.
fn choose(t: u32, row: u32, position: u32, thread: u32) -> u32 {
  let words = workgroupUniformLoad(&row_words);
  let min_p = bitcast<f32>(words[3]);
  var best = NONE;
  var largest = 0.0;
  var cut = ALL;
  for (var pass_number = 0u; pass_number < 2u; pass_number++) {
    var own = NONE;
    for (var i = thread; i < p.vocabulary; i += THREADS) {
      var x = load(t + i);
      if (pass_number == 1u) {
        if (is_before(cut, Token(key_of(x), i))) { continue; }
        if (i != best.index && exact_exp(x - largest) < min_p) { continue; }
        x += gumbel(row, position, i);
      }
      let token = Token(key_of(x), i);
      if (is_before(token, own)) { own = token; }
    }
    best = best_of_all(own, thread);
    if (pass_number == 1u || bitcast<f32>(words[0]) == 0.0) { break; }
    largest = load(t + best.index);
    cut = find_cut(t, largest, thread);
  }
  return best.index;
}

// As many of the logits as can be: the threads' best, of which the winner's thread then looks for its next.
fn write_candidates(logits: u32, out: u32, thread: u32) {
  var own = NONE;
  var last = Token(0xffffffffu, 0u);
  for (var i = 0u; i < CANDIDATES; i++) {
    if (i == 0u || last.index == own.index) {
      own = NONE;
      for (var k = thread; k < p.vocabulary; k += THREADS) {
        let token = Token(key_of(load(logits + k)), k);
        if (is_before(last, token) && is_before(token, own)) { own = token; }
      }
    }
    last = best_of_all(own, thread);
    if (thread == 0u) {
      memory[out + 4u + 2u * i] = last.index;
      memory[out + 5u + 2u * i] = 0u;
      if (last.index != NONE.index) { memory[out + 5u + 2u * i] = memory[logits + last.index]; }
    }
  }
}

fn adjust(t: u32, first: u32, count: u32) {
  for (var i = first; i < first + count; i++) {
    let at = t + memory[p.adjustments + 3u * i];
    let repeat = load(p.adjustments + 3u * i + 1u);
    let x = load(at);
    store(at, select(x * repeat, x / repeat, x > 0.0) + load(p.adjustments + 3u * i + 2u));
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let wanted = group_index(group, groups);
  if (wanted >= rows()) { return; }
  let logits = p.logits + wanted * p.vocabulary;
  let t = p.t + wanted * p.vocabulary;
  let row = p.sample_rows + wanted * SAMPLE_ROW_WORDS;
  let out = p.out + wanted * SAMPLE_WORDS;
  if (thread < SAMPLE_ROW_WORDS) { row_words[thread] = memory[row + thread]; }
  var largest = -3.4e38;
  var bad = 0u;
  for (var i = thread; i < p.vocabulary; i += THREADS) {
    let x = load(logits + i);
    if (!is_finite(x)) { bad++; }
    largest = max(largest, x);
    store(t + i, x);
  }
  let is_bad = sum_all(f32(bad), thread) > 0.0;
  largest = max_all(largest, thread);
  var sum = 0.0;
  for (var i = thread; i < p.vocabulary; i += THREADS) { sum += exact_exp(load(logits + i) - largest); }
  let log_sum_exp = largest + exact_log(sum_all(sum, thread));
  write_candidates(logits, out, thread);
  storageBarrier();
  if (thread == 0u) { adjust(t, row_words[7], row_words[8]); }
  storageBarrier();
  let temperature = bitcast<f32>(row_words[0]);
  if (temperature != 0.0) {
    for (var i = thread; i < p.vocabulary; i += THREADS) { store(t + i, load(t + i) / temperature); }
  }
  storageBarrier();
  let token = choose(t, row, position(step_row(wanted)), thread);
  if (thread == 0u) {
    memory[out] = token;
    memory[out + 1u] = select(1u, 0u, is_bad);
    if (token < p.vocabulary) { store(out + 2u, load(logits + token) - log_sum_exp); }
    store(out + 3u, log_sum_exp);
  }
}
)";

}  // namespace

void Emitter::emit(const Sample& op) {
  const uint32_t vocabulary = columns(op.logits);
  Kernel kernel{.name = "sample", .body = kSample, .extent = type(op.logits).extent, .threads = kSampleThreads};
  kernel.constants = {{"CANDIDATES", kCandidates},
                      {"SAMPLE_WORDS", kSampleWords},
                      {"SAMPLE_ROW_WORDS", static_cast<uint32_t>(sizeof(SampleRow) / 4)}};
  static_assert(sizeof(SampleRow) == 36 && sizeof(Adjustment) == 12);
  kernel.params = {{"vocabulary", vocabulary},
                   {"logits", at(op.logits)},
                   {"out", at(op.out)},
                   {"t", scratch(most_rows(type(op.logits).extent) * vocabulary)},
                   {"sample_rows", layout_.step().sample_rows},
                   {"adjustments", layout_.step().adjustments}};
  kernel.bindings = {memory()};
  kernel.snippets = {kMath, kReduce, kSortKeys, kToken, kGumbel};
  use_step_rows(kernel);
  add(kernel);
}

}  // namespace sluice::webgpu
