// Runs of ops over heads (graph/fusion.h): a workgroup a head of a row, of one chain after another. What is turned or
// appended is read by other threads than made it, from workgroup memory.
#include <algorithm>

#include "base/text.h"
#include "device/webgpu/emitter.h"

namespace sluice::webgpu {
namespace {

constexpr const char* kLoad = R"(
var<workgroup> head_values: array<f32, WIDTH>;

// Normed where NORMED: by the root of the mean square.
fn load_head(at: u32, thread: u32) {
  for (var i = thread; i < WIDTH; i += THREADS) { head_values[i] = load(at + i); }
}
fn root_of_head(eps: f32, thread: u32) -> f32 {
  var squares = 0.0;
  for (var i = thread; i < WIDTH; i += THREADS) { squares = fma(head_values[i], head_values[i], squares); }
  return sqrt(sum_all(squares, thread) / f32(WIDTH) + eps);
}
)";

// '$': the chain's number.
constexpr const char* kTurn = R"(
fn turned_$(row: u32, at: u32) -> f32 {
  const kPairs = PAIRS_$;
  const kFirst = FIRST_$;
  if (at < kFirst || at >= kFirst + 2u * kPairs) { return head_values[at]; }
  let turned = at - kFirst;
  let halves = PAIRING_$ != ADJACENT;
  let pair = select(turned / 2u, turned % kPairs, halves);
  let second = select(turned % 2u == 1u, turned >= kPairs, halves);
  let a = head_values[kFirst + select(2u * pair, pair, PAIRING_$ == HALVES)];
  let b = head_values[kFirst + select(2u * pair + 1u, pair + kPairs, PAIRING_$ == HALVES)];
  let angle = step_row(row) * kPairs + pair;
  let c = load(p.cosines_$ + angle);
  let s = load(p.sines_$ + angle);
  return select(fma(a, c, -(b * s)), fma(b, c, a * s), second);
}
)";

}  // namespace

void Emitter::emit_heads(const FusedRun& run) {
  const std::optional<HeadRun>& heads = run.heads;
  CHECK(heads && heads->end_op == run.end_op);
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

// fn chain_$(row, head, thread), with its constants and parameters.
std::string Emitter::chain_text(Kernel& kernel, const HeadChain& chain, uint32_t number, ChainEnd end) {
  static constexpr const char* kNames[][12] = {{"x_0", "out_0", "eps_0", "weight_0", "cosines_0", "sines_0", "PAIRS_0",
                                                "FIRST_0", "PAIRING_0", "first_0", "stride_0", "SOURCE_HEADS_0"},
                                               {"x_1", "out_1", "eps_1", "weight_1", "cosines_1", "sines_1", "PAIRS_1",
                                                "FIRST_1", "PAIRING_1", "first_1", "stride_1", "SOURCE_HEADS_1"},
                                               {"x_2", "out_2", "eps_2", "weight_2", "cosines_2", "sines_2", "PAIRS_2",
                                                "FIRST_2", "PAIRING_2", "first_2", "stride_2", "SOURCE_HEADS_2"},
                                               {"x_3", "out_3", "eps_3", "weight_3", "cosines_3", "sines_3", "PAIRS_3",
                                                "FIRST_3", "PAIRING_3", "first_3", "stride_3", "SOURCE_HEADS_3"}};
  const char* const* names = kNames[number];
  const auto param = [&](size_t name, auto value) {
    kernel.params.push_back({names[name], value});
    return cat("p.", names[name]);
  };
  kernel.constants.push_back({names[11], columns(chain.source) / type(chain.result).width});
  std::string text = cat("fn chain_", number, "(row: u32, head: u32, thread: u32) {\n  load_head(",
                         param(0, at(chain.source)), " + (row * ", names[11], " + ", param(9, chain.first_head),
                         " + head * ", param(10, chain.stride), ") * WIDTH, thread);\n  workgroupBarrier();\n");
  if (chain.norm != nullptr) {
    std::string weight;
    if (chain.norm->weight != kNone) {
      const auto is_factors = [](const Binding& binding) { return binding.slot.kind == SlotKind::factors; };
      if (std::none_of(kernel.bindings.begin(), kernel.bindings.end(), is_factors))
        kernel.bindings.push_back(factors());
      weight = cat(" * factors[", param(3, layout_.factor(chain.norm->weight)), " + i]");
    }
    text += cat("  let root = root_of_head(", param(2, chain.norm->eps), ", thread);\n",
                "  for (var i = thread; i < WIDTH; i += THREADS) { head_values[i] = head_values[i] / root", weight,
                "; }\n  workgroupBarrier();\n");
  }
  std::string turn;
  if (chain.rope != nullptr) {
    const RopeDecl& table = program_.ropes[chain.rope->table];
    param(4, layout_.step().cosines[chain.rope->table]);
    param(5, layout_.step().sines[chain.rope->table]);
    kernel.constants.insert(kernel.constants.end(),
                            {{names[6], static_cast<uint32_t>(table.inverse_frequencies.size())},
                             {names[7], chain.rope->first},
                             {names[8], static_cast<uint32_t>(table.pairing)}});
    for (const char* letter = kTurn; *letter != 0; ++letter)
      turn += *letter == '$' ? static_cast<char>('0' + number) : *letter;
  }
  const auto element_of = [&](const char* index) {
    return chain.rope != nullptr ? cat("turned_", number, "(row, ", index, ")") : cat("head_values[", index, "]");
  };
  if (end == ChainEnd::query) {
    const bool pairs = layout_.cache() != Format::f32;
    text += cat("  for (var word = thread; word < KEY_WORDS; word += THREADS) {\n",
                pairs ? cat("    query[word].x = ", element_of("2u * word"),
                            ";\n    query[word].y = 0.0;\n    if (2u * word + 1u < WIDTH) { query[word].y = ",
                            element_of("2u * word + 1u"), "; }\n")
                      : cat("    query[word] = ", element_of("word"), ";\n"),
                "  }\n");
  }
  if (end == ChainEnd::stored)
    text += cat("  let to = ", param(1, at(chain.result)), " + (row * ", chain.heads, "u + head) * WIDTH;\n",
                "  for (var i = thread; i < WIDTH; i += THREADS) { store(to + i, ", element_of("i"), "); }\n");
  if (chain.is_key || chain.is_value) {
    const bool pairs = layout_.cache() != Format::f32;
    const std::string pack =
        pairs ? cat("var second = 0.0;\n    if (2u * word + 1u < WIDTH) { second = ", element_of("2u * word + 1u"),
                    "; }\n    let packed = pack(vec2f(", element_of("2u * word"), ", second));\n")
              : cat("let packed = pack(", element_of("word"), ");\n");
    text += cat(
        "  let at = position(step_row(row));\n  let page = page_of(sequence(step_row(row)), at / 64u) * PAGE_WORDS;\n",
        "  for (var word = thread; word < KEY_WORDS; word += THREADS) {\n    ", pack);
    if (chain.is_key) text += "    cache[page + (head * KEY_WORDS + word) * 64u + at % 64u] = packed;\n";
    if (chain.is_value)
      text += "    cache[page + VALUES_AT + (head * 64u + at % 64u) * VALUE_WORDS + word] = packed;\n";
    text += "  }\n";
  }
  return turn + text + "}\n";
}

}  // namespace sluice::webgpu
