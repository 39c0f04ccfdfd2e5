// append and attention over a cache in pages of 64 positions (layout.h). A tile is one page, and tiles are merged in
// ascending order, whatever step or chunk a row is in. Prompts, and rows that see another last position than their own,
// are in ops_attention_tiles.cpp; the step's own rows as keys are in ops_attention_own.cpp.
//
// Decode steps: a history is cut into at most 64 parts of whole tiles; a part's length depends on the history alone.
// One workgroup computes one head of one part, with teams of threads for the scores of four positions and for four
// words of the values. Another kernel merges the parts in ascending order.
//
// Over latents, or if workgroup memory is short: one workgroup computes one head, with a thread for each position of
// the tile, then a thread for each word of the values. Over latents, queries are multiplied by the heads' key matrices
// before, and the summed latents by the value matrices afterwards.
#include <algorithm>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr uint32_t kPartThreads = 256;
constexpr uint32_t kMergeThreads = 256;
constexpr uint32_t kMostParts = 64;  // the merging kernel has a thread for each
constexpr uint32_t kRowsInParts = 16;

// Elements of a cache, one or two a word: Pack packs and unpacks, times() multiplies and adds.
constexpr const char* kCacheF32 = R"(
alias Pack = f32;
fn unpack(word: u32) -> Pack { return bitcast<f32>(word); }
fn pack(x: Pack) -> u32 { return bitcast<u32>(x); }
fn pack_at(at: u32, width: u32, i: u32) -> Pack { return load(at + i); }
fn store_pack(at: u32, width: u32, i: u32, x: Pack) { store(at + i, x); }
fn times(a: Pack, b: Pack) -> f32 { return a * b; }
)";
constexpr const char* kCachePairs = R"(
alias Pack = vec2f;
fn pack_at(at: u32, width: u32, i: u32) -> Pack {
  if (2u * i + 1u < width) { return vec2f(load(at + 2u * i), load(at + 2u * i + 1u)); }
  return vec2f(load(at + 2u * i), 0.0);
}
fn store_pack(at: u32, width: u32, i: u32, x: Pack) {
  store(at + 2u * i, x.x);
  if (2u * i + 1u < width) { store(at + 2u * i + 1u, x.y); }
}
fn times(a: Pack, b: Pack) -> f32 { return dot(a, b); }
)";
constexpr const char* kCacheF16 = R"(
fn unpack(word: u32) -> Pack { return unpack2x16float(word); }
fn pack(x: Pack) -> u32 { return pack2x16float(x); }
)";
// Rounded to nearest, ties to even; a NaN keeps its high bits and stays one.
constexpr const char* kCacheBf16 = R"(
fn unpack(word: u32) -> Pack { return bitcast<vec2f>(vec2u(word << 16u, word & 0xffff0000u)); }
fn bf16(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return select((bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u, (bits >> 16u) | 0x40u, is_nan);
}
fn pack(x: Pack) -> u32 { return bf16(x.x) | (bf16(x.y) << 16u); }
)";

std::vector<std::string> cache_snippets(Format format) {
  if (format == Format::f32) return {kCacheF32};
  return {kCachePairs, format == Format::f16 ? kCacheF16 : kCacheBf16};
}

// One thread for each word of the row's keys, then of its values.
constexpr const char* kAppend = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  const kRowWords = HEADS * (KEY_WORDS + VALUE_WORDS);
  if (i >= rows() * kRowWords) { return; }
  let row = i / kRowWords;
  let at = position(step_row(row));
  let page = page_of(sequence(step_row(row)), at / 64u) * PAGE_WORDS;
  let word = i % kRowWords;
  if (word < HEADS * KEY_WORDS) {
    let head = word / KEY_WORDS;
    let x = pack_at(p.k + (row * HEADS + head) * KEY_WIDTH, KEY_WIDTH, word % KEY_WORDS);
    cache[page + word * 64u + at % 64u] = pack(x);
  } else {
    let value_word = word - HEADS * KEY_WORDS;
    let head = value_word / VALUE_WORDS;
    let x = pack_at(p.v + (row * HEADS + head) * VALUE_WIDTH, VALUE_WIDTH, value_word % VALUE_WORDS);
    cache[page + VALUES_AT + (head * 64u + at % 64u) * VALUE_WORDS + value_word % VALUE_WORDS] = pack(x);
  }
}
)";

