#include "train/factors.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "train/pieces.h"

namespace sluice {
namespace {

uint64_t factor_elements(const AdaptedWeight& weight) {
  const WeightShape& shape = weight.shape;
  return uint64_t{shape.experts} * weight.rank * (uint64_t{shape.rows} + shape.columns);
}

constexpr size_t kAll = ~size_t{0};

// Whether numbers i of both are stored at the same places.
bool has_same_stored(const Adapter::Run& a, const Adapter::Run& b) {
  const auto same = [](const Adapter::Run::Dimension& one, const Adapter::Run::Dimension& other) {
    return one.count == other.count && one.stored_step == other.stored_step;
  };
  return a.tensor == b.tensor && a.stored_index == b.stored_index && same(a.by[0], b.by[0]) && same(a.by[1], b.by[1]) &&
         same(a.by[2], b.by[2]);
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
  for (const AdaptedWeight& weight : file.weights()) {
    const WeightShape& shape = weight.shape;
    const auto take = [&](const char* name, WeightShape of) {
      const size_t elements = size_t{of.experts} * of.rows * of.columns;
      made->factors_[weight.weight + name] = {.shape = of, .numbers = std::make_shared<std::vector<float>>(elements)};
    };
    take(".adapter_a", {.experts = shape.experts, .rows = weight.rank, .columns = shape.columns});
    take(".adapter_b", {.experts = shape.experts, .rows = shape.rows, .columns = weight.rank});
  }
  made->find_runs();
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

// A tensor with one run, or with runs that have the same stored numbers, is cut. Other tensors are one piece, in which
// runs may reach the same numbers in different order.
void TrainedFactors::find_runs() {
  constexpr size_t kPiece = 1u << 15;
  std::map<size_t, std::vector<Run>> by_tensor;
  for (size_t i = 0; i < adapter_->weights().size(); ++i)
    for (Adapter::Run& run : adapter_->runs(i)) {
      const Factor& factor = factors_.at(adapter_->weights()[i].weight + (run.is_b ? ".adapter_b" : ".adapter_a"));
      by_tensor[run.tensor].push_back({.factor = &factor, .numbers = std::move(run)});
    }
  for (auto& [tensor, runs] : by_tensor) std::ranges::move(runs, std::back_inserter(runs_));
  for (size_t first = 0; first < runs_.size();) {
    const Adapter::Run& front = runs_[first].numbers;
    size_t end = first;
    bool are_alike = true;
    for (; end < runs_.size() && runs_[end].numbers.tensor == front.tensor; ++end)
      are_alike = are_alike && has_same_stored(front, runs_[end].numbers);
    const size_t count = front.by[0].count, each = front.elements() / count;
    const size_t at_once = are_alike ? std::max<size_t>(kPiece / std::max<size_t>(each, 1), 1) : count;
    for (size_t i = 0; i < count; i += at_once)
      pieces_.push_back(
          {.run = first, .runs = end - first, .first = i, .end = are_alike ? std::min(i + at_once, count) : kAll});
    first = end;
  }
}

// Calls body(run, line) for every line, on any thread.
template <class Body>
void TrainedFactors::each_piece(const Body& body) const {
  pool_->parallel(pieces_.size(), 0, [&](const Share& share) {
    for (size_t i = share.first; i < share.last; ++i)
      for (size_t r = 0; r < pieces_[i].runs; ++r) {
        const Run& run = runs_[pieces_[i].run + r];
        const size_t end = std::min(pieces_[i].end, run.numbers.by[0].count);
        run.numbers.each_line(pieces_[i].first, end, [&](const Adapter::Run::Line& line) { body(run, line); });
      }
  });
}

void TrainedFactors::lay_out() {
  ++version_;
  each_piece([&](const Run& run, const Adapter::Run::Line& line) {
    const float* from = tensors_[run.numbers.tensor].numbers.data();
    float* to = run.factor->numbers->data();
    line.each([=, factor = run.numbers.factor](size_t at, size_t stored_at) { to[at] = factor * from[stored_at]; });
  });
}

void TrainedFactors::clear_gradients() {
  const std::vector<TensorPiece> pieces = pieces_of(gradients_);
  sluice::each_piece(*pool_, pieces, [&](size_t, const TensorPiece& piece) {
    std::fill(gradients_[piece.tensor].begin() + static_cast<ptrdiff_t>(piece.first),
              gradients_[piece.tensor].begin() + static_cast<ptrdiff_t>(piece.end), 0.0f);
  });
}

void TrainedFactors::add_gradients(std::span<const Gradient> gradients) {
  if (gradients.empty()) return;  // those of an evaluation
  std::unordered_map<const Factor*, std::span<const float>> by_factor;
  for (const Gradient& one : gradients) {
    const Factor& factor = factors_.at(*one.factor);
    CHECK(one.numbers.size() == factor.numbers->size());
    by_factor.emplace(&factor, one.numbers);
  }
  std::vector<const float*> of_run;
  of_run.reserve(runs_.size());
  for (const Run& run : runs_) of_run.push_back(by_factor.at(run.factor).data());
  each_piece([&](const Run& run, const Adapter::Run::Line& line) {
    const float* from = of_run[static_cast<size_t>(&run - runs_.data())];
    float* to = gradients_[run.numbers.tensor].data();
    line.each([=, factor = run.numbers.factor](size_t at, size_t stored_at) { to[stored_at] += factor * from[at]; });
  });
}

}  // namespace sluice
