// sample: one token for each row of logits, and what a caller may want to know of the distribution.
//
// Order and meaning are those of transformers' processors and warpers. Gumbel noise keyed by the token's id
// (base/random.h) makes the choice independent of slots and batch mates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/op_doc.h"
#include "graph/value.h"

namespace sluice {

struct OpCase;
struct Program;

inline constexpr uint32_t kCandidates = 20;

struct SampleRow {
  float temperature = 0.0f;
  uint32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint32_t seed_low = 0, seed_high = 0;
  uint32_t choice = 0;                             // which of several answers to one prompt
  uint32_t first_adjustment = 0, adjustments = 0;  // range in the step's adjustments
  uint32_t candidates = 0;                         // that the result tells, at most kCandidates
  uint32_t mask = 0;                               // of the step's masks, counted from 1; 0: every token may come
};
// A mask has a bit for each token: bit i of word i / 32 is token i, and 1 allows it.
constexpr uint32_t mask_words(uint32_t vocabulary) { return (vocabulary + 31) / 32; }
inline bool allows(std::span<const uint32_t> mask, uint32_t token) {
  return mask.empty() || (mask[token / 32] >> (token % 32) & 1) != 0;
}

struct Adjustment {
  int32_t token = 0;
  float repeat = 1.0f;
  float add = 0.0f;
};

struct Candidate {
  int32_t token = 0;
  float logit = 0.0f;
};

// The row of Sample::out, as 32-bit words.
struct SampleResult {
  int32_t token = 0;
  int32_t finite = 1;  // 0: some logit of the row was not finite; nothing else of the row means anything then
  float log_prob = 0.0f;
  float log_sum_exp = 0.0f;
  Candidate candidates[kCandidates] =
      {};  // largest logits first; of those not asked for, or not in a tiny vocabulary: token -1
};
static_assert(sizeof(SampleResult) <= 1024, "a step reads back at most 1 KB a sequence");
inline constexpr uint32_t kSampleWords = sizeof(SampleResult) / 4;

struct Sample {
  ValueId logits = kNone;
  ValueId out = kNone;

  static constexpr OpDoc kDoc = {
      .name = "sample",
      .formula =
          "With SampleRow s, its adjustments and its mask, all in the step, for each row:\n"
          "1. adjusted: l = l > 0 ? l / repeat : l repeat, then l += add, for each adjusted token "
          "(add = -inf forbids it);\n"
          "   l = -inf for each token whose bit the mask lacks\n"
          "2. temperature == 0: the arg-max (ties: lower index)\n"
          "3. otherwise t = l / temperature;\n"
          "   of the tokens in descending t (ties: lower index) the first top_k (0: all);\n"
          "   of those the shortest prefix whose probability reaches top_p (1: all);\n"
          "   of those the ones with p >= min_p p_best;\n"
          "   the token is the arg-max of t + gumbel(seed, choice, position, token)\n"
          "log_sum_exp, log_prob of the token and the candidates are of the logits before step 1",
      .source = "transformers' logits processors; choosing by Gumbel noise: Maddison et al. 2014 (arXiv:1411.0030)",
      .tolerance = {.exact = 1e-5f, .fast = 1e-5f, .fast_8bit = 1e-5f},
      .reason = "of log_prob and log_sum_exp: one f32 sum of exponentials; tokens and candidates are equal",
  };
  template <class Visitor>
  void operands(Visitor& v) const {
    v.input("logits", logits, "f32 [wanted, vocabulary]");
    v.output("out", out, "i32 [wanted, kSampleWords]: a SampleResult a row");
  }
  ValueType result(const Program& program) const;
  Status check(const Program& program) const;
  static std::vector<OpCase> cases();
};

}  // namespace sluice