constexpr const char* kAttention = R"(
const LOWEST = -3.0e38;
var<workgroup> query: array<Pack, KEY_WORDS>;
var<workgroup> latent_query: array<Pack, LATENT_WORDS>;
var<workgroup> shares: array<f32, 64>;
var<workgroup> seen: vec3u;

fn score_of(key: u32, value: u32) -> f32 {
  var score = 0.0;
  for (var i = 0u; i < KEY_WORDS; i++) { score += times(query[i], unpack(cache[key + i * 64u])); }
  if (IS_LATENT == 1u) {
    for (var i = 0u; i < VALUE_WORDS; i++) { score += times(latent_query[i], unpack(cache[value + i])); }
  }
  score *= p.scale;
  if (p.softcap > 0.0) { score = p.softcap * exact_tanh(score / p.softcap); }
  return score;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  if (i >= rows() * HEADS) { return; }
  let row = i / HEADS;
  let cache_head = i % HEADS / (HEADS / CACHE_HEADS);
  let query_at = p.q + i * QUERY_WIDTH + (QUERY_WIDTH - KEY_WIDTH);
  for (var word = thread; word < KEY_WORDS; word += 64u) { query[word] = pack_at(query_at, KEY_WIDTH, word); }
  if (IS_LATENT == 1u) {
    for (var word = thread; word < LATENT_WORDS; word += 64u) {
      latent_query[word] = pack_at(p.latent + i * VALUE_WIDTH, VALUE_WIDTH, word);
    }
  }
  if (thread == 0u) { seen = vec3u(first_seen(row), last_seen(row), sequence(step_row(row))); }
  let range = workgroupUniformLoad(&seen);
  var largest = LOWEST;
  var sum = 0.0;
  var out: array<Pack, THREAD_WORDS>;
  for (var tile = range.x / 64u; tile <= range.y / 64u; tile++) {
    let page = page_of(range.z, tile) * PAGE_WORDS;
    let keys = page + cache_head * KEY_WORDS * 64u;
    let values = page + VALUES_AT + cache_head * 64u * VALUE_WORDS;
    let at = tile * 64u + thread;
    let is_seen = at >= range.x && at <= range.y;
    var score = LOWEST;
    if (is_seen) { score = score_of(keys + thread, values + thread * VALUE_WORDS); }
    let new_largest = max(largest, max_all(score, thread));
    var share = 0.0;
    if (is_seen) { share = exact_exp(score - new_largest); }
    shares[thread] = share;
    let factor = exact_exp(largest - new_largest);
    sum = sum * factor + sum_all(share, thread);
    largest = new_largest;
    let begin = max(range.x, tile * 64u) - tile * 64u;
    let end = min(range.y - tile * 64u, 63u);
    for (var k = 0u; k < THREAD_WORDS; k++) {
      let word = thread + k * 64u;
      if (word >= VALUE_WORDS) { break; }
      var x = out[k] * factor;
      for (var j = begin; j <= end; j++) { x += shares[j] * unpack(cache[values + j * VALUE_WORDS + word]); }
      out[k] = x;
    }
  }
  for (var k = 0u; k < THREAD_WORDS; k++) {
    let word = thread + k * 64u;
    if (word < VALUE_WORDS) { store_pack(p.out + i * VALUE_WIDTH, VALUE_WIDTH, word, out[k] / sum); }
  }
}
)";

