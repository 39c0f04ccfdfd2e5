#include "graph/step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/recorder.h"

namespace sluice {
namespace {

constexpr Extent kWanted{.symbol = Symbol::wanted};

Program two_groups() {
  Recorder r;
  const Value tokens = r.input("tokens", {.width = 1, .element = Element::i32});
  const Value wanted = r.input("wanted", {.extent = kWanted, .width = 1, .element = Element::i32});
  r.input("extra", {.heads = 2, .width = 3});
  State full = r.paged_state("full", 1, 8, 8, 0);
  r.paged_state("windowed", 1, 8, 8, 64);
  Value x = embed(tokens, r.weight("embed", {.rows = 10, .columns = 8}), 1.0f);
  x = rope(x, r.rope_table({.inverse_frequencies = {1.0f, 0.1f, 0.01f, 0.0f}}));
  full = append(full, x, x);
  r.output(sample(gather(attention(x, full, {}), wanted)), "sample");
  return *r.finish();
}

StepMaxima maxima() {
  return {.counts = text_counts(5, 3), .sequences = 2, .pages_per_sequence = {4, 2}, .adjustments = 6, .masks = 2};
}

template <class T>
void fill(std::span<T> span, int32_t word) {
  for (T& one : span)
    for (size_t i = 0; i < sizeof(T) / 4; ++i) std::memcpy(reinterpret_cast<char*>(&one) + 4 * i, &word, 4);
}
template <class T>
bool holds(std::span<const T> span, int32_t word) {
  const auto* words = reinterpret_cast<const char*>(span.data());
  for (size_t i = 0; i < span.size_bytes() / 4; ++i)
    if (std::memcmp(words + 4 * i, &word, 4) != 0) return false;
  return true;
}

TEST(StepBuffer, SectionsDoNotOverlapWhenFull) {
  const Program program = two_groups();
  StepBuffer step(program, maxima());
  step.reset(TokenClass::decode, text_counts(5, 3), 2, 6, 2);
  const StepBuffer& read = step;
  fill(step.positions(), 1);
  fill(step.row_sequences(), 2);
  fill(step.input_i32(0), 3);
  fill(step.input_i32(1), 4);
  fill(step.input_f32(2), 5);
  fill(step.cosines(0), 6);
  fill(step.sines(0), 7);
  for (uint32_t sequence = 0; sequence < 2; ++sequence) {
    fill(step.pages(0, sequence), 8);
    fill(step.pages(1, sequence), 9);
    step.first_page(0, sequence) = 10;
    step.first_page(1, sequence) = 11;
  }
  fill(step.sample_rows(), 12);
  fill(step.adjustments(), 13);
  fill(step.mask(1), 14u);
  fill(step.mask(2), 15u);
  EXPECT_TRUE(holds(read.positions(), 1));
  EXPECT_TRUE(holds(read.row_sequences(), 2));
  EXPECT_TRUE(holds(read.input_i32(0), 3));
  EXPECT_TRUE(holds(read.input_i32(1), 4));
  EXPECT_TRUE(holds(read.wanted_rows(), 4));
  EXPECT_TRUE(holds(read.input_f32(2), 5));
  EXPECT_TRUE(holds(read.cosines(0), 6));
  EXPECT_TRUE(holds(read.sines(0), 7));
  for (uint32_t sequence = 0; sequence < 2; ++sequence) {
    EXPECT_TRUE(holds(read.pages(0, sequence), 8));
    EXPECT_TRUE(holds(read.pages(1, sequence), 9));
    EXPECT_EQ(read.first_page(0, sequence), 10);
    EXPECT_EQ(read.first_page(1, sequence), 11);
  }
  EXPECT_TRUE(holds(read.sample_rows(), 12));
  EXPECT_TRUE(holds(read.adjustments(), 13));
  EXPECT_TRUE(holds(read.mask(1), 14u));
  EXPECT_TRUE(holds(read.mask(2), 15u));
  EXPECT_TRUE(read.mask(0).empty());
}

TEST(StepBuffer, SectionsBeginOnCacheLinesOfOneBlock) {
  const Program program = two_groups();
  StepBuffer step(program, maxima());
  step.reset(TokenClass::prompt, text_counts(5, 3), 2, 6);
  const auto* block = reinterpret_cast<const char*>(step.words().data());
  for (const void* section :
       {static_cast<const void*>(step.positions().data()), static_cast<const void*>(step.row_sequences().data()),
        static_cast<const void*>(step.input_i32(0).data()), static_cast<const void*>(step.input_f32(2).data()),
        static_cast<const void*>(step.cosines(0).data()), static_cast<const void*>(step.pages(1, 0).data()),
        static_cast<const void*>(step.sample_rows().data()), static_cast<const void*>(step.adjustments().data())}) {
    const auto offset = static_cast<const char*>(section) - block;
    EXPECT_EQ(offset % 64, 0);
    EXPECT_GE(offset, 0);
    EXPECT_LT(offset, static_cast<ptrdiff_t>(step.words().size_bytes()));
  }
  EXPECT_EQ(StepBuffer::bytes(program, maxima()), step.words().size_bytes());
}

TEST(StepBuffer, PlacesDoNotDependOnTheCounts) {
  const Program program = two_groups();
  StepBuffer step(program, maxima());
  step.reset(TokenClass::prompt, text_counts(5, 3), 2, 6);
  const auto* sines = step.sines(0).data();
  const auto* pages = step.pages(1, 1).data();
  step.reset(TokenClass::decode, text_counts(1, 0), 1, 0);
  EXPECT_EQ(step.sines(0).data(), sines);
  EXPECT_EQ(step.pages(1, 1).data(), pages);
}

TEST(StepBuffer, SpansAreAsLongAsTheCounts) {
  const Program program = two_groups();
  StepBuffer step(program, maxima());
  step.reset(TokenClass::decode, text_counts(4, 2), 1, 5);
  EXPECT_EQ(step.token_class(), TokenClass::decode);
  EXPECT_EQ(step.positions().size(), 4u);
  EXPECT_EQ(step.input_i32(0).size(), 4u);
  EXPECT_EQ(step.input_f32(2).size(), 4u * 6);
  EXPECT_EQ(step.wanted_rows().size(), 2u);
  EXPECT_EQ(step.cosines(0).size(), 4u * 4);
  EXPECT_EQ(step.pages(0, 0).size(), 4u);
  EXPECT_EQ(step.pages(1, 0).size(), 2u);
  EXPECT_EQ(step.sample_rows().size(), 2u);
  EXPECT_EQ(step.adjustments().size(), 5u);
  step.reset(TokenClass::decode, text_counts(0, 0), 0, 0);
  EXPECT_TRUE(step.positions().empty());
  EXPECT_TRUE(step.sample_rows().empty());
}

TEST(StepBuffer, ResetMakesSamplingGreedyAgain) {
  const Program program = two_groups();
  StepBuffer step(program, maxima());
  step.reset(TokenClass::decode, text_counts(1, 1), 1, 0);
  step.sample_rows()[0].temperature = 2.0f;
  step.reset(TokenClass::decode, text_counts(1, 1), 1, 0);
  EXPECT_EQ(step.sample_rows()[0].temperature, 0.0f);
  EXPECT_EQ(step.sample_rows()[0].top_p, 1.0f);
}

TEST(StepBuffer, AProgramWithoutInputsOrStatesHasAStep) {
  const Program program;
  StepBuffer step(program, {.counts = text_counts(3, 1), .sequences = 1});
  step.reset(TokenClass::prompt, {}, 1, 0);
  EXPECT_TRUE(step.positions().empty());
  EXPECT_TRUE(step.wanted_rows().empty());
}

// A tower's: four patches make one row for the text.
TEST(StepBuffer, EachInputHasTheRowsOfItsSymbol) {
  Recorder r;
  r.input("pixels", {.extent = {Symbol::patches}, .width = 12});
  r.input("column", {.extent = {Symbol::patches}, .width = 1, .element = Element::i32});
  r.input("samples", {.extent = {Symbol::frames, 2}, .width = 3});
  r.input("rows", {.extent = {Symbol::media_rows}, .width = 5});
  const Program program = *r.finish();
  EXPECT_EQ(program.symbols, (std::vector{Symbol::patches, Symbol::frames, Symbol::media_rows}));
  EXPECT_FALSE(has_symbol(program, Symbol::rows));
  StepBuffer step(program,
                  {.counts = {{Symbol::patches, 9}, {Symbol::frames, 4}, {Symbol::media_rows, 3}}, .sequences = 1});
  step.reset(TokenClass::prompt, {{Symbol::patches, 8}, {Symbol::media_rows, 2}}, 0, 0);
  EXPECT_EQ(step.rows(), 0u);
  EXPECT_EQ(step.input_f32(0).size(), 8u * 12);
  EXPECT_EQ(step.input_i32(1).size(), 8u);
  EXPECT_EQ(step.input_f32(2).size(), 0u);
  EXPECT_EQ(step.input_f32(3).size(), 2u * 5);
  step.reset(TokenClass::prompt, {{Symbol::frames, 4}}, 0, 0);
  EXPECT_EQ(step.input_f32(2).size(), 4u * 2 * 3);
  EXPECT_LT(step.input_i32(1).data(), reinterpret_cast<int32_t*>(step.input_f32(2).data()));
}

// Python: position and frequency rounded to f32, so is their product; math.cos and math.sin of that, rounded to f32.
TEST(StepBuffer, RopeTablesAreTheHostsAngles) {
  const Program program = two_groups();
  StepBuffer step(program, maxima());
  step.reset(TokenClass::prompt, text_counts(4, 0), 1, 0);
  const int32_t positions[] = {0, 1, 17, 131071};
  std::copy(std::begin(positions), std::end(positions), step.positions().begin());
  step.fill_ropes();
  const float cosines[] = {1.0f,          1.0f,         1.0f,          1.0f,          0.540302277f, 0.995004177f,
                           0.999949992f,  1.0f,         -0.275163352f, -0.128844544f, 0.985584795f, 1.0f,
                           -0.817983508f, 0.930127978f, -0.786407828f, 1.0f};
  const float sines[] = {0.0f,           0.0f,         0.0f,          0.0f,         0.841470957f, 0.0998334214f,
                         0.00999983307f, 0.0f,         -0.961397469f, 0.991664827f, 0.169182345f, 0.0f,
                         -0.575241685f,  0.367235571f, -0.61770767f,  0.0f};
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_FLOAT_EQ(step.cosines(0)[i], cosines[i]) << i;
    EXPECT_FLOAT_EQ(step.sines(0)[i], sines[i]) << i;
  }
}

// Pair 0 turns by the row, pair 1 by the column. Python: math.cos and math.sin of the product in f32.
TEST(StepBuffer, RopeTablesTurnByCoordinates) {
  Recorder r;
  const Extent extent{Symbol::media_rows, 2};
  const Value at = r.input("coordinates", {.extent = extent, .width = 2, .element = Element::i32});
  const Value x = r.input("x", {.extent = extent, .width = 4});
  const RopeDecl by{.inverse_frequencies = {0.5f, 0.01f}, .axes = {1, 0}, .coordinates = at.id};
  r.output(rope(x, r.rope_table(by)), "out");
  const Program program = *r.finish();
  StepBuffer step(program, {.counts = {{Symbol::media_rows, 3}}, .sequences = 1});
  step.reset(TokenClass::prompt, {{Symbol::media_rows, 1}}, 0, 0);
  const int32_t coordinates[] = {0, 0, 70, 3};
  std::copy(std::begin(coordinates), std::end(coordinates), step.input_i32(0).begin());
  step.fill_ropes();
  ASSERT_EQ(step.cosines(0).size(), 4u);
  const float cosines[] = {1, 1, 0.0707371980f, 0.764842212f}, sines[] = {0, 0, 0.997494996f, 0.644217670f};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(step.cosines(0)[i], cosines[i]) << i;
    EXPECT_FLOAT_EQ(step.sines(0)[i], sines[i]) << i;
  }
  // The same coordinates again and again, in one row or the other.
  step.reset(TokenClass::prompt, {{Symbol::media_rows, 2}}, 0, 0);
  const int32_t again[] = {0, 1, 1, 1, 1, 0, 0, 1};
  std::copy(std::begin(again), std::end(again), step.input_i32(0).begin());
  step.fill_ropes();
  const float half = 0.877582562f, small = 0.999950000f;
  const float cosines_again[] = {half, 1, half, small, 1, small, half, 1};
  ASSERT_EQ(step.cosines(0).size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_FLOAT_EQ(step.cosines(0)[i], cosines_again[i]) << i;
    EXPECT_NEAR(step.sines(0)[i], std::sqrt(1 - cosines_again[i] * cosines_again[i]), 1e-5f) << i;
  }
}

