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
// The config is in gemma4_config.h, the blocks of a layer are in gemma4_layers.h, and the model that drafts for this
// one is in gemma4_assistant.h. Below: the weights, the program with each layer's state, the Family.

#include <algorithm>
#include <optional>

#include "model/families/gemma4_assistant.h"
#include "model/families/gemma4_config.h"
#include "model/families/gemma4_layers.h"
#include "model/family.h"
#include "model/rope_config.h"
#include "model/towers/gemma4_audio.h"
#include "model/towers/gemma4_unified.h"
#include "model/towers/gemma4_vision.h"

namespace sluice::gemma4 {
namespace {

// --- weights

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
  for (uint32_t i = 0; i < c.layers; ++i) {
    t.section(cat("layer.", i, "."), cat("layers.", i, "."), cat("blk.", i, "."));
    layer_weights(t, c, layer_of(c, i));
  }
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

class TextProgram : Layers {
 public:
  TextProgram(Recorder& recorder, const Config& config, const BoundWeights& weights, const TextOptions& options)
      : Layers(recorder, config), weights_(weights), options_(options) {}

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
  Value per_layer_block(const Layer& l, const WeightScope& w, Value x);
  void give_to_draft_model(Value hidden);

  WeightScope scope(const std::string& prefix) { return {r_, weights_, prefix}; }
  Value embedding();
  Value input(const char* name) {
    return r_.input(name, {.extent = {Symbol::rows}, .width = 1, .element = Element::i32});
  }
  bool sees_ahead() const { return options_.media && c_.sees_ahead; }

  const BoundWeights& weights_;
  const TextOptions options_;
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
  declare_ropes(c_, {});

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
  if (options_.hidden) give_to_draft_model(x);
  Value logits = linear(x, w.has("lm_head") ? w["lm_head"] : w["embed_tokens"]);
  if (c_.softcap > 0.0f) logits = softcap(logits, c_.softcap);
  r_.output(logits, "logits");
  r_.output(sample(logits), "sample");
}

// What the draft model reads: the row after the final norm, and the keys and values of the last layers that have some.
void TextProgram::give_to_draft_model(Value hidden) {
  r_.output(hidden, "hidden");
  for (const bool sliding : {true, false}) {
    const std::optional<Layer> last = last_owner(c_, sliding);
    if (!last) continue;
    r_.output(written_[last->index].k, shared_keys(sliding));
    r_.output(written_[last->index].v, shared_values(sliding));
  }
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
  const KeysValues& kv = written_[l.kv_layer];
  x = attend(l, w, x, q, kv.state, l.sliding ? last_ : Value{});
  mark(kv.k, l, "k");
  mark(kv.v, l, "v");
  return x;
}

// The state of a layer: keys after norm and rope, and values after a norm without weight.
TextProgram::KeysValues TextProgram::keys_values(const Layer& l, const WeightScope& w, Value k, Value v) {
  k = rope(rms_norm(heads(k, l.kv_heads), w["k_norm"], c_.eps), rope_of(l));
  v = rms_norm(heads(v, l.kv_heads), c_.eps);
  const State empty = r_.paged_state(cat("layer.", l.index, ".kv"), l.kv_heads, l.head_dim, l.head_dim, l.window);
  return {append(empty, k, v), k, v};
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
  model.read_draft_model = [config](const Checkpoint& assistant, const SourceNames& of_assistant) {
    return read_assistant(assistant, of_assistant, config);
  };
  return model;
}

}  // namespace

const Family& family() {
  static const Family kFamily = {
      .name = kArchitecture,
      .title = "Gemma 4",
      .model_types = {"gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"},
      .prefixes = {"model.language_model.", "language_model.model.", "language_model.", "model."},
      .read = read,
      .draft_models = {kAssistantArchitecture, "gemma4_assistant", "gemma4_unified_assistant"}};
  return kFamily;
}

}  // namespace sluice::gemma4
