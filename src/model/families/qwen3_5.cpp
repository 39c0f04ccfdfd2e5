// Qwen3.5 and Qwen3.6, text: dense (0.8B to 27B) and with experts (35B-A3B, 122B-A10B, 397B-A17B). Source: transformers
// modeling_qwen3_5.py and modeling_qwen3_5_moe.py (5.17.0), Yang et al. 2024 (arXiv:2412.06464) for the gated delta
// net, and llama.cpp and Ollama for GGUF names. Config: qwen3_5_config.h.
//
// Unlike Gemma 4: three of four layers are gated delta nets, whose state has a fixed size. A short causal convolution
// goes before a delta net and a gated norm behind it. Full layers turn the first quarter of a head, and a gate that is
// computed with the queries multiplies their result. Norms multiply by 1 + w (the norm behind a delta net by w); GGUF
// and MLX files store 1 + w. Experts are added to a shared expert with a gate of its own. Several value heads share a
// key head: neighbours in Hugging Face's files, heads with the same remainder in GGUF files.
//
// A checkpoint may have a vision tower (towers/qwen3_5_vision.cpp), whose rows turn by time, height and width, and a
// layer for multi-token prediction, which computes drafts from the text's last row and the token behind it.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/draft_weights.h"
#include "model/families/qwen3_5_config.h"
#include "model/family.h"
#include "model/rope_config.h"
#include "model/towers/qwen3_5_vision.h"