// The positions that a row sees (first to last), its sequence, and the part's tiles (begin to end; there are none if
// begin is beyond end).
constexpr const char* kParts = R"(
struct Part { first: u32, last: u32, sequence: u32, begin: u32, end: u32 }
var<workgroup> shared_part: Part;
fn tiles_of_part(first: u32, last: u32) -> u32 { return (last / 64u - first / 64u + MOST_PARTS) / MOST_PARTS; }
fn first_seen(at: u32) -> u32 { return select(at + 1u - p.window, 0u, p.window == 0u || at < p.window); }
)";
// Words of the cache are read four at once: four positions of a key's element, or four neighbouring words of a value.
// All loads of a tile are issued before the first result is used.
constexpr const char* kAttentionPart = R"(
const LOWEST = -3.0e38;
const SCORE_LANES = 16u;
const SCORE_TEAMS = THREADS / SCORE_LANES;
const KEY_EACH = (KEY_WORDS + SCORE_TEAMS - 1u) / SCORE_TEAMS;
const VALUE_TEAMS = THREADS / VALUE_LANES;
const VALUE_EACH = 64u / VALUE_TEAMS;
var<workgroup> query: array<Pack, KEY_WORDS>;
var<workgroup> shares: array<f32, 64>;
var<workgroup> team_scores: array<vec4f, THREADS>;
var<workgroup> team_values: array<Pack, THREADS * 4u>;

fn value_four(at: u32) -> vec4u {
  if (VALUE_WORDS % 4u == 0u) { return cache[at / 4u]; }
  return vec4u(cache[at / 4u][at % 4u], cache[(at + 1u) / 4u][(at + 1u) % 4u], cache[(at + 2u) / 4u][(at + 2u) % 4u],
               cache[(at + 3u) / 4u][(at + 3u) % 4u]);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let own_rows = min(rows() - p.first_row, MOST_ROWS);
  let part = i / (own_rows * HEADS);
  if (part >= MOST_PARTS) { return; }
  let head = i % HEADS;
  let own_row = i / HEADS % own_rows;
  let row = p.first_row + own_row;
  if (thread == 0u) {
    let last = last_seen(row);
    let first = first_seen(position(step_row(row)));
    let begin = first / 64u + part * tiles_of_part(first, last);
    shared_part = Part(first, last, sequence(step_row(row)), begin,
                       min(begin + tiles_of_part(first, last) - 1u, last / 64u));
  }
  let seen = workgroupUniformLoad(&shared_part);
  if (seen.begin > seen.end) { return; }
  let cache_head = head / (HEADS / CACHE_HEADS);
  var largest = LOWEST;
  var sum = 0.0;
  var out: array<array<Pack, 4>, THREAD_FOURS>;
  let score_lane = thread % SCORE_LANES;
  let score_team = thread / SCORE_LANES;
  let value_lane = thread % VALUE_LANES;
  let value_team = thread / VALUE_LANES;
  for (var tile = seen.begin; tile <= seen.end; tile++) {
    let page = page_of(seen.sequence, tile) * PAGE_WORDS;
    let keys = (page + cache_head * KEY_WORDS * 64u) / 4u + score_lane;
    let values = page + VALUES_AT + cache_head * 64u * VALUE_WORDS;
    var key_words: array<vec4u, KEY_EACH>;
    for (var n = 0u; n < KEY_EACH; n++) {
      key_words[n] = cache[keys + min(score_team + n * SCORE_TEAMS, KEY_WORDS - 1u) * 16u];
    }
    var value_words: array<vec4u, VALUE_EACH * THREAD_FOURS>;
    for (var k = 0u; k < THREAD_FOURS; k++) {
      let word = min((value_lane + k * VALUE_LANES) * 4u, VALUE_WORDS - 1u);
      for (var n = 0u; n < VALUE_EACH; n++) {
        value_words[k * VALUE_EACH + n] = value_four(values + (n * VALUE_TEAMS + value_team) * VALUE_WORDS + word);
      }
    }
    if (tile == seen.begin) { load_query(row, head, thread); }
    workgroupBarrier();
    var scores = vec4f();
    for (var n = 0u; n < KEY_EACH; n++) {
      let word = score_team + n * SCORE_TEAMS;
      if (KEY_WORDS % SCORE_TEAMS == 0u || word < KEY_WORDS) {
        let q = query[word];
        let k = key_words[n];
        scores += vec4f(times(q, unpack(k.x)), times(q, unpack(k.y)), times(q, unpack(k.z)), times(q, unpack(k.w)));
      }
    }
    team_scores[thread] = scores;
    workgroupBarrier();
    let at = tile * 64u + thread;
    let is_seen = thread < 64u && at >= seen.first && at <= seen.last;
    var score = LOWEST;
    if (is_seen) {
      score = 0.0;
      for (var team = 0u; team < SCORE_TEAMS; team++) { score += team_scores[team * SCORE_LANES + thread / 4u][thread % 4u]; }
      score *= p.scale;
      if (HAS_SOFTCAP == 1u) { score = p.softcap * exact_tanh(score / p.softcap); }
    }
    let new_largest = max(largest, max_all(score, thread));
    var share = 0.0;
    if (is_seen) { share = exact_exp(score - new_largest); }
    if (thread < 64u) { shares[thread] = share; }
    let factor = exact_exp(largest - new_largest);
    sum = sum * factor + sum_all(share, thread);
    largest = new_largest;
    for (var k = 0u; k < THREAD_FOURS; k++) {
      for (var j = 0u; j < 4u; j++) { out[k][j] *= factor; }
      for (var n = 0u; n < VALUE_EACH; n++) {
        let j = n * VALUE_TEAMS + value_team;
        let j_at = tile * 64u + j;
        // Memory behind the last position may hold anything, also NaN.
        if (j_at >= seen.first && j_at <= seen.last) {
          let share_of_j = shares[j];
          let v = value_words[k * VALUE_EACH + n];
          out[k][0] += share_of_j * unpack(v.x);
          out[k][1] += share_of_j * unpack(v.y);
          out[k][2] += share_of_j * unpack(v.z);
          out[k][3] += share_of_j * unpack(v.w);
        }
      }
    }
  }
  let to = p.parts + ((own_row * HEADS + head) * MOST_PARTS + part) * PART_WORDS;
  for (var k = 0u; k < THREAD_FOURS; k++) {
    workgroupBarrier();
    for (var j = 0u; j < 4u; j++) { team_values[j * THREADS + thread] = out[k][j]; }
    workgroupBarrier();
    for (var i = thread; i < VALUE_LANES * 4u; i += THREADS) {
      let lane = i / 4u;
      let word = (lane + k * VALUE_LANES) * 4u + i % 4u;
      if (word < VALUE_WORDS) {
        let begin = i % 4u * THREADS + lane;
        var x = team_values[begin];
        for (var team = 1u; team < VALUE_TEAMS; team++) { x += team_values[begin + team * VALUE_LANES]; }
        store_pack(to + 2u, VALUE_WIDTH, word, x);
      }
    }
  }
  if (thread == 0u) {
    store(to, largest);
    store(to + 1u, sum);
  }
}
)";

