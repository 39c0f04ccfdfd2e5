#include "device/reference/delta_rule.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "format/half.h"

namespace sluice::reference {
namespace {

constexpr uint64_t kChunk = 64;

using Rounding = float (*)(float);
float kept(float x) { return x; }
float to_bf16(float x) { return f32_from_bf16(bf16_from_f32(x)); }

// [rows][columns].
struct Matrix {
  Matrix(uint64_t rows, uint64_t columns) : width(columns), numbers(rows * columns) {}
  float* operator[](uint64_t row) { return numbers.data() + row * width; }
  uint64_t width;
  std::vector<float> numbers;
};

float dot(const float* a, const float* b, uint64_t n) {
  float sum = 0;
  for (uint64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Rows [first, first + count) of a head.
class Chunk {
 public:
  Chunk(const DeltaHead<float>& head, uint64_t first, uint64_t count, Rounding round, Rounding round_inverse)
      : head_(head),
        first_(first),
        count_(count),
        round_(round),
        q_(rounded(head.q, head.key_width)),
        k_(rounded(head.k, head.key_width)),
        v_(rounded(head.v, head.value_width)),
        sums_(count, count),
        inverse_(count, count),
        fresh_(count, head.value_width) {
    sum_decays();
    invert(round_inverse);
  }

  void run() {
    find_fresh();
    write_out();
    pass_state();
  }

 private:
  float beta(uint64_t i) const { return head_.beta[first_ + i]; }
  float decay(uint64_t i) const { return head_.decay[first_ + i]; }
  float* state(uint64_t i) const { return head_.state + i * head_.value_width; }
  float from_start(uint64_t i) { return std::exp(decay(0) + sums_[i][0]); }

  Matrix rounded(const float* from, uint64_t width) const {
    Matrix rows(count_, width);
    std::transform(from + first_ * width, from + (first_ + count_) * width, rows.numbers.begin(), round_);
    return rows;
  }

  // sums_[i][j] = D(i, j)
  void sum_decays() {
    for (uint64_t i = 1; i < count_; ++i)
      for (uint64_t j = 0; j < i; ++j) sums_[i][j] = sums_[i - 1][j] + decay(i);
  }

  void invert(Rounding round_inverse) {
    Matrix a(count_, count_);
    const uint32_t keys = head_.key_width;
    std::vector<float> weighted(keys);
    for (uint64_t i = 0; i < count_; ++i) {
      std::transform(k_[i], k_[i] + keys, weighted.begin(), [&](float k) { return round_(k * beta(i)); });
      for (uint64_t j = 0; j < i; ++j) a[i][j] = dot(weighted.data(), k_[j], keys) * std::exp(sums_[i][j]);
    }
    for (uint64_t j = 0; j < count_; ++j) {
      inverse_[j][j] = 1;
      for (uint64_t i = j + 1; i < count_; ++i)
        for (uint64_t m = j; m < i; ++m) inverse_[i][j] -= a[i][m] * inverse_[m][j];
    }
    std::transform(inverse_.numbers.begin(), inverse_.numbers.end(), inverse_.numbers.begin(), round_inverse);
  }

  // Sums over j of X_ij times a rounded row, rounded again.
  template <class Row>
  std::vector<float> mixed(uint64_t i, uint64_t width, const Row& row) {
    std::vector<float> sum(width);
    for (uint64_t j = 0; j <= i; ++j)
      for (uint64_t c = 0; c < width; ++c) sum[c] += inverse_[i][j] * round_(row(j, c));
    std::transform(sum.begin(), sum.end(), sum.begin(), round_);
    return sum;
  }

  void find_fresh() {
    for (uint64_t i = 0; i < count_; ++i) {
      const auto u = mixed(i, head_.value_width, [&](uint64_t j, uint64_t c) { return v_[j][c] * beta(j); });
      const auto w =
          mixed(i, head_.key_width, [&](uint64_t j, uint64_t c) { return k_[j][c] * beta(j) * from_start(j); });
      for (uint64_t c = 0; c < head_.value_width; ++c) {
        float read = 0;
        for (uint64_t m = 0; m < head_.key_width; ++m) read += state(m)[c] * w[m];
        fresh_[i][c] = u[c] - read;
      }
    }
  }

  void write_out() {
    for (uint64_t i = 0; i < count_; ++i) {
      std::vector<float> sum(head_.value_width);
      for (uint64_t m = 0; m < head_.key_width; ++m)
        for (uint64_t c = 0; c < sum.size(); ++c) sum[c] += round_(state(m)[c]) * q_[i][m];
      for (float& s : sum) s *= from_start(i);
      for (uint64_t j = 0; j <= i; ++j) {
        const float score = round_(dot(q_[i], k_[j], head_.key_width) * std::exp(sums_[i][j]));
        for (uint64_t c = 0; c < sum.size(); ++c) sum[c] += score * round_(fresh_[j][c]);
      }
      for (uint64_t c = 0; c < sum.size(); ++c)
        head_.out[(first_ + i) * head_.value_width + c] = round_(head_.scale * sum[c]);
    }
  }

  void pass_state() {
    const uint64_t last = count_ - 1;
    const float factor = from_start(last);
    for (uint64_t m = 0; m < head_.key_width; ++m)
      for (uint64_t c = 0; c < head_.value_width; ++c) state(m)[c] *= factor;
    for (uint64_t i = 0; i < count_; ++i)
      for (uint64_t c = 0; c < head_.value_width; ++c) {
        const float gated = round_(fresh_[i][c] * std::exp(sums_[last][i]));
        for (uint64_t m = 0; m < head_.key_width; ++m) state(m)[c] += k_[i][m] * gated;
      }
  }

  const DeltaHead<float>& head_;
  uint64_t first_, count_;
  Rounding round_;
  Matrix q_, k_, v_, sums_, inverse_, fresh_;
};

void in_chunks(const DeltaHead<float>& head, Rounding round, Rounding round_inverse) {
  for (uint64_t first = 0; first < head.rows; first += kChunk)
    Chunk(head, first, std::min(kChunk, head.rows - first), round, round_inverse).run();
}

}  // namespace

template <class Real>
void delta_recurrent(const DeltaHead<Real>& head) {
  const uint32_t keys = head.key_width, values = head.value_width;
  for (uint64_t t = 0; t < head.rows; ++t) {
    const Real* q = head.q + t * keys;
    const Real* k = head.k + t * keys;
    const Real factor = std::exp(head.decay[t]);
    for (uint32_t j = 0; j < values; ++j) {
      Real* s = head.state + j;  // column j
      Real predicted = 0;
      for (uint32_t i = 0; i < keys; ++i) predicted += (s[i * values] *= factor) * k[i];
      const Real error = head.beta[t] * (head.v[t * values + j] - predicted);
      Real sum = 0;
      for (uint32_t i = 0; i < keys; ++i) sum += (s[i * values] += k[i] * error) * q[i];
      head.out[t * values + j] = sum * head.scale;
    }
  }
}

void delta_chunked(const DeltaHead<float>& head) { in_chunks(head, kept, kept); }

void delta_chunked_bf16(const DeltaHead<float>& head, Inverse inverse) {
  in_chunks(head, to_bf16, inverse == Inverse::bf16 ? to_bf16 : kept);
}

template void delta_recurrent(const DeltaHead<float>& head);
template void delta_recurrent(const DeltaHead<double>& head);

}  // namespace sluice::reference
