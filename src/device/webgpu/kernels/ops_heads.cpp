// Runs of ops over heads (graph/fusion.h). A workgroup computes one head of a row; the grid has one chain after
// another. Elements that are turned or appended go through workgroup memory, because other threads read them. Where
// heads are only cut out and turned, a thread takes four elements instead, and reads those it needs from memory.
#include <algorithm>

#include "base/text.h"
#include "device/webgpu/emitter.h"
#include "device/webgpu/wgsl_template.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kLoad = R"(
var<workgroup> head_values: array<f32, WIDTH>;

// Loads a head. If NORMED, its elements are divided by the root of the mean square, which root_of_head returns.
fn load_head(at: u32, thread: u32) {
  for (var i = thread; i < WIDTH; i += THREADS) { head_values[i] = load(at + i); }
}
fn root_of_head(eps: f32, thread: u32) -> f32 {
  var squares = 0.0;
  for (var i = thread; i < WIDTH; i += THREADS) { squares = fma(head_values[i], head_values[i], squares); }
  return sqrt(sum_all(squares, thread) / f32(WIDTH) + eps);
}
)";

// In the texts of a chain ${n} is its number; ${element}, ${first} and ${second} are elements of the head, turned where
// the chain has a rope.
constexpr const char* kTurn = R"(
fn turned_${n}(row: u32, at: u32) -> f32 {
  const kPairs = PAIRS_${n};
  const kFirst = FIRST_${n};
  if (at < kFirst || at >= kFirst + 2u * kPairs) { return head_values[at]; }
  let turned = at - kFirst;
  let halves = PAIRING_${n} != ADJACENT;
  let pair = select(turned / 2u, turned % kPairs, halves);
  let second = select(turned % 2u == 1u, turned >= kPairs, halves);
  let a = head_values[kFirst + select(2u * pair, pair, PAIRING_${n} == HALVES)];
  let b = head_values[kFirst + select(2u * pair + 1u, pair + kPairs, PAIRING_${n} == HALVES)];
  let angle = step_row(row) * kPairs + pair;
  let c = load(p.cosines_${n} + angle);
  let s = load(p.sines_${n} + angle);
  return select(fma(a, c, -(b * s)), fma(b, c, a * s), second);
}
)";

constexpr const char* kChain = R"(fn chain_${n}(row: u32, head: u32, thread: u32) {
  load_head(p.x_${n} + (row * SOURCE_HEADS_${n} + p.first_${n} + head * p.stride_${n}) * WIDTH, thread);
  workgroupBarrier();
)";

constexpr const char* kNorm = R"(  let root = root_of_head(p.eps_${n}, thread);
  for (var i = thread; i < WIDTH; i += THREADS) { head_values[i] = head_values[i] / root${times_weight}; }
  workgroupBarrier();
)";

// A chain without a norm, four elements at a time. What is turned by halves must lie in whole fours (may_take_fours).
constexpr const char* kTurnFour = R"(
fn chain_${n}(row: u32, head: u32, at: u32) -> vec4f {
  const kPairs = PAIRS_${n};
  const kFirst = FIRST_${n};
  let begin = p.x_${n} + (row * SOURCE_HEADS_${n} + p.first_${n} + head * p.stride_${n}) * WIDTH;
  if (at < kFirst || at >= kFirst + 2u * kPairs) { return load4(begin + at); }
  let second = at - kFirst >= kPairs;
  let pair = select(at - kFirst, at - kFirst - kPairs, second);
  let a = load4(begin + kFirst + pair);
  let b = load4(begin + kFirst + pair + kPairs);
  let angle = step_row(row) * kPairs + pair;
  let c = load4(p.cosines_${n} + angle);
  let s = load4(p.sines_${n} + angle);
  return select(fma(a, c, -(b * s)), fma(b, c, a * s), second);
}
)";
constexpr const char* kCutFour = R"(
fn chain_${n}(row: u32, head: u32, at: u32) -> vec4f {
  return load4(p.x_${n} + (row * SOURCE_HEADS_${n} + p.first_${n} + head * p.stride_${n}) * WIDTH + at);
}
)";
constexpr const char* kHeadsInFours = R"(
const FOURS = WIDTH / 4u;
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups) * THREADS + thread;
  let row = i / (ALL_HEADS * FOURS);
  let head = i / FOURS % ALL_HEADS;
  let at = i % FOURS * 4u;
  if (row >= rows()) { return; }
${calls}}
)";