constexpr const char* kQueryOfMemory = R"(
fn load_query(row: u32, head: u32, thread: u32) {
  let at = p.q + (row * HEADS + head) * QUERY_WIDTH + (QUERY_WIDTH - KEY_WIDTH);
  for (var word = thread; word < KEY_WORDS; word += THREADS) { query[word] = pack_at(at, KEY_WIDTH, word); }
}
)";
constexpr const char* kQueryOfChain = R"(
fn load_query(row: u32, head: u32, thread: u32) { chain_0(row, head, thread); }
)";

// One workgroup for each head of a row.
constexpr const char* kMerge = R"(
var<workgroup> factors: array<f32, MOST_PARTS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let own_rows = min(rows() - p.first_row, MOST_ROWS);
  if (i >= own_rows * HEADS) { return; }
  if (thread == 0u) {
    let last = last_seen(p.first_row + i / HEADS);
    let first = first_seen(position(step_row(p.first_row + i / HEADS)));
    let tiles = last / 64u - first / 64u + 1u;
    let each = tiles_of_part(first, last);
    shared_part = Part(first, last, 0u, 0u, (tiles + each - 1u) / each);
  }
  let count = workgroupUniformLoad(&shared_part).end;
  let begin = p.parts + i * MOST_PARTS * PART_WORDS;
  var own = -3.0e38;
  var own_sum = 0.0;
  if (thread < count) {
    own = load(begin + thread * PART_WORDS);
    own_sum = load(begin + thread * PART_WORDS + 1u);
  }
  let largest = max_all(own, thread);
  let factor = exact_exp(own - largest);
  if (thread < count) { factors[thread] = factor; }
  let sum = sum_all(factor * own_sum, thread);
  for (var at = thread; at < VALUE_WIDTH; at += THREADS) {
    var x = 0.0;
    for (var part = 0u; part < count; part += 8u) {
      var values: array<f32, 8>;
      for (var k = 0u; k < 8u; k++) { values[k] = load(begin + min(part + k, count - 1u) * PART_WORDS + 2u + at); }
      for (var k = 0u; k < 8u; k++) {
        if (part + k < count) { x = fma(factors[part + k], values[k], x); }
      }
    }
    store(p.out + (p.first_row * HEADS + i) * VALUE_WIDTH + at, x / sum);
  }
}
)";

