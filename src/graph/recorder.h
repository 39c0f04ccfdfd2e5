// The recorder: family files call it once, at load, and it writes down a Program. Nothing is computed.
//
// Free functions (rms_norm(x, w), linear(x, w), ...) append ops; a Value knows its recorder, so a family reads like the
// paper. Shape mistakes of a family are ours: they are collected and finish() reports the first as an Error naming the
// op, because shapes can come from a hostile config. After an error, recording goes on with placeholder values.
//
// A state has one version at a time, because devices write it in place: reading or appending to one that has been
// appended to since is a mistake. A missing operand is Weight{}; Values of two recorders never meet.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "graph/program.h"

namespace sluice {

class Recorder;

struct Value {
  Recorder* recorder = nullptr;
  ValueId id = kNone;
  ValueType type() const;
};

struct Weight {
  WeightId id = kNone;
  explicit operator bool() const { return id != kNone; }
};

struct State {
  StateRef ref;
};

struct Routed {
  Value index, weight;
};

struct DeltaGate {
  Value decay, beta;  // the logarithm of the decay, and the strength of writing
};

struct Stepped {
  Value out;
  State next;
};

class Recorder {
 public:
  Recorder();
  // Goes on with a program that has no ops yet, but values, weights, inputs, ropes and states.
  explicit Recorder(Program begun);

  // Declares a weight of that canonical name; the same name twice must have the same shape and gives the same id.
  Weight weight(const std::string& name, WeightShape shape);
  Value input(const std::string& name, ValueType type);
  RopeId rope_table(const RopeDecl& rope);  // equal tables are one
  State paged_state(const std::string& name, uint32_t heads, uint32_t key_width, uint32_t value_width, uint32_t window);
  State slot_state(const std::string& name, uint32_t heads, uint32_t key_width, uint32_t value_width);

  void begin_layer(int32_t layer) { layer_ = layer; }  // -1: outside layers
  // Every product recorded from now on whose weight the options list has an adapter operand. The factors of weight "w"
  // are weights "w.adapter_a" and "w.adapter_b", of an embedding table "w.embedding_a" and "w.embedding_b"; the step
  // fills the inputs "adapter_slots" and "adapter_scales".
  void take_adapters(AdapterOptions options) { adapters_ = std::move(options); }
  void placeholders(Placeholders placeholders) { program_.placeholders = std::move(placeholders); }
  // Marks an intermediate for traces: "layer.3.attn_out". `heads`: as NamedValue has them.
  void name(Value value, const std::string& name, const std::vector<uint32_t>& heads = {});
  void output(Value value, const std::string& name);
  // Ops recorded between begin_block and end_block form the block; blocks do not nest.
  void begin_block(BlockKind kind);
  void end_block();

  // The checked program, or the first mistake.
  Result<Program> finish();

  // For the free functions below: appends `op`, checks it and its state versions, marks the layer.
  void record(const Op& op);
  Value new_value(const ValueType& type);
  // The same elements under other heads, or as other rows.
  Value view(Value of, const ValueType& type);
  AdapterOperand adapter_of(Weight weight);  // none where the options list no such weight
  AdapterOperand embedding_adapter_of(Weight table);
  void fail(const std::string& why);  // the first failure is the one that finish() returns
  const Program& program() const { return program_; }

 private:
  State add_state(StateDecl state, PageGroup group);
  void use_state(const char* name, StateRef ref, uint32_t want);
  void check_block(const Block& block);
  bool check_coordinates(const RopeDecl& rope);
  void take_adapter_inputs();

  Program program_;
  std::vector<uint32_t> state_versions_;
  int32_t layer_ = -1;
  AdapterOptions adapters_;
  Value adapter_slots_, adapter_scales_;
  bool block_open_ = false;
  std::string first_problem_;
};

Value embed(Value ids, Weight table, float scale);
Value linear(Value x, Weight weight);
Value rms_norm(Value x, Weight weight, float eps);
Value rms_norm(Value x, float eps);  // without weight
Value l2_norm(Value x, float eps);
Value layer_norm(Value x, Weight weight, Weight bias, float eps);  // without either: Weight{}
Value add(Value a, Value b);
Value add(Value x, Weight bias);  // add_bias
Value mul(Value a, Value b);
Value scale(Value x, float factor);
Value scale(Value x, Weight weight, float factor = 1.0f);
Value clamp(Value x, Weight low, Weight high);
Value softcap(Value x, float cap);
Value activation(Value x, ActivationKind kind);
Value gated_activation(Value gate, Value up, ActivationKind kind);
Value rope(Value x, RopeId table, uint32_t first = 0);
State append(State state, Value k, Value v);
struct AttentionOptions {
  float scale = 1.0f;
  uint32_t window = 0;
  float softcap = 0.0f;
  Expansion expand{};     // of a latent cache
  Weight relative{};      // by distance, added to keys
  Value first{}, last{};  // inputs: what a row sees (graph/ops/attention.h)
};
struct KeyValue {
  Value key, value;
};
// Over a cache; over the step's own rows.
Value attention(Value q, State state, const AttentionOptions& options);
Value attention(Value q, const KeyValue& own, const AttentionOptions& options);
KeyValue expand(Value latent, Value shared, const Expansion& weights);
Stepped short_conv(Value x, State state, Weight weight);
DeltaGate delta_gates(Value a, Value b, Weight rate, Weight bias);
struct DeltaOptions {
  float scale = 1.0f;
  KeyHeads key_heads = KeyHeads::block;
};
Stepped delta_rule(Value q, Value k, Value v, const DeltaGate& gate, State state, const DeltaOptions& options);
struct RouteOptions {
  uint32_t k = 1;
  Scoring scoring = Scoring::softmax;
  bool normalise = true;
  float scale = 1.0f;
  uint32_t groups = 1;
  uint32_t groups_used = 1;
  Weight bias{};
  Weight per_expert_scale{};
};
Routed route(Value logits, const RouteOptions& options);
Value experts(Value x, Routed routed, Weight gate, Weight up, Weight down, ActivationKind kind);
Value gather(Value x, Value index);
Value scatter(Value x, Value index, Value rows);
Value pool(Value x, float factor);
Value pool(Value x, Value shares, float factor = 1.0f);
Value slice(Value x, uint32_t first_head, uint32_t heads, uint32_t stride = 1);
// Logits of the tokens in the `k` clusters with the best scores.
Value clustered_logits(Value x, Value scores, Weight table, Weight order, uint32_t k);
Value sample(Value logits);

// Views: no op, no copy.
Value heads(Value x, uint32_t count);  // [extent, 1, count * w] -> [extent, count, w]
Value flatten(Value x);                // [extent, heads, w] -> [extent, 1, heads * w]
Value fold(Value x, uint32_t ratio);   // [{symbol, k * ratio}, 1, w] -> [{symbol, k}, ratio, w]
Value unfold(Value x);                 // [{symbol, k}, heads, w] -> [{symbol, k * heads}, 1, w]

// Blocks: helpers that record their plain ops inside a named block.
Value gated_mlp(Value x, Weight gate, Weight up, Weight down, ActivationKind kind);

}  // namespace sluice
