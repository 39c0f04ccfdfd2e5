// Gemma 4, text: E2B, E4B, 12B, 26B-A4B, 31B. Source: transformers modeling_gemma4.py (5.17.0), and llama.cpp and
// Ollama for GGUF names.
//
// Unlike Gemma 3: norms multiply by their stored weight (no 1 + w). Queries, keys and values are normed per head
// (values without weight), so the attention scale is 1. Full layers have another head width, and rope turns only a part
// of their pairs. In the larger models the values of full layers are their keys before norm and rope. In the small
// models the last layers read keys and values of earlier layers, and every layer adds its own embedding of each token.
// 26B-A4B has experts beside the dense feed-forward layer. Each layer multiplies the residual stream by one scalar at
// its end.
//
// The config is in gemma4_config.h. Below: the weights, the program with each layer's state, the Family.

#include <algorithm>
#include <cmath>

#include "model/families/gemma4_config.h"
#include "model/family.h"
#include "model/rope_config.h"
#include "model/towers/gemma4_audio.h"
#include "model/towers/gemma4_unified.h"
#include "model/towers/gemma4_vision.h"

namespace sluice::gemma4 {
namespace {

// --- weights

void attention_weights(WeightTable& t, const Config& c, const Layer& l) {
  const uint32_t q = c.heads * l.head_dim, kv = l.kv_heads * l.head_dim;
  const uint32_t fused = q + 2 * kv;  // rows of GGUF's optional attn_qkv
  t.add("input_norm", vector_of(c.hidden), "input_layernorm.weight", "attn_norm.weight");
  t.add("q_proj", matrix(q, c.hidden), {{"self_attn.q_proj.weight"}},
        {{"attn_q.weight"}, {"attn_qkv.weight", 0, fused}});
  t.add("q_norm", vector_of(l.head_dim), "self_attn.q_norm.weight", "attn_q_norm.weight");
  if (l.owns_kv) {
    t.add("k_proj", matrix(kv, c.hidden), {{"self_attn.k_proj.weight"}},
          {{"attn_k.weight"}, {"attn_qkv.weight", q, fused}});
    t.add("k_norm", vector_of(l.head_dim), "self_attn.k_norm.weight", "attn_k_norm.weight");
    if (!l.value_is_key)
      t.add("v_proj", matrix(kv, c.hidden), {{"self_attn.v_proj.weight"}},
            {{"attn_v.weight"}, {"attn_qkv.weight", q + kv, fused}});
  } else {  // some files have tensors for these layers although nothing reads them
    t.ignore("self_attn.k_proj.weight", "attn_k.weight");
    t.ignore("self_attn.v_proj.weight", "attn_v.weight");
    t.ignore("self_attn.k_norm.weight", "attn_k_norm.weight");
  }
  t.add("o_proj", matrix(c.hidden, q), "self_attn.o_proj.weight", "attn_output.weight");
  t.add("post_attention_norm", vector_of(c.hidden), "post_attention_layernorm.weight", "post_attention_norm.weight");
}

void experts_weights(WeightTable& t, const Config& c) {
  const WeightShape in{c.experts, c.expert_width, c.hidden}, out{c.experts, c.hidden, c.expert_width};
  const uint32_t width = c.expert_width, fused = 2 * width;  // the rows of an expert's gate, then those of its up
  t.add("post_feedforward_norm_1", vector_of(c.hidden), "post_feedforward_layernorm_1.weight",
        "post_ffw_norm_1.weight");
  t.add("router_scale", vector_of(c.hidden), "router.scale", "ffn_gate_inp.scale");
  t.add("router", matrix(c.experts, c.hidden), "router.proj.weight", "ffn_gate_inp.weight");
  t.add("per_expert_scale", vector_of(c.experts), {{"router.per_expert_scale"}},
        {{"ffn_down_exps.scale"}, {"ffn_gate_inp.per_expert_scale"}});
  t.add("pre_feedforward_norm_2", vector_of(c.hidden), "pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight");
  t.add("experts.gate_proj", in,
        {{"experts.gate_up_proj", 0, fused},
         {"experts.switch_glu.gate_proj.weight"},
         {"experts.*.gate_proj.weight"},
         {"moe.experts.*.gate_proj.weight"}},
        {{"ffn_gate_up_exps.weight", 0, fused}, {"ffn_gate_exps.weight"}, {"ffn_gate.*.weight"}});
  t.add("experts.up_proj", in,
        {{"experts.gate_up_proj", width, fused},
         {"experts.switch_glu.up_proj.weight"},
         {"experts.*.up_proj.weight"},
         {"moe.experts.*.up_proj.weight"}},
        {{"ffn_gate_up_exps.weight", width, fused}, {"ffn_up_exps.weight"}, {"ffn_up.*.weight"}});
  t.add("experts.down_proj", out,
        {{"experts.down_proj"},
         {"experts.switch_glu.down_proj.weight"},
         {"experts.*.down_proj.weight"},
         {"moe.experts.*.down_proj.weight"}},
        {{"ffn_down_exps.weight"}, {"ffn_down.*.weight"}});
  t.add("post_feedforward_norm_2", vector_of(c.hidden), "post_feedforward_layernorm_2.weight",
        "post_ffw_norm_2.weight");
}

void layer_weights(WeightTable& t, const Config& c, const Layer& l) {
  t.section(cat("layer.", l.index, "."), cat("layers.", l.index, "."), cat("blk.", l.index, "."));
  attention_weights(t, c, l);
  t.add("pre_feedforward_norm", vector_of(c.hidden), "pre_feedforward_layernorm.weight", "ffn_norm.weight");
  t.add("gate_proj", matrix(l.feed_forward, c.hidden), "mlp.gate_proj.weight", "ffn_gate.weight");
  t.add("up_proj", matrix(l.feed_forward, c.hidden), "mlp.up_proj.weight", "ffn_up.weight");
  t.add("down_proj", matrix(c.hidden, l.feed_forward), "mlp.down_proj.weight", "ffn_down.weight");
  if (c.experts != 0) experts_weights(t, c);
  t.add("post_feedforward_norm", vector_of(c.hidden), "post_feedforward_layernorm.weight", "post_ffw_norm.weight");
  if (c.per_layer_width != 0) {
    t.add("per_layer_gate", matrix(c.per_layer_width, c.hidden), "per_layer_input_gate.weight", "inp_gate.weight");
    t.add("per_layer_projection", matrix(c.hidden, c.per_layer_width), "per_layer_projection.weight", "proj.weight");
    t.add("post_per_layer_norm", vector_of(c.hidden), "post_per_layer_input_norm.weight", "post_norm.weight");
  }
  if (c.scaled) t.add("layer_scalar", vector_of(1), "layer_scalar", "layer_output_scale.weight");
}

WeightTable weight_table_of(const Config& c) {
  WeightTable t;
  t.add("embed_tokens", matrix(c.vocabulary, c.hidden), "embed_tokens.weight", "token_embd.weight");
  if (c.per_layer_width != 0) {
    const uint32_t all = c.layers * c.per_layer_width;
    t.add("per_layer_embed", matrix(c.vocabulary, all), "embed_tokens_per_layer.weight", "per_layer_token_embd.weight");
    t.add("per_layer_projection", matrix(all, c.hidden), "per_layer_model_projection.weight",
          "per_layer_model_proj.weight");
    t.add("per_layer_norm", vector_of(c.per_layer_width), "per_layer_projection_norm.weight",
          "per_layer_proj_norm.weight");
  }
  for (uint32_t i = 0; i < c.layers; ++i) layer_weights(t, c, layer_of(c, i));
  t.section("", "", "");
  t.add("final_norm", vector_of(c.hidden), "norm.weight", "output_norm.weight");
  if (c.tied) {  // a GGUF file has a tied head if it has no output.weight
    t.add_optional("lm_head", matrix(c.vocabulary, c.hidden), {}, {{"output.weight"}});
    t.ignore("lm_head.weight", nullptr);
  } else {
    t.add("lm_head", matrix(c.vocabulary, c.hidden), "lm_head.weight", "output.weight");
  }
  t.ignore(nullptr, "rope_freqs.weight");  // part of the config
  t.towers(Dialect::hugging_face,
           {"vision_tower.", "audio_tower.", "embed_vision.", "embed_audio.", "vision_embedder."});
  t.towers(Dialect::gguf, {"v.", "a.", "mm.", "model.vision_tower."});
  return t;
}

// --- program

constexpr ActivationKind kActivation = ActivationKind::gelu_tanh;

float square_root(uint32_t n) { return static_cast<float>(std::sqrt(static_cast<double>(n))); }
float inverse_root(uint32_t n) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(n))); }

