#include "model/families/gemma4_layers.h"

namespace sluice::gemma4 {
namespace {

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

}  // namespace

void layer_weights(WeightTable& t, const Config& c, const Layer& l) {
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

void Layers::declare_ropes(const Config& of, Value positions) {
  full_rope_ =
      r_.rope_table({.inverse_frequencies = yarn_frequencies(of.rope_theta, of.head_dim, of.yarn, of.rope_factors),
                     .coordinates = positions.id,
                     .magnitude = static_cast<float>(yarn_magnitude(static_cast<double>(of.yarn.factor)))});
  sliding_rope_ = r_.rope_table({.inverse_frequencies = inverse_frequencies(of.sliding_rope_theta, of.sliding_head_dim),
                                 .coordinates = positions.id});
}

Value Layers::attend(const Layer& l, const WeightScope& w, Value x, Value q, State keys_values, Value last) {
  q = rope(rms_norm(heads(q, c_.heads), w["q_norm"], c_.eps), rope_of(l));
  const Value a = flatten(attention(q, keys_values, {.scale = 1.0f, .window = l.window, .last = last}));
  const Value projected = linear(a, w["o_proj"]);
  mark(q, l, "q");
  mark(a, l, "attn_out");
  mark(projected, l, "attn_proj");
  return add(x, rms_norm(projected, w["post_attention_norm"], c_.eps));
}

Value Layers::feed_forward_block(const Layer& l, const WeightScope& w, Value x) {
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
Value Layers::experts_of(const Layer& l, const WeightScope& w, Value x) {
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

}  // namespace sluice::gemma4
