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
  for (size_t i = 0; i < file.stored_count(); ++i) made->tensors_.push_back(file.stored(i));
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

const std::vector<std::vector<std::string>>& TrainedFactors::groups() {
  if (!groups_) groups_ = find_groups();
  return *groups_;
}

std::vector<std::vector<std::string>> TrainedFactors::find_groups() const {
  std::map<const Factor*, std::vector<const Adapter::Run*>> runs_of;
  for (const Run& run : runs_) runs_of[run.factor].push_back(&run.numbers);
  const auto are_alike = [](const Adapter::Run* a, const Adapter::Run* b) {
    const auto same = [](const Adapter::Run::Dimension& one, const Adapter::Run::Dimension& other) {
      return one.step == other.step && one.in_order == other.in_order;
    };
    return has_same_stored(*a, *b) && a->index == b->index && a->order == b->order && same(a->by[0], b->by[0]) &&
           same(a->by[1], b->by[1]) && same(a->by[2], b->by[2]);
  };
  std::vector<std::vector<std::string>> groups;
  std::vector<const Factor*> firsts;  // by group
  for (const AdaptedWeight& weight : adapter_->weights())
    for (const char* side : {".adapter_a", ".adapter_b"}) {
      const Factor* const factor = &factors_.at(weight.weight + side);
      const auto found = std::ranges::find_if(firsts, [&](const Factor* first) {
        return first->shape == factor->shape && std::ranges::equal(runs_of[first], runs_of[factor], are_alike);
      });
      const auto group = static_cast<size_t>(found - firsts.begin());
      if (group == firsts.size()) {
        firsts.push_back(factor);
        groups.emplace_back();
      }
      groups[group].push_back(weight.weight + side);
    }
  std::vector<std::vector<bool>> reached;
  reached.reserve(tensors_.size());
  for (const StoredFactor& one : tensors_) reached.emplace_back(one.numbers.size());
  size_t stored = 0, in_groups = 0, count = 0;
  for (const StoredFactor& one : tensors_) stored += one.numbers.size();
  for (const Factor* const first : firsts) {
    in_groups += first->numbers->size();
    for (const Adapter::Run* run : runs_of[first]) {
      if (run->factor != 1) return {};
      run->each_line(0, run->by[0].count, [&](const Adapter::Run::Line& line) {
        line.each([&](size_t, size_t stored_at) {
          count += reached[run->tensor][stored_at] ? 0 : 1;
          reached[run->tensor][stored_at] = true;
        });
      });
    }
  }
  return count == stored && in_groups == stored ? groups : std::vector<std::vector<std::string>>();
}

void TrainedFactors::make_gradients() {
  if (!gradients_.empty()) return;
  gradients_.reserve(tensors_.size());
  for (const StoredFactor& one : tensors_) gradients_.emplace_back(one.numbers.size());
}

std::span<std::vector<float>> TrainedFactors::gradients() {
  make_gradients();
  return gradients_;
}

void TrainedFactors::clear_gradients() {
  make_gradients();
  const std::vector<TensorPiece> pieces = pieces_of(gradients_);
  sluice::each_piece(*pool_, pieces, [&](size_t, const TensorPiece& piece) {
    std::fill(gradients_[piece.tensor].begin() + static_cast<ptrdiff_t>(piece.first),
              gradients_[piece.tensor].begin() + static_cast<ptrdiff_t>(piece.end), 0.0f);
  });
}

template <class AnyNumbers, class Body>
void TrainedFactors::each_line_with(std::span<const AnyNumbers> weights, const Body& body) const {
  std::unordered_map<const Factor*, decltype(AnyNumbers::numbers.data())> by_factor;
  for (const AnyNumbers& one : weights) {
    const Factor& factor = factors_.at(*one.factor);
    CHECK(one.numbers.size() == factor.numbers->size());
    by_factor.emplace(&factor, one.numbers.data());
  }
  std::vector<decltype(AnyNumbers::numbers.data())> of_run;
  of_run.reserve(runs_.size());
  for (const Run& run : runs_) {
    const auto found = by_factor.find(run.factor);
    of_run.push_back(found == by_factor.end() ? nullptr : found->second);
  }
  each_piece([&](const Run& run, const Adapter::Run::Line& line) {
    auto* const numbers = of_run[static_cast<size_t>(&run - runs_.data())];
    if (numbers != nullptr) body(run, numbers, line);
  });
}

void TrainedFactors::add_gradients(std::span<const Numbers> gradients) {
  if (gradients.empty()) return;  // those of an evaluation
  make_gradients();
  each_line_with(gradients, [&](const Run& run, const float* from, const Adapter::Run::Line& line) {
    float* to = gradients_[run.numbers.tensor].data();
    line.each([=, factor = run.numbers.factor](size_t at, size_t stored_at) { to[stored_at] += factor * from[at]; });
  });
}

void TrainedFactors::to_stored(std::span<const Numbers> weights, std::span<std::vector<float>> tensors) const {
  each_line_with(weights, [&](const Run& run, const float* from, const Adapter::Run::Line& line) {
    float* to = tensors[run.numbers.tensor].data();
    line.each([=](size_t at, size_t stored_at) { to[stored_at] = from[at]; });
  });
}

void TrainedFactors::from_stored(std::span<const std::vector<float>> tensors,
                                 std::span<const MutableNumbers> weights) const {
  each_line_with(weights, [&](const Run& run, float* to, const Adapter::Run::Line& line) {
    const float* from = tensors[run.numbers.tensor].data();
    line.each([=](size_t at, size_t stored_at) { to[at] = from[stored_at]; });
  });
}

}  // namespace sluice
