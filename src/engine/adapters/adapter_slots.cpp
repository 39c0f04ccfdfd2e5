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

// The format of a use's factor in a slot for the sum alone.
Format format_in(const AdapterSum& sum, const AdapterUse& use, const AdaptedWeight& weight, bool is_b) {
  if (!is_b) return weight.a;
  return folded_scale(sum, use, weight) == 1 ? weight.b : Format::f32;
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

AdapterOptions AdapterSlots::options(const std::vector<AdapterSum>& sums, const AdapterRoom& room) {
  AdapterOptions options;
  if (sums.empty() && room.slots == 0) return options;
  std::set<std::string> weights(room.weights.begin(), room.weights.end()), embeddings;
  uint32_t rank = room.slots == 0 ? 1 : room.rank;
  for (const AdapterSum& sum : sums) {
    rank = std::max(rank, rank_of(sum));
    for (const AdapterUse& use : sum)
      for (const AdaptedWeight& weight : use.adapter->weights())
        (weight.is_embedding ? embeddings : weights).insert(weight.weight);
  }
  options.slots = static_cast<uint32_t>(sums.size()) + room.slots;
  options.rank = (rank + kRankStep - 1) / kRankStep * kRankStep;
  if (room.slots == 0 || !room.weights.empty()) options.weights.assign(weights.begin(), weights.end());
  options.no_products = room.slots == 0 && weights.empty();
  options.embeddings.assign(embeddings.begin(), embeddings.end());
  return options;
}

AdapterSlots::AdapterSlots(const WeightSource& weights, std::vector<AdapterSum> sums, const AdapterRoom& room)
    : weights_(&weights), slots_(sums.size() + room.slots), rank_(options(sums, room).rank) {
  for (size_t i = 0; i < sums.size(); ++i) slots_[i].sum = std::move(sums[i]);
}

Result<std::unique_ptr<AdapterSlots>> AdapterSlots::plan(const Program& program, const WeightSource& weights,
                                                         std::vector<AdapterSum> sums, const AdapterRoom& room) {
  if (sums.empty() && room.slots == 0) return std::unique_ptr<AdapterSlots>();
  std::unique_ptr<AdapterSlots> slots(new AdapterSlots(weights, std::move(sums), room));
  for (const WeightDecl& decl : program.weights)
    for (const Suffix& suffix : kSuffixes)
      if (ends_with(decl.name, suffix.text)) {
        const std::string of = decl.name.substr(0, decl.name.size() - std::string_view(suffix.text).size());
        slots->add_factor(decl, of, suffix.is_embedding, suffix.is_b, room.slots != 0);
      }
  for (const Slot& slot : slots->slots_) TRY_STATUS(slots->check_weights(slot.sum));
  return slots;
}

// The factors of sums that come later may be of any format, and f32 is exact for all.
void AdapterSlots::add_factor(const WeightDecl& decl, std::string weight, bool is_embedding, bool is_b, bool has_room) {
  Factor factor{.weight = std::move(weight), .is_embedding = is_embedding, .is_b = is_b, .shape = decl.shape};
  std::optional<Format> format;
  if (has_room) format = Format::f32;
  for (const Slot& slot : slots_) {
    for (const AdapterUse& use : slot.sum) {
      const std::optional<size_t> index = index_in(*use.adapter, factor.weight, is_embedding);
      if (!index) continue;
      const Format own = format_in(slot.sum, use, use.adapter->weights()[*index], is_b);
      format = !format || *format == own ? own : Format::f32;
    }
  }
  factor.format = format.value_or(Format::f32);
  factors_.emplace(decl.name, std::move(factor));
}

Status AdapterSlots::check_weights(const AdapterSum& sum) const {
  for (const AdapterUse& use : sum)
    for (const AdaptedWeight& weight : use.adapter->weights()) {
      if (factors_.contains(weight.weight + (weight.is_embedding ? ".embedding_a" : ".adapter_a"))) continue;
      return error(ErrorKind::unsupported, use.adapter->path(), ": changes ", weight.weight,
                   weight.is_embedding ? " where tokens are read" : "",
                   ", which takes no adapter while the model answers: want it merged (sluice convert --adapter)");
    }
  return {};
}

Status AdapterSlots::check_formats(const AdapterSum& sum) const {
  for (const AdapterUse& use : sum)
    for (const auto& [name, factor] : factors_) {
      const std::optional<size_t> index = index_in(*use.adapter, factor.weight, factor.is_embedding);
      if (!index || factor.format == Format::f32) continue;
      const Format own = format_in(sum, use, use.adapter->weights()[*index], factor.is_b);
      if (own == factor.format) continue;
      return error(ErrorKind::invalid, use.adapter->path(), ": its factors of ", factor.weight, " are ",
                   format_name(own), ": want ", format_name(factor.format), ", as the slots have them");
    }
  return {};
}

Status AdapterSlots::check(const AdapterSum& sum) const {
  const AdapterSum some = acting(sum);
  if (slot_of(some)) return {};
  if (const uint32_t rank = rank_of(some); rank > rank_)
    return error(ErrorKind::invalid, paths_of(some), ": rank ", rank, ": want at most ", rank_,
                 ", as the slots of adapters have it");
  TRY_STATUS(check_weights(some));
  return check_formats(some);
}

std::optional<size_t> AdapterSlots::slot_of(const AdapterSum& sum) const {
  const auto found = std::ranges::find_if(slots_, [&](const Slot& one) { return is_same(one.sum, sum); });
  if (found == slots_.end()) return std::nullopt;
  return static_cast<size_t>(found - slots_.begin());
}

// The one that was used longest ago.
std::optional<size_t> AdapterSlots::free_slot() const {
  std::optional<size_t> free;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].holders == 0 && (!free || slots_[i].last_used < slots_[*free].last_used)) free = i;
  return free;
}