namespace sluice::qwen3_5 {
namespace {

// --- weights

void norm(WeightTable& t, const Config& c, const char* name, uint32_t width, const char* hugging_face,
          const char* gguf) {
  const Transform transform = c.norms_are_factors ? Transform::none : Transform::plus_one;
  t.add(name, vector_of(width), {{.name = hugging_face, .transform = transform}}, {{gguf}});
}

// GGUF files store the value heads of the last weight tiled. The heads begin at element `first`.
void tiled(WeightTable& t, const Config& c, uint32_t first, uint32_t width, bool columns = false) {
  const HeadOrder order = {.first = first,
                           .groups = c.delta_key_heads,
                           .per_group = c.delta_value_heads / c.delta_key_heads,
                           .width = width,
                           .columns = columns};
  t.gguf_heads(order, c.key_heads == KeyHeads::tiled);
}

void delta_weights(WeightTable& t, const Config& c) {
  const uint32_t values = c.delta_values(), heads = c.delta_value_heads, keys = 2 * c.delta_keys();
  t.add("in_proj_qkv", matrix(keys + values, c.hidden), "linear_attn.in_proj_qkv.weight", "attn_qkv.weight");
  tiled(t, c, keys, c.delta_value_dim);
  t.add("in_proj_z", matrix(values, c.hidden), "linear_attn.in_proj_z.weight", "attn_gate.weight");
  tiled(t, c, 0, c.delta_value_dim);
  t.add("in_proj_b", matrix(heads, c.hidden), "linear_attn.in_proj_b.weight", "ssm_beta.weight");
  tiled(t, c, 0, 1);
  t.add("in_proj_a", matrix(heads, c.hidden), "linear_attn.in_proj_a.weight", "ssm_alpha.weight");
  tiled(t, c, 0, 1);
  t.add("decay_rate", vector_of(heads), {{.name = "linear_attn.A_log", .transform = Transform::minus_exp}},
        {{"ssm_a"}});
  tiled(t, c, 0, 1, true);
  t.add("dt_bias", vector_of(heads), {{"linear_attn.dt_bias"}}, {{"ssm_dt.bias"}, {"ssm_dt"}});
  tiled(t, c, 0, 1, true);
  t.add("conv1d", matrix(keys + values, c.conv_taps), "linear_attn.conv1d.weight", "ssm_conv1d.weight");
  tiled(t, c, keys, c.delta_value_dim);
  t.add("delta_norm", vector_of(c.delta_value_dim), "linear_attn.norm.weight", "ssm_norm.weight");
  t.add("out_proj", matrix(c.hidden, values), "linear_attn.out_proj.weight", "ssm_out.weight");
  tiled(t, c, 0, c.delta_value_dim, true);
}

void attention_weights(WeightTable& t, const Config& c, uint32_t kv_heads) {
  const uint32_t q = 2 * c.heads * c.head_dim, kv = kv_heads * c.head_dim;  // for each head its query, then its gate
  const uint32_t fused = q + 2 * kv;                                        // rows of GGUF's optional attn_qkv
  t.add("q_proj", matrix(q, c.hidden), {{"self_attn.q_proj.weight"}},
        {{"attn_q.weight"}, {"attn_qkv.weight", 0, fused}});
  t.add("k_proj", matrix(kv, c.hidden), {{"self_attn.k_proj.weight"}},
        {{"attn_k.weight"}, {"attn_qkv.weight", q, fused}});
  t.add("v_proj", matrix(kv, c.hidden), {{"self_attn.v_proj.weight"}},
        {{"attn_v.weight"}, {"attn_qkv.weight", q + kv, fused}});
  norm(t, c, "q_norm", c.head_dim, "self_attn.q_norm.weight", "attn_q_norm.weight");
  norm(t, c, "k_norm", c.head_dim, "self_attn.k_norm.weight", "attn_k_norm.weight");
  t.add("o_proj", matrix(c.hidden, c.heads * c.head_dim), "self_attn.o_proj.weight", "attn_output.weight");
}

void experts_weights(WeightTable& t, const Config& c) {
  const WeightShape in{c.experts, c.expert_width, c.hidden}, out{c.experts, c.hidden, c.expert_width};
  const uint32_t width = c.expert_width, fused = 2 * width;  // the rows of an expert's gate, then those of its up
  t.add("router", matrix(c.experts, c.hidden), "mlp.gate.weight", "ffn_gate_inp.weight");
  t.add(
      "experts.gate_proj", in,
      {{"mlp.experts.gate_up_proj", 0, fused}, {"mlp.switch_mlp.gate_proj.weight"}, {"mlp.experts.*.gate_proj.weight"}},
      {{"ffn_gate_up_exps.weight", 0, fused}, {"ffn_gate_exps.weight"}, {"ffn_gate.*.weight"}});
  t.add(
      "experts.up_proj", in,
      {{"mlp.experts.gate_up_proj", width, fused}, {"mlp.switch_mlp.up_proj.weight"}, {"mlp.experts.*.up_proj.weight"}},
      {{"ffn_gate_up_exps.weight", width, fused}, {"ffn_up_exps.weight"}, {"ffn_up.*.weight"}});
  t.add("experts.down_proj", out,
        {{"mlp.experts.down_proj"}, {"mlp.switch_mlp.down_proj.weight"}, {"mlp.experts.*.down_proj.weight"}},
        {{"ffn_down_exps.weight"}, {"ffn_down.*.weight"}});
  t.add("shared_expert_gate", vector_of(c.hidden), "mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight");
  t.add("shared_expert.gate_proj", matrix(c.shared_width, c.hidden), "mlp.shared_expert.gate_proj.weight",
        "ffn_gate_shexp.weight");
  t.add("shared_expert.up_proj", matrix(c.shared_width, c.hidden), "mlp.shared_expert.up_proj.weight",
        "ffn_up_shexp.weight");
  t.add("shared_expert.down_proj", matrix(c.hidden, c.shared_width), "mlp.shared_expert.down_proj.weight",
        "ffn_down_shexp.weight");
}

void layer_weights(WeightTable& t, const Config& c, uint32_t index) {
  norm(t, c, "input_norm", c.hidden, "input_layernorm.weight", "attn_norm.weight");
  if (c.recurrent[index] != 0)
    delta_weights(t, c);
  else
    attention_weights(t, c, c.kv_heads[index]);
  norm(t, c, "post_attention_norm", c.hidden, "post_attention_layernorm.weight", "post_attention_norm.weight");
  if (c.experts != 0) {
    experts_weights(t, c);
  } else {
    t.add("gate_proj", matrix(c.feed_forward, c.hidden), "mlp.gate_proj.weight", "ffn_gate.weight");
    t.add("up_proj", matrix(c.feed_forward, c.hidden), "mlp.up_proj.weight", "ffn_up.weight");
    t.add("down_proj", matrix(c.hidden, c.feed_forward), "mlp.down_proj.weight", "ffn_down.weight");
  }
}

WeightTable weight_table_of(const Config& c) {
  WeightTable t;
  t.add("embed_tokens", matrix(c.vocabulary, c.hidden), "embed_tokens.weight", "token_embd.weight");
  for (uint32_t i = 0; i < c.layers; ++i) {
    t.section(cat("layer.", i, "."), cat("layers.", i, "."), cat("blk.", i, "."));
    layer_weights(t, c, i);
  }
  t.section("", "", "");
  norm(t, c, "final_norm", c.hidden, "norm.weight", "output_norm.weight");
  if (c.tied)  // a GGUF file has a tied head if it has no output.weight
    t.ignore("lm_head.weight", nullptr);
  else
    t.add("lm_head", matrix(c.vocabulary, c.hidden), "lm_head.weight", "output.weight");
  t.towers(Dialect::hugging_face, {"visual.", "vision_tower.", "mtp."});
  std::vector<std::string> towers = {"v.", "mm.", "mtp."};
  for (uint32_t i = 0; i < c.prediction_layers; ++i) towers.push_back(cat("blk.", c.layers + i, "."));
  t.towers(Dialect::gguf, std::move(towers));
  return t;
}

// The draft head's table for files of an older converter of Ollama: names begin with "mtp.", those of the layer with
// "mtp.layers.0.", and norms store w. Such a head is written under the usual names.
WeightTable with_mtp_names(const WeightTable& table, const std::string& block) {
  WeightTable named;
  for (const WeightRow& row : table.rows()) {
    std::vector<SourceName> gguf = row.gguf;
    for (const SourceName& source : row.gguf) {
      if (!starts_with(source.name, block)) continue;
      SourceName renamed = source;
      renamed.name = "mtp.layers.0." + source.name.substr(block.size());
      renamed.transform = row.hugging_face.front().transform;
      gguf.push_back(std::move(renamed));
    }
    gguf.insert(gguf.end(), row.hugging_face.begin(), row.hugging_face.end());
    if (row.optional)
      named.add_optional(row.name.c_str(), row.shape, row.hugging_face, std::move(gguf));
    else
      named.add(row.name.c_str(), row.shape, row.hugging_face, std::move(gguf));
  }
  return named;
}

// Weights of the draft head (multi-token prediction): one layer behind the others, and the matrix that joins its
// inputs.
WeightTable draft_table_of(const Config& c) {
  WeightTable t;
  const std::string block = cat("blk.", c.layers, ".");
  t.section("draft.", "mtp.", block + "nextn.");
  t.add("fc", matrix(c.hidden, 2 * c.hidden), "fc.weight", "eh_proj.weight");
  norm(t, c, "embedding_norm", c.hidden, "pre_fc_norm_embedding.weight", "enorm.weight");
  norm(t, c, "hidden_norm", c.hidden, "pre_fc_norm_hidden.weight", "hnorm.weight");
  t.add_optional("norm", vector_of(c.hidden),
                 {{.name = "norm.weight", .transform = c.norms_are_factors ? Transform::none : Transform::plus_one}},
                 {{"shared_head_norm.weight"}});
  t.add_optional("embed_tokens", matrix(c.vocabulary, c.hidden), {{"embed_tokens.weight"}}, {{"embed_tokens.weight"}});
  t.add_optional("head", matrix(c.vocabulary, c.hidden), {{"shared_head.head.weight"}}, {{"shared_head_head.weight"}});
  t.section(cat("layer.", c.layers, "."), "mtp.layers.0.", block);
  layer_weights(t, c, c.layers);
  if (c.mtp_names) return with_mtp_names(t, block);
  return t;
}

// --- program

constexpr ActivationKind kActivation = ActivationKind::silu;
constexpr uint32_t kAxes = 3;           // time, height, width
constexpr float kDeltaNormEps = 1e-6f;  // for queries and keys of a delta net; the config's eps does not apply

float inverse_root(uint32_t n) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(n))); }