// out[row][head] = W[head] x[row][head] for heads FIRST_HEAD to FIRST_HEAD + HEADS - 1, with one thread for each
// element.
constexpr const char* kHeadProduct = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  if (i >= rows() * HEADS * OUTPUTS) { return; }
  let output = i % OUTPUTS;
  let head = i / OUTPUTS % HEADS;
  let row = i / OUTPUTS / HEADS;
  let x = p.x + row * p.x_row + (p.first_head + head) * p.x_head;
  let sum = product(head, output, x);
  store(p.out + row * p.out_row + (p.first_head + head) * p.out_head + output, ${sum});
}
)";

// ${name}(matrix, output, x): a row of the matrix, or a column of it, times INPUTS numbers.
constexpr const char* kPlainProduct = R"(
fn ${name}(matrix: u32, output: u32, x: u32) -> f32 {
  var sum = 0.0;
  for (var part = 0u; part * 16u < ${inputs}; part++) {
    let weights = ${w}_16(matrix * ${outputs} + output, part);
    for (var i = 0u; i < 16u && part * 16u + i < ${inputs}; i++) { sum += weights[i / 4u][i % 4u] * load(x + part * 16u + i); }
  }
  return sum;
}
)";
constexpr const char* kTransposedProduct = R"(
fn ${name}(matrix: u32, output: u32, x: u32) -> f32 {
  var sum = 0.0;
  for (var i = 0u; i < ${inputs}; i++) {
    sum += ${w}_16(matrix * ${inputs} + i, output / 16u)[output / 4u % 4u][output % 4u] * load(x + i);
  }
  return sum;
}
)";

// The adapter of a row: the matrix of both factors for a head, or NO_MATRIX.
constexpr const char* kHeadMatrix = R"(
const NO_MATRIX = 0xffffffffu;
fn adapter_scale(row: u32) -> f32 { return load(p.adapter_scales + step_row(row)); }
fn head_matrix(row: u32, head: u32) -> u32 {
  let slot = word(p.adapter_slots + step_row(row)) - 1u;
  return select(slot * ALL_HEADS + head, NO_MATRIX, slot == NO_MATRIX || adapter_scale(row) == 0.0);
}
)";
constexpr const char* kHeadInner = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  if (i >= rows() * ALL_HEADS * RANK) { return; }
  let row = i / RANK / ALL_HEADS;
  let head = i / RANK % ALL_HEADS;
  let matrix = head_matrix(row, head);
  if (matrix != NO_MATRIX) { store(p.inner + i, inner_product(matrix, i % RANK, p.x + row * p.x_row + head * p.x_head)); }
}
)";
constexpr const char* kHeadAdapted = R"(
fn adapted(row: u32, head: u32, output: u32, sum: f32) -> f32 {
  let matrix = head_matrix(row, head);
  if (matrix == NO_MATRIX) { return sum; }
  return fma(adapter_scale(row), outer_product(matrix, output, p.inner + (row * ALL_HEADS + head) * RANK), sum);
}
)";

std::string head_product_text(bool transposed, const char* name, const char* w, const char* inputs,
                              const char* outputs) {
  if (transposed) return fill(kTransposedProduct, {{"name", name}, {"w", w}, {"inputs", inputs}});
  return fill(kPlainProduct, {{"name", name}, {"w", w}, {"inputs", inputs}, {"outputs", outputs}});
}

