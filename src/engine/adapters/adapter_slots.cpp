#include "engine/adapters/adapter_slots.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "format/format.h"

namespace sluice {
namespace {

// Ranks are rounded up to this, so that sums over the rank have the same lanes whatever other adapters there are.
constexpr uint32_t kRankStep = 16;

struct Suffix {
  const char* text;
  bool is_embedding, is_b;
};
constexpr Suffix kSuffixes[] = {{".adapter_a", false, false},
                                {".adapter_b", false, true},
                                {".embedding_a", true, false},
                                {".embedding_b", true, true}};

// The number of the adapter's pair of factors for a weight; none if it leaves the weight as it is.
std::optional<size_t> index_in(const Adapter& adapter, const std::string& weight, bool is_embedding) {
  const std::vector<AdaptedWeight>& weights = adapter.weights();
  const auto found = std::ranges::find_if(
      weights, [&](const auto& one) { return one.weight == weight && one.is_embedding == is_embedding; });
  if (found == weights.end()) return std::nullopt;
  return static_cast<size_t>(found - weights.begin());
}

// Of an adapter that has a slot for itself: most of its weights have this scale.
float scale_of_rows(const Adapter& adapter) { return adapter.weights().front().scale; }

// What B is multiplied by in a slot.
float folded_scale(const AdapterSum& sum, const AdapterUse& use, const AdaptedWeight& weight) {
  return sum.size() == 1 ? weight.scale / scale_of_rows(*use.adapter) : use.scale * weight.scale;
}

bool is_same(const AdapterSum& one, const AdapterSum& other) {
  return std::ranges::equal(one, other, [&](const AdapterUse& a, const AdapterUse& b) {
    return a.adapter->digest() == b.adapter->digest() && (one.size() == 1 || a.scale == b.scale);
  });
}

uint32_t rank_of(const AdapterSum& sum) {
  uint32_t rank = 0;
  for (const AdapterUse& use : sum) rank += use.adapter->rank();
  return rank;
}

std::string paths_of(const AdapterSum& sum) {
  std::string paths;
  for (const AdapterUse& use : sum) paths += cat(paths.empty() ? "" : " + ", use.adapter->path());
  return paths;
}

}  // namespace

AdapterSum acting(const AdapterSum& sum) {
  AdapterSum some;
  std::ranges::copy_if(sum, std::back_inserter(some), [](const AdapterUse& use) { return use.scale != 0; });
  return some;
}

AdapterOptions AdapterSlots::options(const std::vector<AdapterSum>& sums) {
  AdapterOptions options;
  if (sums.empty()) return options;
  std::set<std::string> weights, embeddings;
  uint32_t rank = 1;
  for (const AdapterSum& sum : sums) {
    rank = std::max(rank, rank_of(sum));
    for (const AdapterUse& use : sum)
      for (const AdaptedWeight& weight : use.adapter->weights())
        (weight.is_embedding ? embeddings : weights).insert(weight.weight);
  }
  options.slots = static_cast<uint32_t>(sums.size());
  options.rank = (rank + kRankStep - 1) / kRankStep * kRankStep;
  options.weights.assign(weights.begin(), weights.end());
  return options;
}

Result<std::unique_ptr<AdapterSlots>> AdapterSlots::plan(const Program& program, const WeightSource& weights,
                                                         std::vector<AdapterSum> sums) {
  if (sums.empty()) return std::unique_ptr<AdapterSlots>();
  std::unique_ptr<AdapterSlots> slots(new AdapterSlots(weights, std::move(sums)));
  slots->rank_ = options(slots->sums_).rank;
  for (const WeightDecl& decl : program.weights)
    for (const Suffix& suffix : kSuffixes)
      if (ends_with(decl.name, suffix.text)) {
        const std::string of = decl.name.substr(0, decl.name.size() - std::string_view(suffix.text).size());
        TRY_STATUS(slots->add_factor(decl, of, suffix.is_embedding, suffix.is_b));
      }
  TRY_STATUS(slots->check_all_are_taken());
  return slots;
}

Status AdapterSlots::add_factor(const WeightDecl& decl, std::string weight, bool is_embedding, bool is_b) {
  Factor factor{.weight = std::move(weight), .is_embedding = is_embedding, .is_b = is_b, .shape = decl.shape};
  std::optional<Format> format;
  for (const AdapterSum& sum : sums_) {
    for (const AdapterUse& use : sum) {
      const std::optional<size_t> index = index_in(*use.adapter, factor.weight, is_embedding);
      if (!index) continue;
      const AdaptedWeight& adapted = use.adapter->weights()[*index];
      const bool is_folded = is_b && folded_scale(sum, use, adapted) != 1;
      const Format own = is_folded ? Format::f32 : is_b ? adapted.b : adapted.a;
      format = !format || *format == own ? own : Format::f32;
    }
  }
  factor.format = format.value_or(Format::f32);
  factors_.emplace(decl.name, std::move(factor));
  return {};
}

Status AdapterSlots::check_all_are_taken() const {
  for (const AdapterSum& sum : sums_)
    for (const AdapterUse& use : sum)
      for (const AdaptedWeight& weight : use.adapter->weights()) {
        const char* suffix = weight.is_embedding ? ".embedding_a" : ".adapter_a";
        if (factors_.contains(weight.weight + suffix)) continue;
        return error(ErrorKind::unsupported, use.adapter->path(), ": changes ", weight.weight,
                     weight.is_embedding ? " where tokens are read" : "",
                     ", which takes no adapter while the model answers: want it merged (sluice convert --adapter)");
      }
  return {};
}

uint64_t AdapterSlots::bytes_of(const Factor& factor) {
  const WeightShape& shape = factor.shape;
  return uint64_t{shape.experts} * shape.rows * row_bytes(factor.format, shape.columns);
}

uint64_t AdapterSlots::bytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, factor] : factors_) bytes += bytes_of(factor);
  return bytes;
}