class TextProgram {
 public:
  TextProgram(Recorder& recorder, const Config& config, const BoundWeights& weights, const TextOptions& options)
      : r_(recorder), c_(config), weights_(weights), options_(options) {}

  void record();
  void record_draft(const WeightScope& text);

 private:
  Value layer(uint32_t index, Value x);
  Value delta_block(uint32_t index, const WeightScope& w, Value x);
  Value attention_block(uint32_t index, const WeightScope& w, Value x);
  Value feed_forward_block(uint32_t index, const WeightScope& w, Value x);
  Value experts_of(uint32_t index, const WeightScope& w, Value h);

  WeightScope scope(const std::string& prefix) { return {r_, weights_, prefix}; }
  RopeId rope_table(Value coordinates);
  Value integers(const char* name, uint32_t columns) {
    return r_.input(name, {.extent = {Symbol::rows}, .width = columns, .element = Element::i32});
  }
  void mark(Value value, uint32_t index, const char* what) { r_.name(value, cat("layer.", index, ".", what)); }
  // Names a value of a delta net for traces: one row for each value head, in the order of Hugging Face's files.
  void mark_heads(Value value, uint32_t index, const char* what);

  Recorder& r_;
  const Config& c_;
  const BoundWeights& weights_;
  const TextOptions options_;
  RopeId rope_ = kNone;
};

