// Parity cases of sample.
#include <limits>

#include "graph/cases.h"

namespace sluice {
namespace {

constexpr Fill kSpread{.low = -8, .high = 8};

struct SampleCase {
  std::string name;
  uint32_t vocabulary;
  SampleRow row;
  Fill fill = kSpread;
  std::vector<Adjustment> adjustments{};
  uint32_t candidates = kCandidates;
  uint32_t allowed_of = 0;  // a mask that allows one token in so many; 0: none
};

// Every third row is free; the others take turns at two masks.
std::vector<std::vector<uint32_t>> masks_of(const SampleCase& one) {
  std::vector<std::vector<uint32_t>> masks;
  for (uint32_t first = 0; one.allowed_of > 0 && first < 2; ++first) {
    masks.emplace_back(mask_words(one.vocabulary));
    for (uint32_t token = first % one.vocabulary; token < one.vocabulary; token += one.allowed_of)
      masks.back()[token / 32] |= 1u << (token % 32);
  }
  return masks;
}

// Many rows with one setting, each with a seed and choice of its own.
OpCase sample_case(const SampleCase& one) {
  CaseBuilder c(cat(one.name, ", ", one.vocabulary, " tokens"));
  c.wanted();
  c.output(sample(c.input(one.vocabulary, 1, one.fill, {Symbol::wanted})));
  for (const uint32_t rows : {1u, 3u, 65u}) {
    CaseStep step{.runs = {{.sequence = 1, .position = 40, .rows = rows}},
                  .adjustments = one.adjustments,
                  .masks = masks_of(one)};
    for (uint32_t row = 0; row < rows; ++row) {
      SampleRow setting = one.row;
      setting.seed_low = 17 * row;
      setting.seed_high = row % 3;
      setting.choice = row % 2;
      setting.candidates = one.candidates;
      setting.adjustments = static_cast<uint32_t>(one.adjustments.size());
      if (one.allowed_of > 0) setting.mask = row % 3;
      step.sampling.push_back(setting);
      step.wanted.push_back(static_cast<int32_t>(row));
    }
    c.add_step(std::move(step));
  }
  c.step({{.rows = 5}}, {});
  c.step({{.rows = 5}}, {2, 4});
  return c.done();
}

}  // namespace

std::vector<OpCase> Sample::cases() {
  const float never = -std::numeric_limits<float>::infinity();
  const SampleRow warm{.temperature = 1.0f};
  std::vector<OpCase> cases;
  for (const SampleCase& one : {
           SampleCase{"greedy", 1, {}},
           {"greedy", 7, {}},
           {"greedy", 1000, {}},
           {"greedy ties", 50, {}, {.levels = 3}},
           {"large", 33, {}, {.low = -1e4f, .high = 1e4f}},
           {"temperature", 1, warm},
           {"temperature", 333, warm},
           {"hot", 100, {.temperature = 4.0f}},
           {"cold", 100, {.temperature = 0.01f}},
           {"top_k", 100, {.temperature = 1.5f, .top_k = 5}},
           {"top_k of 1", 100, {.temperature = 1.5f, .top_k = 1}},
           {"top_k beyond", 10, {.temperature = 1.5f, .top_k = 64}},
           {"top_k cuts ties", 50, {.temperature = 1.0f, .top_k = 10}, {.levels = 4}},
           {"top_p", 100, {.temperature = 2.0f, .top_p = 0.8f}},
           {"top_p of almost nothing", 100, {.temperature = 2.0f, .top_p = 1e-6f}},
           {"min_p", 100, {.temperature = 2.0f, .min_p = 0.1f}},
           {"min_p of 1", 100, {.temperature = 2.0f, .min_p = 1.0f}},
           {"all of them", 1000, {.temperature = 1.0f, .top_k = 64, .top_p = 0.95f, .min_p = 0.05f}},
           {"forbidden, greedy", 7, {}, kSpread, {{.token = 3, .add = never}, {.token = 0, .add = never}}},
           {"forbidden", 7, warm, kSpread, {{.token = 3, .add = never}, {.token = 0, .add = never}}},
           {"all but one forbidden", 3, warm, kSpread, {{.token = 2, .add = never}, {.token = 0, .add = never}}},
           {"repeated", 33, warm, kSpread, {{.token = 4, .repeat = 1.3f}, {.token = 32, .repeat = 1.3f, .add = -0.5f}}},
           {"biased", 33, {}, kSpread, {{.token = 9, .add = 100.0f}}},
           {"no candidates", 50, {}, kSpread, {}, 0},
           {"three candidates", 2100, warm, {.levels = 300}, {}, 3},
           {"masked, greedy", 1000, {}, kSpread, {}, kCandidates, 7},
           {"masked", 333, warm, kSpread, {{.token = 9, .repeat = 2.0f, .add = 3.0f}}, kCandidates, 5},
           {"masked, a single token", 2100, warm, kSpread, {}, 3, 5000},
           {"masked, all settings",
            1000,
            {.temperature = 1.0f, .top_k = 64, .top_p = 0.95f, .min_p = 0.05f},
            kSpread,
            {},
            0,
            2},
           {"masked, one token in all", 1, warm, kSpread, {}, kCandidates, 3},
           {"one token twice", 33, warm, kSpread, {{.token = 9, .repeat = 2.0f}, {.token = 9, .add = 3.0f}}},
       })
    cases.push_back(sample_case(one));
  return cases;
}

}  // namespace sluice