class TextProgram {
 public:
  TextProgram(Recorder& recorder, const Config& config, const BoundWeights& weights, const TextOptions& options)
      : r_(recorder), c_(config), weights_(weights), options_(options) {}

  void record();

 private:
  struct KeysValues {
    State state;
    Value k, v;
  };

  Value per_layer_inputs(Value x);
  Value layer(const Layer& l, Value x);
  Value attention_block(const Layer& l, const WeightScope& w, Value x);
  KeysValues keys_values(const Layer& l, const WeightScope& w, Value k, Value v);
  Value feed_forward_block(const Layer& l, const WeightScope& w, Value x);
  Value experts_of(const Layer& l, const WeightScope& w, Value x);
  Value per_layer_block(const Layer& l, const WeightScope& w, Value x);

  WeightScope scope(const std::string& prefix) { return {r_, weights_, prefix}; }
  RopeId rope_of(const Layer& l) const { return l.sliding ? sliding_rope_ : full_rope_; }
  Value embedding();
  Value input(const char* name) {
    return r_.input(name, {.extent = {Symbol::rows}, .width = 1, .element = Element::i32});
  }
  bool sees_ahead() const { return options_.media && c_.sees_ahead; }
  void mark(Value value, const Layer& l, const char* what) { r_.name(value, cat("layer.", l.index, ".", what)); }