void TextProgram::record() {
  const WeightScope w = scope("");
  const Value tokens = r_.input("tokens", {.extent = {Symbol::rows}, .width = 1, .element = Element::i32});
  const Value wanted = r_.input("wanted", {.extent = {Symbol::wanted}, .width = 1, .element = Element::i32});
  const Value coordinates = options_.media ? integers("coordinates", kAxes) : Value{};
  rope_ = rope_table(coordinates);
  Value x = embed(tokens, w["embed_tokens"], 1.0f);
  if (options_.media) {
    const Value media = integers("media", 1);
    x = scatter(x, media, r_.input("media_rows", {.extent = {Symbol::media_rows}, .width = c_.hidden}));
  }
  r_.name(x, "hidden.0");
  for (uint32_t i = 0; i < c_.layers; ++i) {
    r_.begin_layer(static_cast<int32_t>(i));
    x = layer(i, x);
    r_.name(x, cat("hidden.", i + 1));
  }
  r_.begin_layer(-1);
  const bool all_rows = options_.all_named || options_.hidden;
  if (!all_rows) x = gather(x, wanted);
  x = rms_norm(x, w["final_norm"], c_.eps);
  r_.name(x, "final_norm");
  if (options_.hidden) r_.output(x, "hidden");
  if (all_rows) x = gather(x, wanted);
  const Value logits = linear(x, c_.tied ? w["embed_tokens"] : w["lm_head"]);
  r_.output(logits, "logits");
  r_.output(sample(logits), "sample");
}