// A step of text alone uses no word of what pictures need.
TEST(StepBuffer, WhatPicturesNeedLiesLast) {
  Recorder r;
  const Value media = r.input("media_rows", {.extent = {Symbol::media_rows}, .width = 1000});
  const Value ids = r.input("tokens", {.width = 1, .element = Element::i32});
  const Value of_row = r.input("media", {.width = 1, .element = Element::i32});
  const Value wanted = r.input("wanted", {.extent = {Symbol::wanted}, .width = 1, .element = Element::i32});
  const Value x = scatter(embed(ids, r.weight("embed", {.rows = 10, .columns = 1000}), 1.0f), of_row, media);
  r.output(sample(gather(x, wanted)), "sample");
  const Program program = *r.finish();
  StepBuffer step(
      program,
      {.counts = {{Symbol::rows, 5}, {Symbol::wanted, 3}, {Symbol::media_rows, 9}}, .sequences = 2, .adjustments = 6});
  const auto offset = [&](const void* section) {
    return static_cast<uint64_t>(static_cast<const uint32_t*>(section) - step.words().data());
  };
  EXPECT_EQ(step.used_words(), 0u);
  step.reset(TokenClass::prompt, text_counts(5, 3), 2, 6);
  EXPECT_EQ(step.used_words(), offset(step.adjustments().data()) + 6 * sizeof(Adjustment) / 4);
  EXPECT_LE(step.used_words(), offset(step.input_f32(0).data()));
  step.reset(TokenClass::prompt, text_counts(5, 1), 2, 0);
  EXPECT_EQ(step.used_words(), offset(step.sample_rows().data()) + sizeof(SampleRow) / 4);
  step.reset(TokenClass::prompt, {{Symbol::rows, 5}, {Symbol::wanted, 1}, {Symbol::media_rows, 2}}, 2, 0);
  EXPECT_EQ(step.used_words(), offset(step.input_f32(0).data()) + 2000);
  EXPECT_GE(step.words().size(), offset(step.input_f32(0).data()) + 9000);
}

TEST(StepBuffer, RopeTablesAreMultipliedByTheirMagnitude) {
  Recorder r;
  const Value x = r.input("x", {.width = 2});
  r.output(rope(x, r.rope_table({.inverse_frequencies = {0.5f}, .magnitude = 1.5f})), "out");
  const Program program = *r.finish();
  StepBuffer step(program, {.counts = text_counts(1, 1), .sequences = 1});
  step.reset(TokenClass::prompt, text_counts(1, 0), 1, 0);
  step.positions()[0] = 2;
  step.fill_ropes();
  EXPECT_FLOAT_EQ(step.cosines(0)[0], 0.8104535f);  // 1.5 cos 1
  EXPECT_FLOAT_EQ(step.sines(0)[0], 1.2622065f);    // 1.5 sin 1
}

}  // namespace
}  // namespace sluice
