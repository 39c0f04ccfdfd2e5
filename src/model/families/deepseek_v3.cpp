// DeepSeek-V3, text: V3, V3.1, R1 and relatives (Cogito-V2 671B, small models without query latents). Source:
// arXiv:2412.19437, transformers modeling_deepseek_v3.py (5.17.0), and llama.cpp for GGUF names (deepseek2).
//
// Attention is multi-head latent (MLA). A position caches one latent, from which every head computes its key and value,
// and one rotated key that all heads share. Queries have a latent of their own. Rope turns only the last elements of a
// head, in adjacent pairs, with YaRN, which also raises the softmax scale. The first layers are dense; the other layers
// have experts and a shared expert without gate or scale. Experts are chosen in groups by sigmoid scores plus a bias,
// which does not enter the experts' weights. A layer for multi-token prediction may follow.
//
// The config is in deepseek_v3_config.h. Below: the weights, the program with each layer's state, the Family.

#include <cmath>
#include <numeric>

#include "model/draft_weights.h"
#include "model/facts.h"
#include "model/families/deepseek_v3_config.h"
#include "model/family.h"

namespace sluice::deepseek_v3 {
namespace {

// --- weights

// The rows of a head's key in kv_b, of a model that has them transposed: adapters name them so.
SourceName transposed_part(uint32_t first_row, uint32_t total_rows) {
  SourceName part = in_one_matrix("self_attn.kv_b_proj.weight", first_row, total_rows);
  part.transposed = true;
  return part;
}

void attention_weights(WeightTable& t, const Config& c) {
  const uint32_t head = c.nope + c.rope, fused = c.nope + c.value_width;  // rows of a head in q, and in kv_b
  t.add("input_norm", vector_of(c.hidden), "input_layernorm.weight", "attn_norm.weight");
  if (c.query_rank != 0) {
    t.add("q_a_proj", matrix(c.query_rank, c.hidden), "self_attn.q_a_proj.weight", "attn_q_a.weight");
    t.add("q_a_norm", vector_of(c.query_rank), "self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight");
    t.add("q_b_proj", matrix(c.heads * head, c.query_rank), "self_attn.q_b_proj.weight", "attn_q_b.weight");
  } else {
    t.add("q_proj", matrix(c.heads * head, c.hidden), "self_attn.q_proj.weight", "attn_q.weight");
  }
  t.add("kv_a_proj", matrix(c.latent + c.rope, c.hidden), "self_attn.kv_a_proj_with_mqa.weight",
        "attn_kv_a_mqa.weight");
  t.add("kv_a_norm", vector_of(c.latent), "self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight");
  // kv_b has one matrix for each head: the rows of its key, then those of its value. GGUF and MLX files split kv_b into
  // k_b and v_b, and their k_b is transposed.
  if (c.key_transposed)
    t.add("k_b_proj", {c.heads, c.latent, c.nope}, {{"self_attn.embed_q.weight"}, transposed_part(0, fused)},
          {{"attn_k_b.weight"}});
  else
    t.add("k_b_proj", {c.heads, c.nope, c.latent}, {in_one_matrix("self_attn.kv_b_proj.weight", 0, fused)},
          {transposed("attn_k_b.weight"), in_one_matrix("attn_kv_b.weight", 0, fused)});
  const SourceName joint_value = in_one_matrix("attn_kv_b.weight", c.nope, fused);
  std::vector<SourceName> value = {{"attn_v_b.weight"}, joint_value};
  if (c.joint_in_gguf) {
    value = {joint_value};
    t.ignore(nullptr, "attn_k_b.weight");
    t.ignore(nullptr, "attn_v_b.weight");
  }
  t.add("v_b_proj", {c.heads, c.value_width, c.latent},
        {{"self_attn.unembed_out.weight"}, in_one_matrix("self_attn.kv_b_proj.weight", c.nope, fused)},
        std::move(value));
  t.add("o_proj", matrix(c.hidden, c.heads * c.value_width), "self_attn.o_proj.weight", "attn_output.weight");
}

void dense_weights(WeightTable& t, const Config& c) {
  t.add("gate_proj", matrix(c.feed_forward, c.hidden), "mlp.gate_proj.weight", "ffn_gate.weight");
  t.add("up_proj", matrix(c.feed_forward, c.hidden), "mlp.up_proj.weight", "ffn_up.weight");
  t.add("down_proj", matrix(c.hidden, c.feed_forward), "mlp.down_proj.weight", "ffn_down.weight");
}

void experts_weights(WeightTable& t, const Config& c) {
  const WeightShape in{c.experts, c.expert_width, c.hidden}, out{c.experts, c.hidden, c.expert_width};
  t.add("router", matrix(c.experts, c.hidden), "mlp.gate.weight", "ffn_gate_inp.weight");
  t.add("router_bias", vector_of(c.experts), {{"mlp.gate.e_score_correction_bias"}},
        {{"exp_probs_b.bias"}, {"exp_probs_b"}});
  // Fused as transformers has them in memory: adapters name them so.
  const uint32_t width = c.expert_width, fused = 2 * width;
  t.add(
      "experts.gate_proj", in,
      {{"mlp.experts.*.gate_proj.weight"}, {"mlp.switch_mlp.gate_proj.weight"}, {"mlp.experts.gate_up_proj", 0, fused}},
      {{"ffn_gate_exps.weight"}, {"ffn_gate.*.weight"}});
  t.add(
      "experts.up_proj", in,
      {{"mlp.experts.*.up_proj.weight"}, {"mlp.switch_mlp.up_proj.weight"}, {"mlp.experts.gate_up_proj", width, fused}},
      {{"ffn_up_exps.weight"}, {"ffn_up.*.weight"}});
  t.add("experts.down_proj", out,
        {{"mlp.experts.*.down_proj.weight"}, {"mlp.switch_mlp.down_proj.weight"}, {"mlp.experts.down_proj"}},
        {{"ffn_down_exps.weight"}, {"ffn_down.*.weight"}});
  if (c.shared_experts == 0) return;
  const uint32_t shared = c.expert_width * c.shared_experts;
  t.add("shared_gate_proj", matrix(shared, c.hidden), "mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight");
  t.add("shared_up_proj", matrix(shared, c.hidden), "mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight");
  t.add("shared_down_proj", matrix(c.hidden, shared), "mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight");
}

void layer_weights(WeightTable& t, const Config& c, uint32_t i) {
  attention_weights(t, c);
  t.add("post_attention_norm", vector_of(c.hidden), "post_attention_layernorm.weight", "ffn_norm.weight");
  i < c.dense_layers ? dense_weights(t, c) : experts_weights(t, c);
}

// Weights of the draft head (multi-token prediction): one layer behind the others, and the matrix that joins its
// inputs.
WeightTable draft_table_of(const Config& c) {
  WeightTable t;
  const std::string hugging_face = cat("layers.", c.layers, "."), gguf = cat("blk.", c.layers, ".");
  t.section("draft.", hugging_face, gguf + "nextn.");
  t.add("fc", matrix(c.hidden, 2 * c.hidden), "eh_proj.weight", "eh_proj.weight");
  t.add("embedding_norm", vector_of(c.hidden), "enorm.weight", "enorm.weight");
  t.add("hidden_norm", vector_of(c.hidden), "hnorm.weight", "hnorm.weight");
  t.add_optional("norm", vector_of(c.hidden), {{"shared_head.norm.weight"}}, {{"shared_head_norm.weight"}});
  t.add_optional("embed_tokens", matrix(c.vocabulary, c.hidden), {{"embed_tokens.weight"}}, {{"embed_tokens.weight"}});
  t.add_optional("head", matrix(c.vocabulary, c.hidden), {{"shared_head.head.weight"}}, {{"shared_head_head.weight"}});
  t.section(cat("layer.", c.layers, "."), hugging_face, gguf);
  layer_weights(t, c, c.layers);
  return t;
}

WeightTable weight_table_of(const Config& c) {
  WeightTable t;
  t.add("embed_tokens", matrix(c.vocabulary, c.hidden), "embed_tokens.weight", "token_embd.weight");
  for (uint32_t i = 0; i < c.layers; ++i) {
    t.section(cat("layer.", i, "."), cat("layers.", i, "."), cat("blk.", i, "."));
    layer_weights(t, c, i);
  }
  t.section("", "", "");
  t.add("final_norm", vector_of(c.hidden), "norm.weight", "output_norm.weight");
  t.add("lm_head", matrix(c.vocabulary, c.hidden), "lm_head.weight", "output.weight");
  std::vector<std::string> hugging_face, gguf;
  for (uint32_t i = c.layers; i < c.layers + c.draft_layers; ++i) {
    hugging_face.push_back(cat("layers.", i, "."));
    gguf.push_back(cat("blk.", i, "."));
  }
  t.towers(Dialect::hugging_face, std::move(hugging_face));
  t.towers(Dialect::gguf, std::move(gguf));
  return t;
}

// --- program

constexpr ActivationKind kActivation = ActivationKind::silu;
constexpr float kLatentEps = 1e-6f;  // for the norms of latents; the config's eps does not apply

class TextProgram {
 public:
  TextProgram(Recorder& recorder, const Config& config, const BoundWeights& weights, const TextOptions& options)
      : r_(recorder), c_(config), weights_(weights), options_(options) {}

