#include "model/towers/clipped_linear.h"

#include "base/text.h"

namespace sluice {
namespace {

constexpr const char* kBounds[] = {".input_min", ".input_max", ".output_min", ".output_max"};
constexpr const char* kAllBounds = "v.clamp_data";

}  // namespace

void add_clipped_linear(WeightTable& table, const std::string& name, WeightShape shape, const std::string& hugging_face,
                        const std::string& gguf, const ClipBounds& bounds) {
  table.add(name.c_str(), shape, {{hugging_face + ".linear.weight"}, {hugging_face + ".weight"}}, {{gguf + ".weight"}});
  if (!bounds.stored) return;
  uint32_t number = bounds.first;
  for (const char* const bound : kBounds) {
    const std::vector<SourceName> in_gguf = bounds.total == 0
                                                ? std::vector<SourceName>{{gguf + bound}}
                                                : std::vector<SourceName>{{kAllBounds, number++, bounds.total}};
    table.add((name + bound).c_str(), vector_of(1), {{hugging_face + bound}}, in_gguf);
  }
}

Value clipped_linear(const WeightScope& w, const std::string& name, Value x) {
  const auto clamped = [&](Value value, const char* low, const char* high) {
    if (!w.has((name + low).c_str())) return value;
    const Weight least = w[(name + low).c_str()], most = w[(name + high).c_str()];
    return clamp(value, least, most);
  };
  const Value in = clamped(x, kBounds[0], kBounds[1]);
  return clamped(linear(in, w[name.c_str()]), kBounds[2], kBounds[3]);
}

}  // namespace sluice