  Recorder& r_;
  const Config& c_;
  const BoundWeights& weights_;
  const TextOptions options_;
  RopeId full_rope_ = kNone, sliding_rope_ = kNone;
  Value tokens_, wanted_;
  Value last_;                       // last position that a row sees in sliding layers; none: its own
  Value per_layer_;                  // [rows, layers, per_layer_width]
  std::vector<KeysValues> written_;  // of each layer that owns keys and values
};

void TextProgram::record() {
  const WeightScope w = scope("");
  tokens_ = input("tokens");
  r_.placeholders({c_.soft_tokens, c_.padding});
  wanted_ = r_.input("wanted", {.extent = {Symbol::wanted}, .width = 1, .element = Element::i32});
  full_rope_ =
      r_.rope_table({.inverse_frequencies = yarn_frequencies(c_.rope_theta, c_.head_dim, c_.yarn, c_.rope_factors),
                     .magnitude = static_cast<float>(yarn_magnitude(static_cast<double>(c_.yarn.factor)))});
  sliding_rope_ =
      r_.rope_table({.inverse_frequencies = inverse_frequencies(c_.sliding_rope_theta, c_.sliding_head_dim)});

  Value x = embedding();
  if (c_.per_layer_width != 0) per_layer_ = per_layer_inputs(x);
  r_.name(x, "hidden.0");
  // "last" has all rows, so attention that reads it must run before rows are narrowed to wanted ones.
  const uint32_t last_owner = c_.layers - (sees_ahead() ? 0 : c_.shared_kv_layers) - 1;
  for (uint32_t i = 0; i < c_.layers; ++i) {
    r_.begin_layer(static_cast<int32_t>(i));
    x = layer(layer_of(c_, i), x);
    r_.name(x, cat("hidden.", i + 1));
    if (i == last_owner && !options_.all_named) {  // no later layer writes state: only wanted rows go on
      x = gather(x, wanted_);
      if (c_.per_layer_width != 0) per_layer_ = gather(per_layer_, wanted_);
    }
  }
  r_.begin_layer(-1);
  x = rms_norm(x, w["final_norm"], c_.eps);
  r_.name(x, "final_norm");
  if (options_.all_named) x = gather(x, wanted_);
  Value logits = linear(x, w.has("lm_head") ? w["lm_head"] : w["embed_tokens"]);
  if (c_.softcap > 0.0f) logits = softcap(logits, c_.softcap);
  r_.output(logits, "logits");
  r_.output(sample(logits), "sample");
}