constexpr const char* kQuery = R"(  for (var word = thread; word < KEY_WORDS; word += THREADS) {
    query[word] = ${element};
  }
)";
constexpr const char* kQueryOfPairs = R"(  for (var word = thread; word < KEY_WORDS; word += THREADS) {
    query[word].x = ${first};
    query[word].y = 0.0;
    if (2u * word + 1u < WIDTH) { query[word].y = ${second}; }
  }
)";

constexpr const char* kStore = R"(  let to = p.out_${n} + (row * ${heads}u + head) * WIDTH;
  for (var i = thread; i < WIDTH; i += THREADS) { store(to + i, ${element}); }
)";

constexpr const char* kPack = R"(    let packed = pack(${element});
)";
constexpr const char* kPackPairs = R"(    var second = 0.0;
    if (2u * word + 1u < WIDTH) { second = ${second}; }
    let packed = pack(vec2f(${first}, second));
)";
constexpr const char* kKeep = R"(  let at = position(step_row(row));
  let page = page_of(sequence(step_row(row)), at / 64u) * PAGE_WORDS;
  for (var word = thread; word < KEY_WORDS; word += THREADS) {
${pack}${keep}  }
)";
constexpr const char* kKeepKey = R"(    cache[page + (head * KEY_WORDS + word) * 64u + at % 64u] = packed;
)";
constexpr const char* kKeepValue =
    R"(    cache[page + VALUES_AT + (head * 64u + at % 64u) * VALUE_WORDS + word] = packed;
)";

}  // namespace

// Whether the chain only cuts heads out, or turns them by halves, and all of it lies in whole fours.
bool Emitter::may_take_fours(const HeadChain& chain) const {
  bool fours = chain.norm == nullptr && !chain.is_key && !chain.is_value && type(chain.result).width % 4 == 0 &&
               at(chain.source) % 4 == 0 && at(chain.result) % 4 == 0;
  if (chain.rope != nullptr) {
    const RopeDecl& table = program_.ropes[chain.rope->table];
    fours = fours && table.pairing == Pairing::halves && table.inverse_frequencies.size() % 4 == 0 &&
            chain.rope->first % 4 == 0 && layout_.step().cosines[chain.rope->table] % 4 == 0 &&
            layout_.step().sines[chain.rope->table] % 4 == 0;
  }
  return fours;
}

void Emitter::emit_heads_in_fours(const HeadRun& heads) {
  const ValueType& shape = type(heads.chains.front().result);
  Kernel kernel{.name = "heads", .extent = shape.extent};
  kernel.bindings = {memory()};
  kernel.bindings.front().element = kFours;
  use_step_rows(kernel);
  std::string calls;
  uint32_t all_heads = 0;
  for (uint32_t i = 0; i < heads.chains.size(); ++i) {
    const HeadChain& chain = heads.chains[i];
    const std::string n = cat(i);
    declare_chain(kernel, chain, i);
    kernel.params.push_back({cat("out_", n), at(chain.result)});
    kernel.body += fill(chain.rope == nullptr ? kCutFour : kTurnFour, {{"n", n}});
    const std::string own = cat("head - ", all_heads, "u");
    all_heads += chain.heads;
    calls += cat(i == 0 ? "  if" : " else if", " (head < ", all_heads, "u) {\n    store4(p.out_", n, " + (row * ",
                 chain.heads, "u + ", own, ") * WIDTH + at, chain_", n, "(row, ", own, ", at));\n  }");
  }
  kernel.constants.insert(kernel.constants.end(), {{"ALL_HEADS", all_heads}, {"WIDTH", shape.width}});
  kernel.body += fill(kHeadsInFours, {{"calls", calls + "\n"}});
  kernel.grid = {.items = uint64_t{all_heads} * (shape.width / 4), .per = kThreads};
  add(kernel);
}

void Emitter::emit_heads(const FusedRun& run) {
  const std::optional<HeadRun>& heads = run.heads;
  CHECK(heads && heads->end_op == run.end_op);
  if (std::ranges::all_of(heads->chains, [&](const HeadChain& chain) { return may_take_fours(chain); }))
    return emit_heads_in_fours(*heads);
  const ValueType& shape = type(heads->chains.front().result);
  Kernel kernel{.name = "heads", .extent = shape.extent};
  kernel.bindings = {memory()};
  if (heads->append != nullptr)
    use_cache(kernel, heads->append->state.state, Access::read_write);
  else
    use_step_rows(kernel);
  use_reduce(kernel, adapter_);
  use_heads(kernel, shape.width);

  std::string calls;
  uint32_t all_heads = 0;
  for (uint32_t i = 0; i < heads->chains.size(); ++i) {
    const HeadChain& chain = heads->chains[i];
    const bool stored = readers_.outside(chain.result, run.first_op, run.end_op);
    const uint32_t first = all_heads;
    all_heads += chain.heads;
    kernel.body += chain_text(kernel, chain, i, stored ? ChainEnd::stored : ChainEnd::kept);
    calls += cat(i == 0 ? "  if" : " else if", " (head < ", all_heads, "u) { chain_", i, "(row, head - ", first,
                 "u, thread); }");
  }
  kernel.body += cat(R"(
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) thread: u32) {
  let i = group_index(group, groups);
  let row = i / ALL_HEADS;
  let head = i % ALL_HEADS;
  if (row >= rows()) { return; }
)",
                     calls, "\n}\n");
  kernel.constants.push_back({"ALL_HEADS", all_heads});
  kernel.grid = {.items = all_heads};
  add(kernel);
}