// A row of a picture has coordinates in time, height and width, and each pair turns by one of the three. Without the
// input all three coordinates are the position.
RopeId TextProgram::rope_table(Value coordinates) {
  RopeDecl rope{.inverse_frequencies = yarn_frequencies(c_.rope_theta, c_.rope_dim, c_.yarn),
                .magnitude = c_.rope_magnitude};
  if (coordinates.id == kNone) return r_.rope_table(rope);
  rope.coordinates = coordinates.id;
  for (uint32_t pair = 0; pair < rope.inverse_frequencies.size(); ++pair) {
    const uint32_t axis = pair % kAxes;
    const bool turns = pair < kAxes * static_cast<uint32_t>(c_.rope_sections[axis]);
    rope.axes.push_back(turns ? axis : 0);
  }
  return r_.rope_table(rope);
}

// The draft head predicts the next token from the text program's hidden row, after its final norm, and the token that
// follows that row.
void TextProgram::record_draft(const WeightScope& text) {
  const WeightScope w = scope("draft.");
  const auto own = [&](const char* name, const char* shared) { return w.has(name) ? w[name] : text[shared]; };
  const Value tokens = r_.input("tokens", {.extent = {Symbol::rows}, .width = 1, .element = Element::i32});
  const Value wanted = r_.input("wanted", {.extent = {Symbol::wanted}, .width = 1, .element = Element::i32});
  const Value hidden = r_.input("hidden", {.extent = {Symbol::rows}, .width = c_.hidden});
  rope_ = rope_table({});
  const Value e = embed(tokens, own("embed_tokens", "embed_tokens"), 1.0f);
  r_.begin_layer(static_cast<int32_t>(c_.layers));
  Value x = join_for_draft(r_, rms_norm(e, w["embedding_norm"], c_.eps), rms_norm(hidden, w["hidden_norm"], c_.eps),
                           c_.hidden);
  x = layer(c_.layers, x);
  r_.begin_layer(-1);
  x = rms_norm(gather(x, wanted), own("norm", "final_norm"), c_.eps);
  r_.output(x, "hidden");
  const Value logits = linear(x, own("head", c_.tied ? "embed_tokens" : "lm_head"));
  r_.output(logits, "logits");
  r_.output(sample(logits), "sample");
}

void TextProgram::mark_heads(Value value, uint32_t index, const char* what) {
  const uint32_t groups = c_.delta_key_heads, per_group = c_.delta_value_heads / groups;
  const bool keys = value.type().heads != c_.delta_value_heads;  // several value heads read each key head
  std::vector<uint32_t> order;
  for (uint32_t group = 0; group < groups; ++group)
    for (uint32_t member = 0; member < per_group; ++member) {
      const bool tiled = c_.key_heads == KeyHeads::tiled;
      order.push_back(keys ? group : tiled ? member * groups + group : group * per_group + member);
    }
  r_.name(value, cat("layer.", index, ".", what), order);
}

Value TextProgram::layer(uint32_t index, Value x) {
  const WeightScope w = scope(cat("layer.", index, "."));
  x = c_.recurrent[index] != 0 ? delta_block(index, w, x) : attention_block(index, w, x);
  return feed_forward_block(index, w, x);
}

// `count` heads of `width` elements: columns [first, first + count * width) of x.
Value part(Value x, uint32_t first, uint32_t count, uint32_t width) {
  const uint32_t unit = std::gcd(std::gcd(first, count * width), x.type().width);
  return heads(flatten(slice(heads(x, x.type().width / unit), first / unit, count * width / unit)), count);
}