constexpr const char* kCopyShared = R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  if (i >= rows() * HEADS * SHARED) { return; }
  let row = i / SHARED / HEADS;
  store(p.key + (i / SHARED) * KEY_WIDTH + (KEY_WIDTH - SHARED) + i % SHARED, load(p.tail + row * SHARED + i % SHARED));
}
)";

}  // namespace

void Emitter::use_cache(Kernel& kernel, uint32_t state_id, Access access, const char* element) const {
  const StateDecl& decl = program_.states[state_id];
  const StateLayout& state_layout = layout_.state(state_id);
  kernel.constants.insert(kernel.constants.end(), {{"KEY_WIDTH", decl.key_width},
                                                   {"VALUE_WIDTH", decl.value_width},
                                                   {"KEY_WORDS", state_layout.key_words},
                                                   {"VALUE_WORDS", state_layout.value_words},
                                                   {"VALUES_AT", static_cast<uint32_t>(state_layout.values)},
                                                   {"PAGE_WORDS", static_cast<uint32_t>(state_layout.page_words)}});
  kernel.bindings = {memory(), state("cache", state_id, access, element)};
  for (std::string& snippet : cache_snippets(layout_.cache())) kernel.snippets.push_back(std::move(snippet));
  use_step_rows(kernel);
  use_pages(kernel, decl.group);
}

void Emitter::emit(const Append& op) {
  const StateDecl& decl = program_.states[op.state.state];
  const StateLayout& state_layout = layout_.state(op.state.state);
  Kernel kernel{.name = "append", .body = kAppend, .extent = type(op.k).extent};
  kernel.constants = {{"HEADS", decl.heads}};
  kernel.params = {{"k", at(op.k)}, {"v", at(op.v)}};
  use_cache(kernel, op.state.state, Access::read_write);
  kernel.grid = {.items = uint64_t{decl.heads} * (state_layout.key_words + state_layout.value_words), .per = kThreads};
  add(kernel);
}

void Emitter::emit(const Attention& op) {
  if (op.has_own_rows()) return emit_attention_own(op);
  const uint32_t index = op.state.state;
  const StateDecl& decl = program_.states[index];
  const uint32_t heads = type(op.q).heads, words = layout_.state(index).value_words;
  const bool latent = static_cast<bool>(op.expand);
  const uint64_t latent_words = latent ? most_rows(type(op.q).extent) * heads * decl.value_width : 0;
  const uint32_t folded = latent ? scratch(latent_words) : 0, summed = latent ? scratch(latent_words) : at(op.out);
  const uint32_t nope = type(op.q).width - decl.key_width;
  if (latent)
    emit_head_product({.weight = op.expand.key,
                       .transposed = !op.expand.key_transposed,
                       .extent = type(op.q).extent,
                       .x = at(op.q),
                       .x_row = columns(op.q),
                       .x_head = type(op.q).width,
                       .out = folded,
                       .out_row = heads * decl.value_width,
                       .out_head = decl.value_width,
                       .inputs = nope,
                       .outputs = decl.value_width,
                       .adapter = op.expand.key_adapter});

  if (class_ == TokenClass::decode && !latent && op.begins_by_window()) return emit_attention_in_parts(op);
  if (!latent && emit_attention_tiles(op)) return;
  Kernel kernel{.name = "attention", .body = kAttention, .extent = type(op.q).extent};
  kernel.constants = {{"HEADS", heads},
                      {"CACHE_HEADS", decl.heads},
                      {"QUERY_WIDTH", type(op.q).width},
                      {"IS_LATENT", latent ? 1u : 0u},
                      {"LATENT_WORDS", latent ? words : 1u},
                      {"THREAD_WORDS", (words + kThreads - 1) / kThreads}};
  kernel.params = {{"q", at(op.q)}, {"latent", folded}, {"out", summed}, {"scale", op.scale}, {"softcap", op.softcap}};
  kernel.snippets = {kMath};
  use_reduce(kernel, adapter_);
  use_cache(kernel, index, Access::read);
  use_seen(kernel, op);
  kernel.grid = {.items = heads};
  add(kernel);

  if (latent)
    emit_head_product({.weight = op.expand.value,
                       .transposed = false,
                       .extent = type(op.q).extent,
                       .x = summed,
                       .x_row = heads * decl.value_width,
                       .x_head = decl.value_width,
                       .out = at(op.out),
                       .out_row = columns(op.out),
                       .out_head = type(op.out).width,
                       .inputs = decl.value_width,
                       .outputs = type(op.out).width,
                       .adapter = op.expand.value_adapter});
}

