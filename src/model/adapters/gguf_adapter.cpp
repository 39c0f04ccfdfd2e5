#include "model/adapters/gguf_adapter.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/text.h"
#include "checkpoint/gguf_writer.h"
#include "model/adapters/adapter_targets.h"
#include "model/export.h"
#include "model/family.h"

namespace sluice {
namespace {

// An adapted weight as a part of a tensor.
struct Part {
  size_t weight = 0;  // of the adapter
  const WeightRow* row = nullptr;
  const SourceName* source = nullptr;
};

// The parts of a tensor in the order of the adapter's weights.
struct Target {
  std::string name;
  std::vector<Part> parts;
};

Result<Part> part_of(const Model& model, const Adapter& adapter, size_t weight) {
  const AdaptedWeight& adapted = adapter.weights()[weight];
  const BoundWeight* bound = model.weights().bound(adapted.weight);
  const auto refuse = [&](const char* reason) {
    return error(ErrorKind::unsupported, adapter.path(), ": changes ", printable(adapted.weight), reason,
                 ": want an adapter of other products for a GGUF file");
  };
  CHECK(bound != nullptr);
  if (adapted.is_embedding || adapted.weight == kTableWeight)
    return refuse(", the embedding table, which is not written as GGUF");
  const bool from_gguf = model.checkpoint().dialect() == Dialect::gguf;
  const SourceName& source = gguf_name(bound->row, bound->source, from_gguf);
  if (source.transposed || source.one_matrix) return refuse(", to which llama.cpp applies no adapter");
  if (source.name.find('*') != std::string::npos) return refuse(", which this file keeps in a tensor for each expert");
  return Part{.weight = weight, .row = &bound->row, .source = &source};
}

Result<std::vector<Target>> targets_of(const Model& model, const Adapter& adapter) {
  std::vector<Target> targets;
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < adapter.weights().size(); ++i) {
    TRY(const Part part, part_of(model, adapter, i));
    const auto [place, is_new] = by_name.emplace(part.source->name, targets.size());
    if (is_new) targets.push_back({.name = part.source->name, .parts = {}});
    targets[place->second].parts.push_back(part);
  }
  return targets;
}

// A pair of factors as the file has it.
struct Factors {
  uint32_t experts = 1, rank = 0, rows = 0, columns = 0;
  std::vector<float> a, b;
};

class Joined {
 public:
  Joined(const Adapter& adapter, const Target& target, float alpha)
      : adapter_(adapter), target_(target), alpha_(alpha) {
    for (const Part& part : target.parts) parts_.push_back(in_gguf_order(part));
    shares_a_ = std::ranges::all_of(parts_, [&](const AdapterFactors& one) { return one.a == parts_.front().a; });
  }

  Factors factors() const {
    const WeightRow& row = *target_.parts.front().row;
    const SourceName& source = *target_.parts.front().source;
    Factors joined{.experts = row.shape.experts,
                   .rows = source.is_whole() ? row.shape.rows : source.total_rows,
                   .columns = row.shape.columns,
                   .a = {},
                   .b = {}};
    for (const Part& part : target_.parts) joined.rank = shares_a_ ? rank(part) : joined.rank + rank(part);
    joined.a.resize(size_t{joined.experts} * joined.rank * joined.columns);
    joined.b.resize(size_t{joined.experts} * joined.rows * joined.rank);
    uint32_t first_rank = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      put(joined, target_.parts[i], parts_[i], first_rank);
      if (!shares_a_) first_rank += rank(target_.parts[i]);
    }
    return joined;
  }

 private:
  uint32_t rank(const Part& part) const { return adapter_.weights()[part.weight].rank; }

  AdapterFactors in_gguf_order(const Part& part) const {
    const AdapterFactors from = adapter_.factors(part.weight);
    const HeadOrder order = part.row->order_to_gguf();
    const WeightShape& shape = part.row->shape;
    AdapterFactors to = from;
    const size_t r = rank(part);
    if (order.columns)
      for (size_t k = 0; k < shape.experts * r; ++k)
        for (uint32_t i = 0; i < shape.columns; ++i)
          to.a[k * shape.columns + i] = from.a[k * shape.columns + order.source(i)];
    else
      for (size_t e = 0; e < shape.experts; ++e)
        for (uint32_t i = 0; i < shape.rows; ++i)
          std::copy_n(&from.b[(e * shape.rows + order.source(i)) * r], r, &to.b[(e * shape.rows + i) * r]);
    return to;
  }

  void put(Factors& joined, const Part& part, const AdapterFactors& factors, uint32_t first_rank) const {
    const WeightShape& shape = part.row->shape;
    const uint32_t r = rank(part);
    const float wanted = adapter_.weights()[part.weight].scale, given = alpha_ / static_cast<float>(joined.rank);
    const float more = wanted == given ? 1.0f : wanted / given;
    for (size_t e = 0; e < shape.experts; ++e) {
      std::copy_n(&factors.a[e * r * shape.columns], size_t{r} * shape.columns,
                  &joined.a[(e * joined.rank + first_rank) * shape.columns]);
      for (uint32_t i = 0; i < shape.rows; ++i) {
        const float* from = &factors.b[(e * shape.rows + i) * r];
        float* to = &joined.b[(e * joined.rows + part.source->first_row + i) * joined.rank + first_rank];
        for (uint32_t k = 0; k < r; ++k) to[k] = more * from[k];
      }
    }
  }

  const Adapter& adapter_;
  const Target& target_;
  const float alpha_;
  std::vector<AdapterFactors> parts_;
  bool shares_a_ = false;
};

// With it the first weight's scale is exact, as those of most adapters are for all weights.
float alpha_of(const Adapter& adapter) {
  const AdaptedWeight& first = adapter.weights().front();
  return first.scale * static_cast<float>(first.rank);
}

std::vector<int64_t> shape_of(uint32_t experts, uint32_t rows, uint32_t columns) {
  if (experts == 1) return {rows, columns};
  return {experts, rows, columns};
}

}  // namespace

Status check_gguf_adapter(const Model& model, const Adapter& adapter) {
  TRY_STATUS(targets_of(model, adapter));
  return {};
}

Status write_gguf_adapter(const std::string& path, const Model& model, const Adapter& adapter) {
  TRY(const std::vector<Target> targets, targets_of(model, adapter));
  const float alpha = alpha_of(adapter);
  GgufWriter writer;
  writer.add_key("general.architecture", std::string(model.family().name));
  writer.add_key("general.type", std::string("adapter"));
  writer.add_key("adapter.type", std::string("lora"));
  writer.add_key("adapter.lora.alpha", alpha);
  std::vector<std::vector<float>> numbers;
  for (const Target& target : targets) {
    Factors factors = Joined(adapter, target, alpha).factors();
    writer.add_tensor(target.name + ".lora_a", Format::f32, shape_of(factors.experts, factors.rank, factors.columns));
    writer.add_tensor(target.name + ".lora_b", Format::f32, shape_of(factors.experts, factors.rows, factors.rank));
    numbers.push_back(std::move(factors.a));
    numbers.push_back(std::move(factors.b));
  }
  TRY(AtomicFile file, AtomicFile::create(path));
  TRY_STATUS(writer.begin(file));
  for (const std::vector<float>& tensor : numbers) TRY_STATUS(writer.write(std::as_bytes(std::span(tensor))));
  writer.finish();
  return file.commit();
}

}  // namespace sluice