// The state of a layer: the last inputs of its convolution, and a matrix of keys by values for each value head.
Value TextProgram::delta_block(uint32_t index, const WeightScope& w, Value x) {
  const Value h = rms_norm(x, w["input_norm"], c_.eps);
  r_.begin_block(BlockKind::qkv);
  const Value qkv = linear(h, w["in_proj_qkv"]);
  const Value z = heads(linear(h, w["in_proj_z"]), c_.delta_value_heads);
  const Value b = linear(h, w["in_proj_b"]);
  const Value a = linear(h, w["in_proj_a"]);
  r_.end_block();
  const State inputs = r_.slot_state(cat("layer.", index, ".conv"), 1, c_.conv_taps - 1, qkv.type().width);
  const Value mixed = short_conv(qkv, inputs, w["conv1d"]).out;
  const Value q = part(mixed, 0, c_.delta_key_heads, c_.delta_key_dim);
  const Value k = part(mixed, c_.delta_keys(), c_.delta_key_heads, c_.delta_key_dim);
  const Value v = part(mixed, 2 * c_.delta_keys(), c_.delta_value_heads, c_.delta_value_dim);
  const DeltaGate gate = delta_gates(a, b, w["decay_rate"], w["dt_bias"]);
  const State memory =
      r_.slot_state(cat("layer.", index, ".delta"), c_.delta_value_heads, c_.delta_key_dim, c_.delta_value_dim);
  const Value query = l2_norm(q, kDeltaNormEps), key = l2_norm(k, kDeltaNormEps);
  const DeltaOptions options{.scale = inverse_root(c_.delta_key_dim), .key_heads = c_.key_heads};
  const Value core = delta_rule(query, key, v, gate, memory, options).out;
  const Value y = gated_activation(z, rms_norm(core, w["delta_norm"], c_.eps), kActivation);
  const Value projected = linear(flatten(y), w["out_proj"]);
  mark_heads(q, index, "gdn_q");
  mark_heads(k, index, "gdn_k");
  mark_heads(v, index, "gdn_v");
  mark_heads(heads(gate.decay, c_.delta_value_heads), index, "gdn_g");
  mark_heads(heads(gate.beta, c_.delta_value_heads), index, "gdn_beta");
  mark_heads(core, index, "gdn_core");
  mark_heads(y, index, "gdn_out");
  mark(projected, index, "gdn_proj");
  return add(x, projected);
}

// The state of a layer: keys after norm and rope, and values.
Value TextProgram::attention_block(uint32_t index, const WeightScope& w, Value x) {
  const uint32_t kv_heads = c_.kv_heads[index];
  const Value h = rms_norm(x, w["input_norm"], c_.eps);
  r_.begin_block(BlockKind::qkv);
  const Value queries = heads(linear(h, w["q_proj"]), 2 * c_.heads);  // each query is followed by its gate
  const Value keys = heads(linear(h, w["k_proj"]), kv_heads);
  const Value v = heads(linear(h, w["v_proj"]), kv_heads);
  r_.end_block();
  const Value q = rope(rms_norm(slice(queries, 0, c_.heads, 2), w["q_norm"], c_.eps), rope_);
  const Value k = rope(rms_norm(keys, w["k_norm"], c_.eps), rope_);
  const State empty = r_.paged_state(cat("layer.", index, ".kv"), kv_heads, c_.head_dim, c_.head_dim, 0);
  const Value ungated = attention(q, append(empty, k, v), {.scale = inverse_root(c_.head_dim)});
  const Value a = flatten(gated_activation(slice(queries, 1, c_.heads, 2), ungated, ActivationKind::sigmoid));
  const Value projected = linear(a, w["o_proj"]);
  mark(q, index, "q");
  mark(k, index, "k");
  mark(v, index, "v");
  mark(ungated, index, "attn_ungated");
  mark(a, index, "attn_out");
  mark(projected, index, "attn_proj");
  return add(x, projected);
}

Value TextProgram::feed_forward_block(uint32_t index, const WeightScope& w, Value x) {
  const Value h = rms_norm(x, w["post_attention_norm"], c_.eps);
  const Value y = c_.experts != 0 ? experts_of(index, w, h)
                                  : gated_mlp(h, w["gate_proj"], w["up_proj"], w["down_proj"], kActivation);
  mark(y, index, "mlp_out");
  return add(x, y);
}