// Rows go by kRowsInParts, so that the parts of no more of them are kept at once.
void Emitter::emit_attention_in_parts(const Attention& op, const std::optional<HeadRun>& queries) {
  const StateDecl& decl = program_.states[op.state.state];
  const StateLayout& cache = layout_.state(op.state.state);
  const uint32_t heads = type(op.q).heads;
  const uint32_t most_parts = std::min(kMostParts, request_.maxima.pages_per_sequence[decl.group]);
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(most_rows(type(op.q).extent), kRowsInParts));
  const uint32_t part_words = (decl.value_width + 3) / 2 * 2;
  const uint32_t parts = scratch(uint64_t{most} * heads * most_parts * part_words);
  const uint32_t value_fours = (cache.value_words + 3) / 4;
  uint32_t value_lanes = kPartThreads;
  while (value_lanes / 2 >= std::max(value_fours, kPartThreads / 64)) value_lanes /= 2;
  const auto kernel_of = [&](const char* name, uint32_t threads, uint32_t first_row) {
    Kernel kernel{.name = name, .extent = type(op.q).extent, .threads = threads};
    kernel.constants = {{"HEADS", heads}, {"MOST_PARTS", most_parts}, {"MOST_ROWS", most}, {"PART_WORDS", part_words}};
    kernel.params = {{"parts", parts}, {"first_row", first_row}, {"window", op.window}};
    kernel.snippets = {kMath, kParts};
    use_last_seen(kernel, op);
    use_reduce(kernel, adapter_);
    kernel.grid = {.items = heads, .first_row = first_row, .most_rows = most};
    return kernel;
  };
  for (uint32_t first_row = 0; first_row < most_rows(type(op.q).extent); first_row += most) {
    Kernel part = kernel_of("attention_part", kPartThreads, first_row);
    part.body = cat(kAttentionPart, queries ? kQueryOfChain : kQueryOfMemory);
    part.constants.insert(part.constants.end(), {{"CACHE_HEADS", decl.heads},
                                                 {"QUERY_WIDTH", type(op.q).width},
                                                 {"VALUE_LANES", value_lanes},
                                                 {"THREAD_FOURS", (value_fours + value_lanes - 1) / value_lanes},
                                                 {"HAS_SOFTCAP", op.softcap > 0 ? 1u : 0u}});
    part.params.insert(part.params.end(), {{"q", at(op.q)}, {"scale", op.scale}, {"softcap", op.softcap}});
    use_cache(part, op.state.state, Access::read, kFours);
    if (queries) {
      use_heads(part, decl.key_width);
      part.body += chain_text(part, queries->chains.front(), 0, ChainEnd::query);
    }
    part.grid.most_parts = most_parts;
    part.grid.window = op.window;
    add(part);

    Kernel merge = kernel_of("attention_merge", kMergeThreads, first_row);
    merge.body = kMerge;
    merge.constants.push_back({"VALUE_WIDTH", decl.value_width});
    merge.params.push_back({"out", at(op.out)});
    merge.bindings = {memory()};
    use_step_rows(merge);
    add(merge);
  }
}

void Emitter::use_head_adapter(Kernel& kernel, const HeadProduct& product) const {
  kernel.constants.insert(kernel.constants.end(), {{"ALL_HEADS", program_.weights[product.weight].shape.experts},
                                                   {"RANK", program_.weights[product.adapter.a].shape.rows}});
  kernel.params.insert(kernel.params.end(),
                       {{"adapter_slots", at(product.adapter.slots)}, {"adapter_scales", at(product.adapter.scales)}});
  use_step_rows(kernel);
  kernel.snippets.emplace_back(kHeadMatrix);
}

