#include "train/factors.h"

#include <algorithm>
#include <map>
#include <utility>

namespace sluice {
namespace {

uint64_t factor_elements(const AdaptedWeight& weight) {
  const WeightShape& shape = weight.shape;
  return uint64_t{shape.experts} * weight.rank * (uint64_t{shape.rows} + shape.columns);
}

}  // namespace

// The program's weights, the file's tensors and their gradients, which are at most as many.
uint64_t TrainedFactors::bytes(const Adapter& adapter) {
  uint64_t elements = 0;
  for (const AdaptedWeight& weight : adapter.weights()) elements += factor_elements(weight);
  return 3 * elements * sizeof(float);
}

Result<std::unique_ptr<TrainedFactors>> TrainedFactors::create(std::shared_ptr<const Adapter> adapter,
                                                               const WeightSource& weights, ThreadPool& pool,
                                                               Budget& budget) {
  std::unique_ptr<TrainedFactors> made(new TrainedFactors(std::move(adapter), weights, pool));
  const Adapter& file = *made->adapter_;
  for (const AdaptedWeight& weight : file.weights())
    if (weight.is_embedding)
      return error(ErrorKind::unsupported, file.path(),
                   ": has factors of the embedding table: want none of it to train");
  TRY(made->reserved_, budget.reserve(Domain::host, Purpose::adapters, bytes(file)));
  for (size_t i = 0; i < file.stored_count(); ++i) {
    made->tensors_.push_back(file.stored(i));
    made->gradients_.emplace_back(made->tensors_.back().numbers.size());
  }
  for (size_t i = 0; i < file.weights().size(); ++i) {
    const AdaptedWeight& weight = file.weights()[i];
    const WeightShape& shape = weight.shape;
    const auto take = [&](const char* name, bool is_b, WeightShape of) {
      const size_t elements = size_t{of.experts} * of.rows * of.columns;
      made->factors_[weight.weight + name] = {
          .weight = i, .is_b = is_b, .shape = of, .numbers = std::make_shared<std::vector<float>>(elements)};
    };
    take(".adapter_a", false, {.experts = shape.experts, .rows = weight.rank, .columns = shape.columns});
    take(".adapter_b", true, {.experts = shape.experts, .rows = shape.rows, .columns = weight.rank});
  }
  made->find_sharers();
  made->lay_out();
  return made;
}

std::vector<TrainedWeight> TrainedFactors::trained() const {
  std::vector<TrainedWeight> trained;
  trained.reserve(adapter_->weights().size());
  for (const AdaptedWeight& weight : adapter_->weights())
    trained.push_back({.weight = weight.weight, .rank = weight.rank, .scale = weight.scale});
  return trained;
}

Result<TensorSource> TrainedFactors::find(const std::string& name) const {
  const auto found = factors_.find(name);
  if (found == factors_.end()) return weights_->find(name);
  const Factor& factor = found->second;
  const uint64_t row = uint64_t{factor.shape.columns} * sizeof(float);
  return TensorSource{.shape = factor.shape,
                      .format = Format::f32,
                      .bytes = reinterpret_cast<const std::byte*>(factor.numbers->data()),
                      .expert_stride = factor.shape.rows * row,
                      .row_stride = row,
                      .owner = factor.numbers};
}

// Weights whose factors are stored together, as those of fused matrices, have one sharer.
void TrainedFactors::find_sharers() {
  constexpr size_t kNobody = ~size_t{0};
  std::vector<size_t> first_user(tensors_.size(), kNobody);
  sharer_.resize(adapter_->weights().size());
  const auto root = [&](size_t weight) {
    while (sharer_[weight] != weight) weight = sharer_[weight];
    return weight;
  };
  for (size_t i = 0; i < sharer_.size(); ++i) {
    sharer_[i] = i;
    adapter_->each_run(i, [&](const Adapter::Run& run) {
      size_t& first = first_user[run.tensor];
      if (first == kNobody) first = i;
      const size_t one = root(first), other = root(i);
      sharer_[std::max(one, other)] = std::min(one, other);
    });
  }
  for (size_t i = 0; i < sharer_.size(); ++i) sharer_[i] = root(i);
}

void TrainedFactors::lay_out() {
  ++version_;
  pool_->parallel(adapter_->weights().size(), 0, [&](const Share& share) {
    for (size_t i = share.first; i < share.last; ++i) lay_out(i);
  });
}

void TrainedFactors::lay_out(size_t i) {
  const std::string& weight = adapter_->weights()[i].weight;
  float* const to[] = {factors_.at(weight + ".adapter_a").numbers->data(),
                       factors_.at(weight + ".adapter_b").numbers->data()};
  adapter_->each_run(i, [&](const Adapter::Run& run) {
    const float* from = tensors_[run.tensor].numbers.data() + run.stored_index;
    float* factors = to[run.is_b ? 1 : 0] + run.index;
    for (size_t n = 0; n < run.count; ++n) factors[n * run.step] = run.factor * from[n * run.stored_step];
  });
}

void TrainedFactors::clear_gradients() {
  pool_->parallel(gradients_.size(), 0, [&](const Share& share) {
    for (size_t i = share.first; i < share.last; ++i) std::ranges::fill(gradients_[i], 0.0f);
  });
}

// A thread takes all gradients of a sharer, so that sums in a stored tensor have one order.
void TrainedFactors::add_gradients(std::span<const Gradient> gradients) {
  std::map<size_t, std::vector<const Gradient*>> by_sharer;
  for (const Gradient& one : gradients) by_sharer[sharer_[factors_.at(*one.factor).weight]].push_back(&one);
  std::vector<std::vector<const Gradient*>> shares;
  shares.reserve(by_sharer.size());
  for (auto& [sharer, share] : by_sharer) shares.push_back(std::move(share));
  pool_->parallel(shares.size(), 0, [&](const Share& share) {
    for (size_t i = share.first; i < share.last; ++i)
      for (const Gradient* one : shares[i]) add_gradient(*one);
  });
}

void TrainedFactors::add_gradient(const Gradient& gradient) {
  const Factor& of = factors_.at(*gradient.factor);
  CHECK(gradient.numbers.size() == of.numbers->size());
  adapter_->each_run(of.weight, [&](const Adapter::Run& run) {
    if (run.is_b != of.is_b) return;
    float* to = gradients_[run.tensor].data() + run.stored_index;
    const float* from = gradient.numbers.data() + run.index;
    for (size_t n = 0; n < run.count; ++n) to[n * run.stored_step] += run.factor * from[n * run.step];
  });
}

}  // namespace sluice