std::optional<AdapterRow> AdapterSlots::hold(const AdapterSum& sum, const Program& program, Runner& runner) {
  const AdapterSum some = acting(sum);
  if (some.empty()) return AdapterRow();
  std::optional<size_t> slot = slot_of(some);
  if (!slot) {
    slot = free_slot();
    if (!slot) return std::nullopt;
    slots_[*slot].sum = some;
    refill(*slot, program, runner);
  }
  ++slots_[*slot].holders;
  slots_[*slot].last_used = ++clock_;
  return *row_of(some);
}

void AdapterSlots::release(const AdapterRow& row) {
  if (row.slot != 0) --slots_[static_cast<size_t>(row.slot - 1)].holders;
}

std::vector<AdapterSum> AdapterSlots::sums() const {
  std::vector<const Slot*> used;
  for (const Slot& slot : slots_)
    if (!slot.sum.empty()) used.push_back(&slot);
  std::ranges::sort(used, [](const Slot* one, const Slot* other) { return one->last_used > other->last_used; });
  std::vector<AdapterSum> sums;
  sums.reserve(used.size());
  for (const Slot* slot : used) sums.push_back(slot->sum);
  return sums;
}

void AdapterSlots::drop(const Adapter& adapter) {
  for (Slot& slot : slots_) {
    const auto has = [&](const AdapterUse& use) { return use.adapter->digest() == adapter.digest(); };
    if (slot.holders == 0 && std::ranges::any_of(slot.sum, has)) slot = {};
  }
}

// Only the memory changes: a device that computes there needs no more, and others load the matrices again.
void AdapterSlots::refill(size_t slot, const Program& program, Runner& runner) {
  for (WeightId id = 0; id < program.weights.size(); ++id) {
    const auto found = factors_.find(program.weights[id].name);
    if (found == factors_.end()) continue;
    fill(found->second, slot);
    const auto matrices = static_cast<uint32_t>(found->second.shape.experts / slots_.size());
    runner.reload(id, static_cast<uint32_t>(slot) * matrices, matrices);
  }
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
    for (size_t slot = 0; slot < slots_.size(); ++slot) fill(factor, slot);
  }
}

void AdapterSlots::fill(Factor& factor, size_t slot) const {
  const WeightShape& shape = factor.shape;
  const uint64_t line = row_bytes(factor.format, shape.columns);
  const auto experts = static_cast<uint32_t>(shape.experts / slots_.size());
  // Rank runs along the columns of B and of an embedding's A, and along the rows of other A.
  const bool rank_in_columns = factor.is_b || factor.is_embedding;
  std::vector<float> numbers(size_t{experts} * shape.rows * shape.columns);
  uint32_t first = 0;  // rank of this use within the slot
  for (const AdapterUse& use : slots_[slot].sum) {
    const std::optional<size_t> index = index_in(*use.adapter, factor.weight, factor.is_embedding);
    if (!index) continue;
    const AdaptedWeight& adapted = use.adapter->weights()[*index];
    const AdapterFactors factors = use.adapter->factors(*index);
    const std::vector<float>& from = factor.is_b ? factors.b : factors.a;
    const float scale = factor.is_b ? folded_scale(slots_[slot].sum, use, adapted) : 1;
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
  const std::optional<size_t> slot = slot_of(some);
  if (!slot) return error(ErrorKind::invalid, "adapters: ", paths_of(some), ": have no slot");
  const float scale = some.size() == 1 ? some.front().scale * scale_of_rows(*some.front().adapter) : 1;
  return AdapterRow{.slot = 1 + static_cast<int32_t>(*slot), .scale = scale};
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
