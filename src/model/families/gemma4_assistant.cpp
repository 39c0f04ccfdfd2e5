#include "model/families/gemma4_assistant.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "model/draft_weights.h"
#include "model/families/gemma4_layers.h"

namespace sluice::gemma4 {
namespace {

// Where the head looks at a few clusters of tokens alone.
struct Clusters {
  uint32_t count = 0;        // 0: it computes the logits of all tokens
  uint32_t looked_at = 0;    // with the best scores
  std::vector<float> order;  // the tokens of the first cluster, then those of the next; f32 holds them exactly
};

WeightTable weight_table_of(const Config& c, const Config& text, const Clusters& clusters) {
  WeightTable t;
  t.section("draft.", "", "nextn.");
  t.add("fc", matrix(c.hidden, 2 * text.hidden), "pre_projection.weight", "pre_projection.weight");
  t.add("post_projection", matrix(text.hidden, c.hidden), "post_projection.weight", "post_projection.weight");
  t.section("draft.", "", "");
  t.add("embed_tokens", matrix(c.vocabulary, c.hidden), "embed_tokens.weight", "token_embd.weight");
  t.add("final_norm", vector_of(c.hidden), "norm.weight", "output_norm.weight");
  if (clusters.count != 0)
    t.add("centroids", matrix(clusters.count, c.hidden), "masked_embedding.centroids.weight",
          "masked_embd_centroids.weight");
  for (uint32_t i = 0; i < c.layers; ++i) {
    t.section(cat("draft.layer.", i, "."), cat("layers.", i, "."), cat("blk.", i, "."));
    layer_weights(t, c, layer_of(c, i));
  }
  return t;
}

class AssistantProgram : Layers {
 public:
  AssistantProgram(Recorder& recorder, const Config& config, const Config& text, const Clusters& clusters,
                   const BoundWeights& weights)
      : Layers(recorder, config), text_(text), clusters_(clusters), weights_(weights) {}

  void record(const WeightScope& text);

 private:
  State keys_values(const Layer& l);
  Value layer(const Layer& l, State keys_values, Value x);
  Value logits_of(Value x);

  WeightScope scope(const std::string& prefix) { return {r_, weights_, prefix}; }
  Value integers(const char* name, Symbol rows) {
    return r_.input(name, {.extent = {rows}, .width = 1, .element = Element::i32});
  }