// The scaled embedding of each token; a tower's row in place of a token is not scaled.
Value TextProgram::embedding() {
  const Value x = embed(tokens_, scope("")["embed_tokens"], square_root(c_.hidden));
  if (!options_.media) return x;
  const Value media = input("media");
  const Value rows = r_.input("media_rows", {.extent = {Symbol::media_rows}, .width = c_.hidden});
  if (sees_ahead()) last_ = input("last");
  return scatter(x, media, rows);
}

// For each token and layer: the token's row of the per-layer table plus a projection of its embedding.
Value TextProgram::per_layer_inputs(Value x) {
  const WeightScope w = scope("");
  const Value token = heads(embed(tokens_, w["per_layer_embed"], square_root(c_.per_layer_width)), c_.layers);
  const Value projected = scale(linear(x, w["per_layer_projection"]), inverse_root(c_.hidden));
  const Value context = rms_norm(heads(projected, c_.layers), w["per_layer_norm"], c_.eps);
  const Value both = scale(add(context, token), inverse_root(2));
  r_.name(token, "per_layer_token");
  r_.name(both, "per_layer_inputs");
  return both;
}

Value TextProgram::layer(const Layer& l, Value x) {
  const WeightScope w = scope(cat("layer.", l.index, "."));
  x = attention_block(l, w, x);
  x = feed_forward_block(l, w, x);
  if (c_.per_layer_width != 0) x = per_layer_block(l, w, x);
  return c_.scaled ? scale(x, w["layer_scalar"]) : x;
}

Value TextProgram::attention_block(const Layer& l, const WeightScope& w, Value x) {
  const Value h = rms_norm(x, w["input_norm"], c_.eps);
  Value q, k, v;
  if (l.owns_kv) {
    r_.begin_block(BlockKind::qkv);
    q = linear(h, w["q_proj"]);
    k = linear(h, w["k_proj"]);
    v = l.value_is_key ? k : linear(h, w["v_proj"]);
    r_.end_block();
    written_.push_back(keys_values(l, w, k, v));
  } else {
    q = linear(h, w["q_proj"]);
  }
  q = rope(rms_norm(heads(q, c_.heads), w["q_norm"], c_.eps), rope_of(l));
  const KeysValues& kv = written_[l.kv_layer];
  const Value last = l.sliding ? last_ : Value{};
  const Value a = flatten(attention(q, kv.state, {.scale = 1.0f, .window = l.window, .last = last}));
  const Value projected = linear(a, w["o_proj"]);
  mark(q, l, "q");
  mark(kv.k, l, "k");
  mark(kv.v, l, "v");
  mark(a, l, "attn_out");
  mark(projected, l, "attn_proj");
  return add(x, rms_norm(projected, w["post_attention_norm"], c_.eps));
}

// The state of a layer: keys after norm and rope, and values after a norm without weight.
TextProgram::KeysValues TextProgram::keys_values(const Layer& l, const WeightScope& w, Value k, Value v) {
  k = rope(rms_norm(heads(k, l.kv_heads), w["k_norm"], c_.eps), rope_of(l));
  v = rms_norm(heads(v, l.kv_heads), c_.eps);
  const State empty = r_.paged_state(cat("layer.", l.index, ".kv"), l.kv_heads, l.head_dim, l.head_dim, l.window);
  return {append(empty, k, v), k, v};
}

Value TextProgram::feed_forward_block(const Layer& l, const WeightScope& w, Value x) {
  // Experts come first, because they may have to be fetched.
  const Value chosen = c_.experts != 0 ? experts_of(l, w, x) : Value{};
  const Value h = rms_norm(x, w["pre_feedforward_norm"], c_.eps);
  Value y = gated_mlp(h, w["gate_proj"], w["up_proj"], w["down_proj"], kActivation);
  mark(y, l, "mlp_out");
  if (c_.experts != 0) {
    const Value dense = rms_norm(y, w["post_feedforward_norm_1"], c_.eps);
    y = add(dense, rms_norm(chosen, w["post_feedforward_norm_2"], c_.eps));
  }
  return add(x, rms_norm(y, w["post_feedforward_norm"], c_.eps));
}