Value TextProgram::experts_of(uint32_t index, const WeightScope& w, Value h) {
  // These products are recorded side by side because they read the same rows, so a device can fuse them.
  const Value logits = linear(h, w["router"]), gate = linear(h, w["shared_expert_gate"]);
  r_.begin_block(BlockKind::moe);
  const Routed routed = route(logits, {.k = c_.experts_used});
  const Value y = experts(h, routed, w["experts.gate_proj"], w["experts.up_proj"], w["experts.down_proj"], kActivation);
  r_.end_block();
  const Value shared =
      gated_mlp(h, w["shared_expert.gate_proj"], w["shared_expert.up_proj"], w["shared_expert.down_proj"], kActivation);
  mark(logits, index, "router_logits");
  mark(routed.index, index, "topk_index");
  mark(routed.weight, index, "topk_weights");
  mark(y, index, "experts_out");
  mark(shared, index, "shared_out");
  mark(gate, index, "shared_gate");
  return add(y, gated_activation(gate, shared, ActivationKind::sigmoid));
}

// --- families: dense, and with experts

constexpr const char* kDense = "qwen35";
constexpr const char* kExperts = "qwen35moe";
constexpr const char* kTitle = "Qwen3.5/3.6";

void add_details(const Config& c, ModelFacts& facts) {
  const auto full = std::count(c.recurrent.begin(), c.recurrent.begin() + c.layers, 0u);
  facts.details.emplace_back("attention", cat(c.layers - full, " layers of gated delta net, ", full, " full"));
  facts.details.emplace_back("heads", cat(c.heads, " of ", c.head_dim));
  if (c.yarn.factor > 1) facts.details.emplace_back("positions", yarn_text(c.yarn));
  facts.details.emplace_back("delta net", cat(c.delta_value_heads, " value heads of ", c.delta_value_dim, " on ",
                                              c.delta_key_heads, " key heads of ", c.delta_key_dim));
  if (c.experts != 0)
    facts.details.emplace_back("experts", cat(c.experts, " of ", c.expert_width, ", ", c.experts_used,
                                              " for each token, and a shared one of ", c.shared_width));
}

template <const char* const& kArchitecture>
Result<FamilyModel> read(const Checkpoint& checkpoint, const SourceNames& names) {
  TRY(const Config config, read_config(checkpoint, names, kArchitecture));
  FamilyModel model = family_model(config);
  add_details(config, model.facts);
  model.gguf_config = gguf_config(config, kArchitecture);
  model.programs.push_back(
      {.kind = ProgramKind::text,
       .weights = weight_table_of(config),
       .record = [config](Recorder& recorder, const BoundWeights& text, const BoundWeights&,
                          const TextOptions& options) { TextProgram(recorder, config, text, options).record(); }});
  if (std::optional<FamilyProgram> vision = vision_program(checkpoint, names, kArchitecture, config.hidden))
    model.programs.push_back(*std::move(vision));
  if (config.draft_head)
    model.programs.push_back(
        {.kind = ProgramKind::draft_head,
         .weights = draft_table_of(config),
         .record = [config](Recorder& recorder, const BoundWeights& text, const BoundWeights& own, const TextOptions&) {
           TextProgram(recorder, config, own, {}).record_draft(WeightScope(recorder, text, ""));
         }});
  return model;
}

const std::vector<std::string>& prefixes() {
  static const std::vector<std::string> kPrefixes = {"model.language_model.", "language_model.model.",
                                                     "language_model.", "model."};
  return kPrefixes;
}

}  // namespace

const Family& dense() {
  static const Family kFamily = {.name = kDense,
                                 .title = kTitle,
                                 .model_types = {"qwen3_5", "qwen3_5_text"},
                                 .prefixes = prefixes(),
                                 .read = read<kDense>};
  return kFamily;
}

const Family& with_experts() {
  static const Family kFamily = {.name = kExperts,
                                 .title = kTitle,
                                 .model_types = {"qwen3_5_moe", "qwen3_5_moe_text"},
                                 .prefixes = prefixes(),
                                 .read = read<kExperts>};
  return kFamily;
}

}  // namespace sluice::qwen3_5