void AdapterSlots::take() {
  for (auto& [name, factor] : factors_) {
    factor.memory = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(bytes_of(factor)));
    for (size_t slot = 0; slot < sums_.size(); ++slot) fill(factor, slot);
  }
}

void AdapterSlots::fill(Factor& factor, size_t slot) const {
  const WeightShape& shape = factor.shape;
  const uint64_t line = row_bytes(factor.format, shape.columns);
  const auto experts = static_cast<uint32_t>(shape.experts / sums_.size());
  // Rank runs along the columns of B and of an embedding's A, and along the rows of other A.
  const bool rank_in_columns = factor.is_b || factor.is_embedding;
  std::vector<float> numbers(size_t{experts} * shape.rows * shape.columns);
  uint32_t first = 0;  // rank of this use within the slot
  for (const AdapterUse& use : sums_[slot]) {
    const std::optional<size_t> index = index_in(*use.adapter, factor.weight, factor.is_embedding);
    if (!index) continue;
    const AdaptedWeight& adapted = use.adapter->weights()[*index];
    const AdapterFactors factors = use.adapter->factors(*index);
    const std::vector<float>& from = factor.is_b ? factors.b : factors.a;
    const float scale = factor.is_b ? folded_scale(sums_[slot], use, adapted) : 1;
    const uint32_t rows = rank_in_columns ? shape.rows : adapted.rank;
    const uint32_t columns = rank_in_columns ? adapted.rank : shape.columns;
    for (uint32_t e = 0; e < experts; ++e)
      for (uint32_t row = 0; row < rows; ++row)
        for (uint32_t column = 0; column < columns; ++column) {
          const uint32_t to_row = rank_in_columns ? row : first + row;
          const uint32_t to_column = rank_in_columns ? first + column : column;
          numbers[(size_t{e} * shape.rows + to_row) * shape.columns + to_column] =
              scale * from[(size_t{e} * rows + row) * columns + column];
        }
    first += adapted.rank;
  }
  std::byte* const to = factor.memory->data() + slot * experts * shape.rows * line;
  for (size_t row = 0; row < size_t{experts} * shape.rows; ++row)
    encode_row(factor.format, numbers.data() + row * shape.columns, to + row * line, shape.columns);
}

Result<TensorSource> AdapterSlots::find(const std::string& name) const {
  const auto found = factors_.find(name);
  if (found == factors_.end()) return weights_->find(name);
  const Factor& factor = found->second;
  const uint64_t line = row_bytes(factor.format, factor.shape.columns);
  return TensorSource{.shape = factor.shape,
                      .format = factor.format,
                      .bytes = factor.memory == nullptr ? nullptr : factor.memory->data(),
                      .expert_stride = factor.shape.rows * line,
                      .row_stride = line,
                      .owner = factor.memory};
}

Result<AdapterRow> AdapterSlots::row_of(const AdapterSum& sum) const {
  const AdapterSum some = acting(sum);
  if (some.empty()) return AdapterRow();
  const auto found = std::ranges::find_if(sums_, [&](const AdapterSum& one) { return is_same(one, some); });
  if (found == sums_.end())
    return error(ErrorKind::invalid, "adapters: ", paths_of(some),
                 ": have no slot: want those the model was opened with");
  const float scale = some.size() == 1 ? some.front().scale * scale_of_rows(*some.front().adapter) : 1;
  return AdapterRow{.slot = 1 + static_cast<int32_t>(found - sums_.begin()), .scale = scale};
}

std::string AdapterSlots::name_of(const AdapterSum& sum) const {
  const AdapterSum some = acting(sum);
  if (some.empty()) return "";
  Sha256 sha;
  sha.add(cat(rank_, "\n"));
  for (const AdapterUse& use : some) sha.add(cat(use.adapter->digest(), " ", format_number(double{use.scale}), "\n"));
  return sha.finish_hex();
}

}  // namespace sluice