  void record();
  void record_draft(const WeightScope& text);

 private:
  struct Cached {
    Value latent, shared;
  };

  Value begin();
  Value layer(uint32_t i, Value x);
  Value attention_block(uint32_t i, const WeightScope& w, Value x);
  Cached cached(Value kv, const WeightScope& w);
  Value feed_forward(uint32_t i, const WeightScope& w, Value x);
  Value experts_of(uint32_t i, const WeightScope& w, Value x);

  float softmax_scale() const;
  WeightScope scope(const std::string& prefix) { return {r_, weights_, prefix}; }
  void mark(Value value, uint32_t i, const char* what) { r_.name(value, cat("layer.", i, ".", what)); }

  Recorder& r_;
  const Config& c_;
  const BoundWeights& weights_;
  const TextOptions options_;
  RopeId rope_ = kNone;
  Value wanted_;
};

// Records the inputs and the rope table that both programs of the family need. Returns the tokens.
Value TextProgram::begin() {
  const Value tokens = r_.input("tokens", {.extent = {Symbol::rows}, .width = 1, .element = Element::i32});
  wanted_ = r_.input("wanted", {.extent = {Symbol::wanted}, .width = 1, .element = Element::i32});
  rope_ = r_.rope_table({.inverse_frequencies = yarn_frequencies(c_.rope_theta, c_.rope, c_.yarn),
                         .pairing = Pairing::adjacent_to_halves,
                         .magnitude = c_.rope_magnitude});
  return tokens;
}

void TextProgram::record() {
  const WeightScope w = scope("");
  const Value tokens = begin();
  Value x = embed(tokens, w["embed_tokens"], 1.0f);
  r_.name(x, "hidden.0");
  for (uint32_t i = 0; i < c_.layers; ++i) {
    r_.begin_layer(static_cast<int32_t>(i));
    x = layer(i, x);
    r_.name(x, cat("hidden.", i + 1));
  }
  r_.begin_layer(-1);
  x = rms_norm(x, w["final_norm"], c_.eps);
  r_.name(x, "final_norm");
  if (options_.hidden) r_.output(x, "hidden");
  if (options_.all_named || options_.hidden) x = gather(x, wanted_);
  const Value logits = linear(x, w["lm_head"]);
  r_.output(logits, "logits");
  r_.output(sample(logits), "sample");
}

// The draft head predicts the next token from the text program's hidden row, after its final norm, and the token that
// follows that row.
void TextProgram::record_draft(const WeightScope& text) {
  const WeightScope w = scope("draft.");
  const auto own = [&](const char* name, const char* shared) { return w.has(name) ? w[name] : text[shared]; };
  const Value tokens = begin();
  const Value hidden = r_.input("hidden", {.extent = {Symbol::rows}, .width = c_.hidden});
  const Value e = embed(tokens, own("embed_tokens", "embed_tokens"), 1.0f);
  r_.begin_layer(static_cast<int32_t>(c_.layers));
  Value x = join_for_draft(r_, rms_norm(e, w["embedding_norm"], c_.eps), rms_norm(hidden, w["hidden_norm"], c_.eps),
                           c_.hidden);
  x = layer(c_.layers, x);
  r_.begin_layer(-1);
  x = rms_norm(gather(x, wanted_), own("norm", "final_norm"), c_.eps);
  r_.output(x, "hidden");
  const Value logits = linear(x, own("head", "lm_head"));
  r_.output(logits, "logits");
  r_.output(sample(logits), "sample");
}

Value TextProgram::layer(uint32_t i, Value x) {
  const WeightScope w = scope(cat("layer.", i, "."));
  x = attention_block(i, w, x);
  return add(x, feed_forward(i, w, rms_norm(x, w["post_attention_norm"], c_.eps)));
}

Value TextProgram::attention_block(uint32_t i, const WeightScope& w, Value x) {
  const Value h = rms_norm(x, w["input_norm"], c_.eps);
  r_.begin_block(BlockKind::qkv);
  Value q = linear(h, c_.query_rank != 0 ? w["q_a_proj"] : w["q_proj"]);
  const Value kv = linear(h, w["kv_a_proj"]);
  r_.end_block();
  if (c_.query_rank != 0) {
    q = rms_norm(q, w["q_a_norm"], kLatentEps);
    mark(q, i, "q_latent");
    q = linear(q, w["q_b_proj"]);
  }
  q = rope(heads(q, c_.heads), rope_, c_.nope);
  mark(q, i, "q");

  const Cached own = cached(kv, w);
  const State empty = r_.paged_state(cat("layer.", i, ".kv"), 1, c_.rope, c_.latent, 0);
  const State state = append(empty, own.shared, own.latent);
  const Expansion weights{.key = w["k_b_proj"].id, .value = w["v_b_proj"].id, .key_transposed = c_.key_transposed};
  mark(own.latent, i, "kv_latent");
  if (options_.all_named) {
    const KeyValue expanded = expand(own.latent, own.shared, weights);
    mark(expanded.key, i, "k");
    mark(expanded.value, i, "v");
  } else if (i + 1 == c_.layers && !options_.hidden) {  // the last layer's cache is written: only wanted rows go on
    q = gather(q, wanted_);
    x = gather(x, wanted_);
  }
  const Value a = flatten(attention(q, state, {.scale = softmax_scale(), .expand = weights}));
  const Value projected = linear(a, w["o_proj"]);
  mark(a, i, "attn_out");
  mark(projected, i, "attn_proj");
  return add(x, projected);
}

// The row that a position caches: its latent after the norm, and the shared key after rope.
TextProgram::Cached TextProgram::cached(Value kv, const WeightScope& w) {
  const uint32_t part = std::gcd(c_.latent, c_.rope), latent_parts = c_.latent / part, rope_parts = c_.rope / part;
  const Value parts = heads(kv, latent_parts + rope_parts);
  const Value latent = flatten(slice(parts, 0, latent_parts)), shared = flatten(slice(parts, latent_parts, rope_parts));
  return {.latent = rms_norm(latent, w["kv_a_norm"], kLatentEps), .shared = rope(shared, rope_)};
}

float TextProgram::softmax_scale() const {
  const double stretched =
      1 + static_cast<double>(c_.yarn_log_multiplier) * std::log(static_cast<double>(c_.yarn.factor));
  return static_cast<float>(stretched * stretched / std::sqrt(static_cast<double>(c_.nope + c_.rope)));
}

Value TextProgram::feed_forward(uint32_t i, const WeightScope& w, Value x) {
  Value y;
  if (i < c_.dense_layers) {
    y = gated_mlp(x, w["gate_proj"], w["up_proj"], w["down_proj"], kActivation);
  } else {
    y = experts_of(i, w, x);
    if (c_.shared_experts != 0) {
      const Value shared = gated_mlp(x, w["shared_gate_proj"], w["shared_up_proj"], w["shared_down_proj"], kActivation);
      mark(shared, i, "shared_out");
      y = add(y, shared);
    }
  }
  mark(y, i, "mlp_out");
  return y;
}

Value TextProgram::experts_of(uint32_t i, const WeightScope& w, Value x) {
  const Value logits = linear(x, w["router"]);
  r_.begin_block(BlockKind::moe);
  const Routed routed = route(logits, {.k = c_.experts_used,
                                       .scoring = Scoring::sigmoid,
                                       .normalise = c_.normalise,
                                       .scale = c_.routed_scale,
                                       .groups = c_.groups,
                                       .groups_used = c_.groups_used,
                                       .bias = w["router_bias"]});
  const Value y = experts(x, routed, w["experts.gate_proj"], w["experts.up_proj"], w["experts.down_proj"], kActivation);
  r_.end_block();
  mark(logits, i, "router_logits");
  mark(routed.index, i, "topk_index");
  mark(routed.weight, i, "topk_weights");
  mark(y, i, "experts_out");
  return y;
}

// --- family

void add_details(const Config& c, ModelFacts& facts) {
  facts.details.emplace_back("attention", cat("latents of ", c.latent, " and a shared key of ", c.rope));
  facts.details.emplace_back("heads", cat(c.heads, " of ", c.nope + c.rope, ", values of ", c.value_width));
  facts.details.emplace_back("dense layers", cat("the first ", c.dense_layers));
  facts.details.emplace_back(
      "experts", cat(c.experts, " of ", c.expert_width, ", ", c.experts_used, " for each token from ", c.groups_used,
                     " of ", c.groups, " groups, ", c.shared_experts, " shared"));
  if (c.groups_assumed)
    facts.details.emplace_back(kAssumed, cat(c.groups_used, " of ", c.groups,
                                             " groups of experts, as the reference has it: the file does not say"));
}

Result<FamilyModel> read(const Checkpoint& checkpoint, const SourceNames& names) {
  TRY(const Config config, read_config(checkpoint, names));
  FamilyModel model = family_model(config);
  add_details(config, model.facts);
  model.gguf_config = gguf_config(config);
  model.programs.push_back(
      {.kind = ProgramKind::text,
       .weights = weight_table_of(config),
       .record = [config](Recorder& recorder, const BoundWeights& text, const BoundWeights&,
                          const TextOptions& options) { TextProgram(recorder, config, text, options).record(); }});
  if (config.draft_head)
    model.programs.push_back(
        {.kind = ProgramKind::draft_head,
         .weights = draft_table_of(config),
         .record = [config](Recorder& recorder, const BoundWeights& text, const BoundWeights& own, const TextOptions&) {
           TextProgram(recorder, config, own, {}).record_draft(WeightScope(recorder, text, ""));
         }});
  return model;
}

}  // namespace

const Family& family() {
  static const Family kFamily = {.name = "deepseek2",
                                 .title = "DeepSeek-V3",
                                 .model_types = {"deepseek_v3"},
                                 .prefixes = {"model."},
                                 .read = read};
  return kFamily;
}

}  // namespace sluice::deepseek_v3