void Emitter::use_heads(Kernel& kernel, uint32_t width) const {
  kernel.constants.insert(kernel.constants.end(), {{"WIDTH", width},
                                                   {"HALVES", static_cast<uint32_t>(Pairing::halves)},
                                                   {"ADJACENT", static_cast<uint32_t>(Pairing::adjacent)}});
  kernel.snippets.emplace_back(kLoad);
}

// Where the chain's heads lie, and how they are turned.
void Emitter::declare_chain(Kernel& kernel, const HeadChain& chain, uint32_t number) const {
  const std::string n = cat(number);
  const auto param = [&](const char* name, auto value) { kernel.params.push_back({cat(name, "_", n), value}); };
  const auto constant = [&](const char* name, uint32_t value) {
    kernel.constants.push_back({cat(name, "_", n), value});
  };
  constant("SOURCE_HEADS", columns(chain.source) / type(chain.result).width);
  param("x", at(chain.source));
  param("first", chain.first_head);
  param("stride", chain.stride);
  if (chain.rope == nullptr) return;
  const RopeDecl& table = program_.ropes[chain.rope->table];
  param("cosines", layout_.step().cosines[chain.rope->table]);
  param("sines", layout_.step().sines[chain.rope->table]);
  constant("PAIRS", static_cast<uint32_t>(table.inverse_frequencies.size()));
  constant("FIRST", chain.rope->first);
  constant("PAIRING", static_cast<uint32_t>(table.pairing));
}

// Declares fn chain_N(row, head, thread) with its constants and parameters.
std::string Emitter::chain_text(Kernel& kernel, const HeadChain& chain, uint32_t number, ChainEnd end) {
  const std::string n = cat(number);
  const auto param = [&](const char* name, auto value) { kernel.params.push_back({cat(name, "_", n), value}); };
  declare_chain(kernel, chain, number);
  std::string text = fill(kChain, {{"n", n}});
  if (chain.norm != nullptr) {
    std::string times_weight;
    if (chain.norm->weight != kNone) {
      const auto is_factors = [](const Binding& binding) { return binding.slot.kind == SlotKind::factors; };
      if (std::none_of(kernel.bindings.begin(), kernel.bindings.end(), is_factors))
        kernel.bindings.push_back(factors());
      param("weight", layout_.factor(chain.norm->weight));
      times_weight = cat(" * factors[p.weight_", n, " + i]");
    }
    param("eps", chain.norm->eps);
    text += fill(kNorm, {{"n", n}, {"times_weight", times_weight}});
  }
  const std::string turn = chain.rope == nullptr ? "" : fill(kTurn, {{"n", n}});
  const auto element = [&](const char* index) {
    return chain.rope != nullptr ? cat("turned_", n, "(row, ", index, ")") : cat("head_values[", index, "]");
  };
  const bool pairs = layout_.cache() != Format::f32;
  const std::string first = element("2u * word"), second = element("2u * word + 1u");
  if (end == ChainEnd::query)
    text += pairs ? fill(kQueryOfPairs, {{"first", first}, {"second", second}})
                  : fill(kQuery, {{"element", element("word")}});
  if (end == ChainEnd::stored) {
    param("out", at(chain.result));
    text += fill(kStore, {{"n", n}, {"heads", cat(chain.heads)}, {"element", element("i")}});
  }
  if (chain.is_key || chain.is_value) {
    const std::string pack =
        pairs ? fill(kPackPairs, {{"first", first}, {"second", second}}) : fill(kPack, {{"element", element("word")}});
    const std::string keep = cat(chain.is_key ? kKeepKey : "", chain.is_value ? kKeepValue : "");
    text += fill(kKeep, {{"pack", pack}, {"keep", keep}});
  }
  return turn + text + "}\n";
}

}  // namespace sluice::webgpu
