// Cases of blocks: a device's fused kernels against the plain ops that they stand for.
#include "graph/cases.h"

namespace sluice {

namespace {

OpCase gated_mlp_case(Format format, uint32_t hidden, uint32_t width, ActivationKind kind,
                      const CaseAdapters& adapters = {.slots = 0}) {
  CaseBuilder c(
      cat("gated_mlp, ", format_name(format), ", ", hidden, " by ", width, adapters.slots == 0 ? "" : ", adapters"));
  c.adapters(adapters);
  const Value x = c.input(hidden, 1, {.low = -2, .high = 2});
  const Weight gate = c.weight({.rows = width, .columns = hidden}, format);
  const Weight up = c.weight({.rows = width, .columns = hidden}, format);
  c.output(gated_mlp(x, gate, up, c.weight({.rows = hidden, .columns = width}, format), kind));
  c.row_steps(kRowCounts);
  return c.done();
}

OpCase qkv_case(const std::vector<Format>& formats, uint32_t hidden, const std::vector<uint32_t>& rows,
                const CaseAdapters& adapters = {.slots = 0}) {
  CaseBuilder c(cat("qkv of ", hidden, adapters.slots == 0 ? "" : ", adapters"));
  c.adapters(adapters);
  const Value x = c.input(hidden);
  std::vector<Value> parts;
  parts.reserve(rows.size());
  c.recorder().begin_block(BlockKind::qkv);
  for (size_t i = 0; i < rows.size(); ++i)
    parts.push_back(linear(x, c.weight({.rows = rows[i], .columns = hidden}, formats[i])));
  c.recorder().end_block();
  for (const Value part : parts) c.output(part);
  c.row_steps(kRowCounts);
  return c.done();
}

OpCase moe_case(Format format, uint32_t count, uint32_t k, uint32_t hidden, uint32_t width) {
  CaseBuilder c(cat("moe, ", format_name(format), ", ", k, " of ", count));
  const Value x = c.input(hidden, 1, {.low = -2, .high = 2});
  const Value logits = c.input(count, 1, {.low = -3, .high = 3});
  const WeightShape inward{.experts = count, .rows = width, .columns = hidden};
  const Weight scale = c.weight({.columns = count}, Format::f32, {.low = 0.5f});
  const Weight gate = c.weight(inward, format);
  const Weight up = c.weight(inward, format);
  const Weight down = c.weight({.experts = count, .rows = hidden, .columns = width}, format);
  c.recorder().begin_block(BlockKind::moe);
  const Routed routed = route(logits, {.k = k, .per_expert_scale = scale});
  c.output(experts(x, routed, gate, up, down, ActivationKind::gelu_tanh));
  c.recorder().end_block();
  c.row_steps({1, 0, 3, 17, 65});
  return c.done();
}

// A query's way: views between ops, an input's view, a view as output.
OpCase views_case() {
  CaseBuilder c("views between ops");
  const Value x = c.input(33, 2);
  const Value q = heads(linear(flatten(x), c.weight({.rows = 40, .columns = 66}, Format::bf16)), 5);
  const Value normed = rms_norm(q, c.weight({.columns = 8}), 1e-6f);
  const RopeId table = c.recorder().rope_table({.inverse_frequencies = {1.0f, 0.1f, 0.01f}});
  c.output(flatten(rope(normed, table)));
  c.output(slice(normed, 4, 1));
  c.output(linear(flatten(normed), c.weight({.rows = 7, .columns = 40}, Format::bf16)));
  c.row_steps(kRowCounts);
  return c.done();
}

// Rows that a norm makes, for products with adapters, and those of a gate whose other side is a slice of an input.
OpCase normed_adapter_case(Format format) {
  CaseBuilder c(cat("products of normed rows, ", format_name(format), ", adapters"));
  c.adapters({.rank = 8, .a = Format::f16, .b = Format::f16});
  const Value x = c.input(64);
  const Value side = c.input(32, 3);
  const Value normed = rms_norm(add(x, x), c.weight({.columns = 64}), 1e-6f);
  const Value q = linear(normed, c.weight({.rows = 40, .columns = 64}, format));
  const Value k = linear(normed, c.weight({.rows = 20, .columns = 64}, format));
  c.output(rms_norm(q, 1e-6f));
  c.output(k);
  const Value inner = rms_norm(x, c.weight({.columns = 64}), 1e-6f);
  const Value gate = linear(inner, c.weight({.rows = 96, .columns = 64}, format));
  const Value up = linear(inner, c.weight({.rows = 96, .columns = 64}, format));
  c.output(linear(gated_activation(gate, up, ActivationKind::silu), c.weight({.rows = 64, .columns = 96}, format)));
  const Value narrow = linear(x, c.weight({.rows = 32, .columns = 64}, format));
  c.output(gated_activation(narrow, flatten(slice(side, 1, 1)), ActivationKind::gelu_tanh));
  c.row_steps({1, 0, 5, 70});
  return c.done();
}

// Products with adapters whose results only norms and sums read: those that make other products' rows, and a step's
// results.
OpCase residual_adapter_case(Format format, const CaseAdapters& adapters) {
  CaseBuilder c(cat("sums of products with adapters of rank ", adapters.rank, ", ", format_name(format)));
  c.adapters(adapters);
  const Value residual = c.input(64);
  const Value attended = c.input(96);
  const Value y = linear(attended, c.weight({.rows = 64, .columns = 96}, format));
  const Value sum = add(residual, rms_norm(y, c.weight({.columns = 64}), 1e-6f));
  const Value inner = rms_norm(sum, c.weight({.columns = 64}), 1e-6f);
  const Value gate = linear(inner, c.weight({.rows = 160, .columns = 64}, format));
  const Value up = linear(inner, c.weight({.rows = 160, .columns = 64}, format));
  const Value wide = gated_activation(gate, up, ActivationKind::silu);
  const Value down = linear(wide, c.weight({.rows = 64, .columns = 160}, format));
  const Value second = add(sum, rms_norm(down, c.weight({.columns = 64}), 1e-6f));
  const Value normed = rms_norm(second, 1e-6f);
  c.output(linear(normed, c.weight({.rows = 40, .columns = 64}, format)));
  const Value last = linear(normed, c.weight({.rows = 64, .columns = 64}, format));
  const Value third = linear(last, c.weight({.rows = 64, .columns = 64}, format));
  c.output(rms_norm(add(third, second), 1e-6f));
  c.row_steps({1, 0, 5, 70});
  return c.done();
}

}  // namespace

std::vector<OpCase> block_cases() {
  return {
      gated_mlp_case(Format::f32, 33, 50, ActivationKind::gelu_tanh),
      gated_mlp_case(Format::f16, 20, 7, ActivationKind::silu),
      gated_mlp_case(Format::bf16, 64, 100, ActivationKind::gelu_tanh),
      gated_mlp_case(Format::q8_0, 64, 160, ActivationKind::gelu_tanh),
      qkv_case({Format::bf16, Format::bf16, Format::bf16}, 70, {40, 10, 10}),
      qkv_case({Format::q8_0, Format::f16, Format::q8_0}, 96, {33, 16, 5}),
      qkv_case({Format::f32, Format::f32}, 7, {1, 3}),
      moe_case(Format::bf16, 8, 2, 33, 20),
      moe_case(Format::q8_0, 6, 3, 64, 32),
      views_case(),
      gated_mlp_case(Format::bf16, 33, 50, ActivationKind::silu, {.rank = 5}),
      gated_mlp_case(Format::q8_0, 64, 160, ActivationKind::gelu_tanh,
                     {.rank = 16, .a = Format::f16, .b = Format::bf16}),
      qkv_case({Format::bf16, Format::bf16, Format::bf16}, 70, {40, 10, 10}, {.rank = 3}),
      qkv_case({Format::q8_0, Format::f16, Format::q8_0}, 96, {36, 16, 8},
               {.rank = 16, .a = Format::bf16, .b = Format::f16, .weights = {"w1", "w5"}}),
      normed_adapter_case(Format::bf16),
      normed_adapter_case(Format::q8_0),
      residual_adapter_case(Format::bf16, {.rank = 12, .a = Format::bf16, .b = Format::f16}),
      residual_adapter_case(Format::q8_0, {.slots = 1, .rank = 16, .a = Format::f16, .b = Format::bf16}),
  };
}

}  // namespace sluice