uint32_t Emitter::emit_head_inner(const HeadProduct& product) {
  const uint32_t heads = program_.weights[product.weight].shape.experts;
  const uint32_t rank = program_.weights[product.adapter.a].shape.rows;
  const uint32_t inner = scratch(most_rows(product.extent) * heads * rank);
  const WeightId id = product.transposed ? product.adapter.b : product.adapter.a;
  Kernel kernel{.name = "head_adapter_inner", .body = kHeadInner, .extent = product.extent};
  kernel.constants = {{"INPUTS", product.inputs}};
  kernel.params = {{"x", product.x}, {"x_row", product.x_row}, {"x_head", product.x_head}, {"inner", inner}};
  kernel.bindings = {memory(), weight("w", id, 0)};
  kernel.snippets = {decoder(id, "w"), head_product_text(product.transposed, "inner_product", "w", "INPUTS", "RANK")};
  use_head_adapter(kernel, product);
  kernel.grid = {.items = uint64_t{heads} * rank, .per = kThreads};
  add(kernel);
  return inner;
}

void Emitter::emit_head_product(const HeadProduct& product) {
  const WeightShape& shape = program_.weights[product.weight].shape;
  const uint32_t inner = product.adapter ? emit_head_inner(product) : 0;
  const WeightId second = product.transposed ? product.adapter.a : product.adapter.b;
  const std::vector<WeightTile>& tiles = layout_.matrix(product.weight).tiles;
  for (uint32_t tile = 0; tile < tiles.size(); ++tile) {
    const auto heads = static_cast<uint32_t>(tiles[tile].rows / shape.rows);
    Kernel kernel{.name = "head_product", .extent = product.extent};
    kernel.body =
        fill(kHeadProduct, {{"sum", product.adapter ? "adapted(row, p.first_head + head, output, sum)" : "sum"}});
    kernel.constants = {{"HEADS", heads}, {"INPUTS", product.inputs}, {"OUTPUTS", product.outputs}};
    kernel.params = {{"x", product.x},
                     {"x_row", product.x_row},
                     {"x_head", product.x_head},
                     {"out", product.out},
                     {"out_row", product.out_row},
                     {"out_head", product.out_head},
                     {"first_head", static_cast<uint32_t>(tiles[tile].first_row / shape.rows)}};
    kernel.bindings = {memory(), weight("w", product.weight, tile)};
    kernel.snippets = {decoder(product.weight, "w"),
                       head_product_text(product.transposed, "product", "w", "INPUTS", "OUTPUTS")};
    if (product.adapter) {
      kernel.params.push_back({"inner", inner});
      kernel.bindings.push_back(weight("w2", second, 0));
      use_head_adapter(kernel, product);
      kernel.snippets.insert(
          kernel.snippets.end(),
          {decoder(second, "w2"), head_product_text(product.transposed, "outer_product", "w2", "RANK", "OUTPUTS"),
           kHeadAdapted});
    }
    kernel.grid = {.items = uint64_t{heads} * product.outputs, .per = kThreads};
    add(kernel);
  }
}

void Emitter::emit(const Expand& op) {
  const ValueType &key = type(op.key), &value = type(op.value);
  const uint32_t shared = type(op.shared).width;
  HeadProduct product{.weight = op.weights.key,
                      .transposed = op.weights.key_transposed,
                      .extent = key.extent,
                      .x = at(op.latent),
                      .x_row = columns(op.latent),
                      .x_head = 0,
                      .out = at(op.key),
                      .out_row = columns(op.key),
                      .out_head = key.width,
                      .inputs = columns(op.latent),
                      .outputs = key.width - shared};
  emit_head_product(product);
  product.weight = op.weights.value;
  product.transposed = false;
  product.out = at(op.value);
  product.out_row = columns(op.value);
  product.out_head = product.outputs = value.width;
  emit_head_product(product);

  Kernel kernel{.name = "expand_shared", .body = kCopyShared, .extent = key.extent};
  kernel.constants = {{"HEADS", key.heads}, {"SHARED", shared}, {"KEY_WIDTH", key.width}};
  kernel.params = {{"key", at(op.key)}, {"tail", at(op.shared)}};
  kernel.bindings = {memory()};
  kernel.grid = {.items = uint64_t{key.heads} * shared, .per = kThreads};
  add(kernel);
}

}  // namespace sluice::webgpu
