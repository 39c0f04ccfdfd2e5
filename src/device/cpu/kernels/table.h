// Fills a table of kernels from the templates, for one vector type.
#pragma once

#include "device/cpu/kernels.h"
#include "device/cpu/kernels/attend.h"
#include "device/cpu/kernels/backward.h"
#include "device/cpu/kernels/elementwise.h"
#include "device/cpu/kernels/formats_k.h"
#include "device/cpu/kernels/formats_small.h"
#include "device/cpu/kernels/peak.h"
#include "device/cpu/kernels/product.h"
#include "device/cpu/kernels/product_8bit.h"
#include "device/cpu/kernels/product_added.h"
#include "device/cpu/kernels/product_tiles.h"
#include "device/cpu/kernels/product_transposed.h"
#include "device/cpu/kernels/recurrent.h"

namespace sluice::cpu {

template <class S, class View>
constexpr FormatKernels format_kernels() {
  return {.product = Product<S>::template product<View>, .decode = Product<S>::template decode<View>};
}
template <class S, class Integers, class Rows>
constexpr ProductKernel integer_product() {
  if constexpr (S::kTiles) return ProductTiles<S>::template product<Integers, Rows>;
  return Product8Bit<S>::template product<Integers, Rows>;
}
template <class S, class Integers>
constexpr void add_integers(FormatKernels& kernels) {
  using Stored = typename Integers::Stored;
  kernels.product_8bit = integer_product<S, Integers, MappedRows<S, Stored>>();
  kernels.product_packed = integer_product<S, Integers, PackedRows<S, Stored>>();
  kernels.product_packed_ahead = integer_product<S, Integers, PackedRows<S, Stored, (S::kFetchAhead > 0)>>();
  kernels.packing = block_packing<Stored>();
}
template <class S, class View, class Integers>
constexpr FormatKernels format_kernels() {
  FormatKernels kernels = format_kernels<S, View>();
  add_integers<S, Integers>(kernels);
  return kernels;
}

template <class S, Format kFormat>
constexpr FormatKernels decoded_format_kernels() {
  constexpr auto kDecode = &Product<S>::template decode_by_format<kFormat>;
  return {.product = Product<S>::template decoded_product<kDecode>, .decode = kDecode};
}

template <class S>
constexpr void add_formats(FormatKernels (&by_format)[kFormats]) {
  const auto at = [&](Format format) -> FormatKernels& { return by_format[static_cast<int>(format)]; };
  at(Format::f32) = format_kernels<S, F32View<S>>();
  at(Format::f16) = format_kernels<S, F16View<S>>();
  at(Format::bf16) = format_kernels<S, Bf16View<S>>();
  at(Format::f32).add = AddedProduct<S>::template add<F32View<S>>;
  at(Format::f16).add = AddedProduct<S>::template add<F16View<S>>;
  at(Format::bf16).add = AddedProduct<S>::template add<Bf16View<S>>;
  at(Format::q8_0) = format_kernels<S, Q8_0View<S>, Q8_0Integers<S>>();
  at(Format::q4_0) = format_kernels<S, Q4_0View<S>, Q4_0Integers<S>>();
  at(Format::q4_1) = format_kernels<S, Q4_1View<S>, Q4_1Integers<S>>();
  at(Format::q5_0) = format_kernels<S, Q5_0View<S>, Q5_0Integers<S>>();
  at(Format::q5_1) = format_kernels<S, Q5_1View<S>, Q5_1Integers<S>>();
  at(Format::q2_k) = format_kernels<S, Q2_KView<S>, Q2_KIntegers<S>>();
  at(Format::q3_k) = format_kernels<S, Q3_KView<S>, Q3_KIntegers<S>>();
  at(Format::q4_k) = format_kernels<S, Q4_KView<S>, Q4_KIntegers<S>>();
  at(Format::q5_k) = format_kernels<S, Q5_KView<S>, Q5_KIntegers<S>>();
  at(Format::q6_k) = format_kernels<S, Q6_KView<S>, Q6_KIntegers<S>>();
  const auto decoded = [&]<Format... kFormat>() { ((at(kFormat) = decoded_format_kernels<S, kFormat>()), ...); };
  using enum Format;
  decoded.template operator()<iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s, iq1_s, iq1_m, iq4_nl, iq4_xs, tq1_0, tq2_0, mxfp4,
                              nvfp4, q1_0, q2_0, f8_e4m3, f8_e5m2>();
  add_integers<S, IQ4_NLIntegers<S>>(at(iq4_nl));
  add_integers<S, IQ4_XSIntegers<S>>(at(iq4_xs));
  add_integers<S, MXFP4Integers<S>>(at(mxfp4));
}

template <class S, class Cache>
constexpr CacheKernels cache_kernels() {
  using A = Attend<S, Cache>;
  return {.element_bytes = sizeof(typename Cache::Element),
          .append_key = A::append_key,
          .append_value = A::append_value,
          .attend = A::attend,
          .attend_part = A::attend_part,
          .merge = A::merge,
          .finish = A::finish};
}

template <class S>
constexpr Kernels make_kernels() {
  using E = Elementwise<S>;
  using enum ActivationKind;
  Kernels k;
  add_formats<S>(k.formats);
  k.product_in_parts = Product<S>::product_in_parts;
  k.cache_f32 = cache_kernels<S, CacheF32<S>>();
  k.cache_f16 = cache_kernels<S, CacheF16<S>>();
  k.cache_bf16 = cache_kernels<S, CacheBf16<S>>();
  k.quantised_bytes = Quantise<S>::row_bytes;
  k.quantise = Quantise<S>::row;
  k.rms_norm = E::rms_norm;
  k.l2_norm = E::l2_norm;
  k.layer_norm = E::layer_norm;
  k.short_conv = Recurrent<S>::short_conv;
  k.delta_rule = Recurrent<S>::delta_rule;
  k.rope_halves = E::rope_halves;
  k.rope_adjacent = E::rope_adjacent;
  k.rope_adjacent_to_halves = E::rope_adjacent_to_halves;
  k.add = E::add;
  k.mul = E::mul;
  k.scale = E::scale;
  k.clamp = E::clamp;
  k.softcap = E::softcap;
  const auto add_kinds = [&]<ActivationKind... kKind>() {
    ((k.activation[static_cast<int>(kKind)] = E::template activation<kKind>), ...);
    ((k.gated_activation[static_cast<int>(kKind)] = E::template gated_activation<kKind>), ...);
  };
  add_kinds.template operator()<gelu_tanh, silu, sigmoid, relu, gelu>();
  k.exp = E::exp;
  k.tanh = E::tanh;
  k.accumulate = E::accumulate;
  k.largest = E::largest;
  k.exp_sum = E::exp_sum;
  const auto add_backward = [&]<ActivationKind... kKind>() {
    ((k.activation_backward[static_cast<int>(kKind)] = Backward<S>::template activation_backward<kKind>), ...);
  };
  add_backward.template operator()<gelu_tanh, silu, sigmoid>();
  k.multiply_add = Backward<S>::multiply_add;
  k.dot = Backward<S>::dot;
  k.round_columns = ProductTransposed<S>::round;
  k.add_columns = ProductTransposed<S>::add;
  k.norm_backward = Backward<S>::norm_backward;
  k.peak_f32 = {Peak<S>::f32, Peak<S>::kF32Flops};
  k.peak_integers = {Peak<S>::integers, Peak<S>::kIntegerFlops};
  return k;
}

}  // namespace sluice::cpu