// The router and the experts both read the residual stream, each through its own norm.
Value TextProgram::experts_of(const Layer& l, const WeightScope& w, Value x) {
  const Value scaled = scale(rms_norm(x, c_.eps), w["router_scale"], inverse_root(c_.hidden));
  const Value logits = linear(scaled, w["router"]);
  const Value h = rms_norm(x, w["pre_feedforward_norm_2"], c_.eps);
  r_.begin_block(BlockKind::moe);
  const Routed routed = route(logits, {.k = c_.experts_used, .per_expert_scale = w["per_expert_scale"]});
  const Value y = experts(h, routed, w["experts.gate_proj"], w["experts.up_proj"], w["experts.down_proj"], kActivation);
  r_.end_block();
  mark(logits, l, "router_logits");
  mark(routed.index, l, "topk_index");
  mark(routed.weight, l, "topk_weights");
  mark(y, l, "experts_out");
  return y;
}

Value TextProgram::per_layer_block(const Layer& l, const WeightScope& w, Value x) {
  const Value gate = linear(x, w["per_layer_gate"]);
  const Value gated = gated_activation(gate, slice(per_layer_, l.index, 1), kActivation);
  const Value y = rms_norm(linear(gated, w["per_layer_projection"]), w["post_per_layer_norm"], c_.eps);
  mark(y, l, "ple_out");
  return add(x, y);
}

// --- family

std::string numbered(size_t count, const char* what) { return cat(count, " ", what, count == 1 ? "" : "s"); }

void add_details(const Config& c, ModelFacts& facts) {
  const auto sliding = static_cast<size_t>(std::count(c.sliding.begin(), c.sliding.end(), 1u));
  facts.details.emplace_back("attention", cat(numbered(sliding, "layer"), " of window ", c.window, ", ",
                                              numbered(c.layers - sliding, "full layer")));
  facts.details.emplace_back("heads", cat(c.heads, " of ", c.sliding_head_dim, ", in full layers of ", c.head_dim));
  if (c.yarn.factor > 1) facts.details.emplace_back("positions", cat(yarn_text(c.yarn), " in full layers"));
  if (c.shared_kv_layers != 0)
    facts.details.emplace_back("shared keys and values", numbered(c.shared_kv_layers, "layer"));
  if (c.per_layer_width != 0) facts.details.emplace_back("per-layer embeddings", cat("width ", c.per_layer_width));
  if (c.experts != 0)
    facts.details.emplace_back("experts",
                               cat(c.experts, " of ", c.expert_width, ", ", c.experts_used, " for each token"));
}

std::vector<FamilyProgram> towers_of(const Checkpoint& checkpoint, const SourceNames& names, const Config& c) {
  std::vector<FamilyProgram> towers = unified_towers(checkpoint, names, c.hidden);
  if (towers.empty()) {
    if (auto vision = vision_tower(checkpoint, names, c.hidden)) towers.push_back(*std::move(vision));
    if (auto audio = audio_tower(checkpoint, names, c.hidden)) towers.push_back(*std::move(audio));
  }
  for (FamilyProgram& tower : towers) tower.sees_ahead = c.sees_ahead && tower.kind == ProgramKind::vision;
  return towers;
}

Result<FamilyModel> read(const Checkpoint& checkpoint, const SourceNames& names) {
  TRY(const Config config, read_config(checkpoint, names));
  FamilyModel model = family_model(config);
  add_details(config, model.facts);
  model.gguf_config = gguf_config(config);
  model.gguf_made_tensors = {{"rope_freqs.weight", config.rope_factors}};
  model.programs.push_back(
      {.kind = ProgramKind::text,
       .weights = weight_table_of(config),
       .record = [config](Recorder& recorder, const BoundWeights& text, const BoundWeights&,
                          const TextOptions& options) { TextProgram(recorder, config, text, options).record(); }});
  for (FamilyProgram& tower : towers_of(checkpoint, names, config)) model.programs.push_back(std::move(tower));
  return model;
}

}  // namespace

const Family& family() {
  static const Family kFamily = {
      .name = "gemma4",
      .title = "Gemma 4",
      .model_types = {"gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"},
      .prefixes = {"model.language_model.", "language_model.model.", "language_model.", "model."},
      .read = read};
  return kFamily;
}

}  // namespace sluice::gemma4
