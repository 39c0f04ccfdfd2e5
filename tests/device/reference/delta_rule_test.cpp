// The delta rule three ways against the recurrent form in f64: 4,000 rows, a state that is not zero at first, large
// values, decays from 1 down to 1e-30 and to exactly 0.
#include "device/reference/delta_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace sluice::reference {
namespace {

// Relative norms over all of an output. f32: its roundings over thousands of rows. bf16: eight bits a factor.
constexpr double kBarF32 = 1e-4, kBarBf16 = 2e-2;

template <class Real>
struct Head {
  uint64_t rows;
  uint32_t key_width, value_width;
  std::vector<Real> q, k, v, decay, beta, state, out;

  DeltaHead<Real> view() {
    return {.rows = rows,
            .key_width = key_width,
            .value_width = value_width,
            .q = q.data(),
            .k = k.data(),
            .v = v.data(),
            .decay = decay.data(),
            .beta = beta.data(),
            .scale = static_cast<Real>(1 / std::sqrt(static_cast<float>(key_width))),
            .state = state.data(),
            .out = out.data()};
  }
};

enum class Decays { slow, strong, with_zeros };

class Numbers {
 public:
  explicit Numbers(uint32_t seed) : random_(seed) {}
  float between(float low, float high) { return std::uniform_real_distribution<float>(low, high)(random_); }

  // Rows of length 1.
  std::vector<float> directions(uint64_t rows, uint32_t width) {
    std::vector<float> numbers(rows * width);
    for (uint64_t r = 0; r < rows; ++r) {
      float squares = 1e-6f;
      for (uint32_t i = 0; i < width; ++i) {
        const float x = numbers[r * width + i] = between(-1, 1);
        squares += x * x;
      }
      for (uint32_t i = 0; i < width; ++i) numbers[r * width + i] /= std::sqrt(squares);
    }
    return numbers;
  }
  std::vector<float> uniform(uint64_t count, float low, float high) {
    std::vector<float> numbers(count);
    for (float& number : numbers) number = between(low, high);
    return numbers;
  }
  // Logarithms of factors; strong ones are spread evenly over the powers of ten from 1e-30 to 1.
  std::vector<float> decays(uint64_t rows, Decays kind) {
    std::vector<float> numbers = uniform(rows, kind == Decays::slow ? -0.01f : std::log(1e-30f), 0);
    for (uint64_t i = 0; i < rows && kind == Decays::strong; ++i)
      if (i % 5 != 0) numbers[i] /= 1000;
    for (uint64_t i = 0; i < rows && kind == Decays::with_zeros; ++i)
      numbers[i] = i % 29 == 17 ? -std::numeric_limits<float>::infinity() : numbers[i] / 500;
    return numbers;
  }

 private:
  std::mt19937 random_;
};

Head<float> head_of(uint64_t rows, uint32_t key_width, uint32_t value_width, Decays decays) {
  Numbers numbers(static_cast<uint32_t>(rows) + key_width);
  Head<float> head{};
  head.rows = rows;
  head.key_width = key_width;
  head.value_width = value_width;
  head.q = numbers.directions(rows, key_width);
  head.k = numbers.directions(rows, key_width);
  head.v = numbers.uniform(rows * value_width, -1000, 1000);
  head.decay = numbers.decays(rows, decays);
  head.beta = numbers.uniform(rows, 0, 1);
  head.state = numbers.uniform(uint64_t{key_width} * value_width, -500, 500);
  head.out.assign(rows * value_width, std::numeric_limits<float>::quiet_NaN());
  return head;
}

Head<double> in_f64(const Head<float>& head) {
  const auto wide = [](const std::vector<float>& numbers) {
    return std::vector<double>(numbers.begin(), numbers.end());
  };
  return {head.rows,    head.key_width,   head.value_width, wide(head.q),     wide(head.k),
          wide(head.v), wide(head.decay), wide(head.beta),  wide(head.state), wide(head.out)};
}

double relative_norm(const std::vector<float>& found, const std::vector<double>& want) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += (found[i] - want[i]) * (found[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(difference / norm);
}

struct Form {
  const char* name;
  double bar;
  void (*run)(const DeltaHead<float>& head);
};
const Form kForms[] = {
    {"recurrent", kBarF32, delta_recurrent<float>},
    {"chunked", kBarF32, delta_chunked},
    {"chunked in bf16", kBarBf16, [](const DeltaHead<float>& h) { delta_chunked_bf16(h, Inverse::f32); }},
    {"chunked in bf16, inverse too", kBarBf16, [](const DeltaHead<float>& h) { delta_chunked_bf16(h, Inverse::bf16); }},
};

void expect_forms_agree(uint64_t rows, uint32_t key_width, uint32_t value_width, Decays decays) {
  const Head<float> given = head_of(rows, key_width, value_width, decays);
  Head<double> want = in_f64(given);
  delta_recurrent(want.view());
  const std::vector<float> nothing(want.out.size());
  EXPECT_GT(relative_norm(nothing, want.out), kBarBf16) << "an output of zeros passes";
  for (const Form& form : kForms) {
    Head<float> head = given;
    form.run(head.view());
    EXPECT_LE(relative_norm(head.out, want.out), form.bar) << form.name << ", " << rows << " rows";
    EXPECT_LE(relative_norm(head.state, want.state), form.bar) << form.name << ", state after " << rows << " rows";
  }
}

TEST(DeltaRule, FormsAgreeOverFourThousandRows) {
  for (const Decays decays : {Decays::slow, Decays::strong, Decays::with_zeros})
    expect_forms_agree(4000, 32, 16, decays);
}

TEST(DeltaRule, FormsAgreeOnAHeadOfTheRealWidth) { expect_forms_agree(300, 128, 128, Decays::strong); }

TEST(DeltaRule, FormsAgreeOnAnyLengthAndWidth) {
  for (const uint64_t rows : {1u, 2u, 63u, 64u, 65u, 130u})
    for (const Decays decays : {Decays::slow, Decays::with_zeros}) {
      expect_forms_agree(rows, 20, 7, decays);
      expect_forms_agree(rows, 5, 33, decays);
    }
  expect_forms_agree(100, 1, 1, Decays::strong);
}

TEST(DeltaRule, ADecayToNothingForgetsTheState) {
  for (const Form& form : kForms) {
    Head<float> head = head_of(3, 4, 2, Decays::slow), other = head;
    head.decay[1] = other.decay[1] = -std::numeric_limits<float>::infinity();
    for (float& s : other.state) s *= -3;
    other.v[0] = 77;
    form.run(head.view());
    form.run(other.view());
    EXPECT_NE(head.out[0], other.out[0]) << form.name;
    for (size_t i = 2; i < head.out.size(); ++i) {
      EXPECT_TRUE(std::isfinite(head.out[i])) << form.name;
      EXPECT_EQ(head.out[i], other.out[i]) << form.name;
    }
  }
}

TEST(DeltaRule, RoundingTheInverseIsSeen) {
  const Head<float> given = head_of(64, 16, 16, Decays::slow);
  Head<float> a = given, b = given;
  delta_chunked_bf16(a.view(), Inverse::f32);
  delta_chunked_bf16(b.view(), Inverse::bf16);
  EXPECT_NE(a.out, b.out);
}

}  // namespace
}  // namespace sluice::reference