  const Config& text_;
  const Clusters& clusters_;
  const BoundWeights& weights_;
};

void AssistantProgram::record(const WeightScope& text) {
  const WeightScope w = scope("draft.");
  const Value tokens = integers("tokens", Symbol::wanted);
  integers("wanted", Symbol::wanted);
  const Value hidden = r_.input("hidden", {.extent = {Symbol::wanted}, .width = text_.hidden});
  declare_ropes(text_, integers("positions", Symbol::rows));
  std::array<State, 2> states;
  std::array<bool, 2> read{};
  for (uint32_t i = 0; i < c_.layers; ++i) {
    const Layer l = layer_of(c_, i);
    if (!std::exchange(read[l.sliding], true)) states[l.sliding] = keys_values(l);
  }
  const Value e = embed(tokens, text["embed_tokens"], square_root(text_.hidden));
  Value x = join_for_draft(r_, e, hidden, c_.hidden);
  r_.name(x, "projected");
  for (uint32_t i = 0; i < c_.layers; ++i) {
    const Layer l = layer_of(c_, i);
    r_.begin_layer(static_cast<int32_t>(i));
    r_.name(x, cat("layer.", i));
    x = layer(l, states[l.sliding], x);
  }
  r_.begin_layer(-1);
  x = rms_norm(x, w["final_norm"], c_.eps);
  r_.name(x, cat("layer.", c_.layers));  // as transformers has it: the last one after the norm
  r_.output(linear(x, w["post_projection"]), "hidden");
  const Value logits = logits_of(x);
  r_.output(logits, "logits");
  r_.output(sample(logits), "sample");
}

Value AssistantProgram::logits_of(Value x) {
  const WeightScope w = scope("draft.");
  if (clusters_.count == 0) return linear(x, w["embed_tokens"]);
  const Value scores = linear(x, w["centroids"]);
  return clustered_logits(x, scores, w["embed_tokens"], w["token_order"], clusters_.looked_at);
}

// The text model's, of the rows that stood.
State AssistantProgram::keys_values(const Layer& l) {
  const ValueType type{.extent = {Symbol::rows}, .width = l.kv_heads * l.head_dim};
  const Value k = heads(r_.input(shared_keys(l.sliding), type), l.kv_heads);
  const Value v = heads(r_.input(shared_values(l.sliding), type), l.kv_heads);
  const char* const name = l.sliding ? "sliding.kv" : "full.kv";
  return append(r_.paged_state(name, l.kv_heads, l.head_dim, l.head_dim, l.window), k, v);
}

Value AssistantProgram::layer(const Layer& l, State keys_values, Value x) {
  const WeightScope w = scope(cat("draft.layer.", l.index, "."));
  const Value q = linear(rms_norm(x, w["input_norm"], c_.eps), w["q_proj"]);
  x = attend(l, w, x, q, keys_values, {});
  x = feed_forward_block(l, w, x);
  return c_.scaled ? scale(x, w["layer_scalar"]) : x;
}

Error refuse(const Checkpoint& checkpoint, const std::string& what) {
  return error(ErrorKind::invalid, checkpoint.path(), ": ", what, ": want an assistant of this model");
}

Status check_architecture(const Checkpoint& checkpoint) {
  if (checkpoint.dialect() == Dialect::gguf) {
    TRY(const std::string architecture, checkpoint.metadata().get_string("general.architecture"));
    if (architecture == kAssistantArchitecture) return {};
    return refuse(checkpoint, cat("general.architecture is ", printable(architecture)));
  }
  const Json* config = checkpoint.document("config.json");
  const Json* type = config == nullptr ? nullptr : config->find("model_type");
  if (type != nullptr && type->is_string())
    for (const char* known : {"gemma4_assistant", "gemma4_unified_assistant"})
      if (type->as_string() == known) return {};
  return refuse(checkpoint, cat("model_type is ", type == nullptr ? "missing" : printable(write_json(*type))));
}

// The width of the text model's rows that the assistant takes; 0: it does not say.
uint32_t width_of_rows(const Checkpoint& checkpoint) {
  if (checkpoint.dialect() == Dialect::gguf) {
    const Result<uint32_t> width = checkpoint.metadata().get_u32(cat(kAssistantArchitecture, ".embedding_length_out"));
    return width ? *width : 0;
  }
  const Json* width = checkpoint.document("config.json")->find("backbone_hidden_size");
  const bool sound = width != nullptr && width->is_integer() && width->as_integer() > 0;
  return sound ? static_cast<uint32_t>(std::min<int64_t>(width->as_integer(), kMaxWidth)) : 0;
}

// Whether the assistant can read the text model's tokens, rows, keys and values.
Status check_fits(const Checkpoint& checkpoint, const Config& c, const Config& text) {
  const auto want = [&](const char* what, auto is, auto wanted) -> Status {
    if (is == wanted) return {};
    return refuse(checkpoint, cat("its ", what, " is ", is, " where the model has ", wanted));
  };
  if (const uint32_t width = width_of_rows(checkpoint)) TRY_STATUS(want("width of rows", width, text.hidden));
  TRY_STATUS(want("vocabulary", c.vocabulary, text.vocabulary));
  TRY_STATUS(want("window", c.window, text.window));
  TRY_STATUS(want("rope theta", c.rope_theta, text.rope_theta));
  TRY_STATUS(want("rope theta of sliding layers", c.sliding_rope_theta, text.sliding_rope_theta));
  if (c.per_layer_width != 0 || c.experts != 0)
    return refuse(checkpoint, "it has per-layer embeddings or experts, which no assistant has");
  for (uint32_t i = 0; i < c.layers; ++i) {
    const Layer l = layer_of(c, i);
    const std::optional<Layer> read = last_owner(text, l.sliding);
    if (!read) return refuse(checkpoint, cat("its layer ", i, " reads keys of a kind that the model has not"));
    TRY_STATUS(want("width of heads", l.head_dim, read->head_dim));
    TRY_STATUS(want("number of heads of keys", l.kv_heads, read->kv_heads));
  }
  return {};
}

// Hugging Face only: llama.cpp's files have no clusters.
Result<Clusters> read_clusters(const Checkpoint& checkpoint, const SourceNames& names, const Config& c) {
  Clusters clusters;
  if (checkpoint.dialect() == Dialect::gguf) return clusters;
  const Json& config = *checkpoint.document("config.json");
  const Json* ordered = config.find("use_ordered_embeddings");
  if (ordered == nullptr || !ordered->is_bool() || !ordered->as_bool()) return clusters;
  const auto number = [&](const char* name, uint32_t most) -> Result<uint32_t> {
    const Json* value = config.find(name);
    if (value != nullptr && value->is_integer() && value->as_integer() >= 1 && value->as_integer() <= most)
      return static_cast<uint32_t>(value->as_integer());
    return error(ErrorKind::invalid, join_path(checkpoint.path(), "config.json"), ": ", name, " is ",
                 value == nullptr ? "missing" : printable(write_json(*value)), ": want 1 to ", most);
  };
  TRY(clusters.count, number("num_centroids", std::min(kMaxClusters, c.vocabulary)));
  TRY(clusters.looked_at, number("centroid_intermediate_top_k", clusters.count));
  constexpr const char* kOrder = "masked_embedding.token_ordering";
  const StoredTensor* stored = names.find(kOrder);
  const std::vector<int64_t> want = {c.vocabulary};
  if (stored == nullptr || stored->format != Format::i64 || stored->shape != want || c.vocabulary % clusters.count != 0)
    return error(ErrorKind::invalid, checkpoint.path(), ": ", kOrder, " is ",
                 stored == nullptr ? "missing" : cat(format_name(stored->format), ' ', format_shape(stored->shape)),
                 ": want i64 ", format_shape(want), " in ", clusters.count, " equal clusters");
  std::vector<std::byte> room;
  const std::byte* const bytes = stored->bytes.data().read(stored->bytes.size(), room);
  for (uint32_t i = 0; i < c.vocabulary; ++i) {
    int64_t token = 0;
    std::memcpy(&token, bytes + i * sizeof token, sizeof token);
    if (token < 0 || token >= c.vocabulary)
      return error(ErrorKind::invalid, checkpoint.path(), ": ", kOrder, "[", i, "] is ", token, ": want tokens below ",
                   c.vocabulary);
    clusters.order.push_back(static_cast<float>(token));
  }
  return clusters;
}

}  // namespace

Result<FamilyProgram> read_assistant(const Checkpoint& checkpoint, const SourceNames& names, const Config& text) {
  TRY_STATUS(check_architecture(checkpoint));
  TRY(Config config, read_assistant_config(checkpoint, names));
  TRY_STATUS(check_fits(checkpoint, config, text));
  TRY(Clusters read, read_clusters(checkpoint, names, config));
  const auto clusters = std::make_shared<const Clusters>(std::move(read));
  // The query stands behind the last key, so a sliding layer sees one key more: transformers masks by the distance
  // from the last key, up to the window and with it.
  ++config.window;
  return FamilyProgram{
      .kind = ProgramKind::draft_head,
      .weights = weight_table_of(config, text, *clusters),
      .record =
          [config, text, clusters](Recorder& recorder, const BoundWeights& of_text, const BoundWeights& own,
                                   const TextOptions&) {
            AssistantProgram(recorder, config, text, *clusters, own).record(WeightScope(recorder, of_text, ""));
          },
      .make_weights =
          [clusters, config](BoundWeights& own) {
            if (clusters->count == 0) return;
            own.add_made("draft.token_order", matrix(clusters->count, config.vocabulary / clusters->count),
                         [clusters] { return clusters->order; });
          }};
}

}  // namespace sluice::gemma4
