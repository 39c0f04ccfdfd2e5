#include "app/open/adapters.h"

#include <cmath>

#include "base/files/file.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr double kMostScale = 1e6, kMostSlots = 256, kMostRank = 4096;

}  // namespace

OptionSpec adapter_option() {
  return {
      .name = "--adapter",
      .argument = "PATH[:SCALE]",
      .kind = OptionKind::text,
      .help =
          "adds a LoRA adapter, a folder of PEFT or MLX or a GGUF file of llama.cpp, times SCALE (1 without); may be "
          "given several times, and the changes add up",
      .repeated = true};
}

std::vector<OptionSpec> adapter_room_options() {
  return {{.name = "--adapter-slots",
           .argument = "N",
           .kind = OptionKind::integer,
           .fallback = "0",
           .help = "room for N adapters, or sums of them, that come while the model runs",
           .most = kMostSlots},
          {.name = "--adapter-rank",
           .argument = "N",
           .kind = OptionKind::integer,
           .fallback = "16",
           .help = "the highest rank that --adapter-slots leaves room for",
           .least = 1,
           .most = kMostRank}};
}

AdapterRoom adapter_room(const Arguments& arguments) {
  return {.slots = static_cast<uint32_t>(arguments.integer("--adapter-slots")),
          .rank = static_cast<uint32_t>(arguments.integer("--adapter-rank"))};
}

Result<NamedAdapter> parse_adapter(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || path_kind(text) != PathKind::missing) return NamedAdapter{.path = text};
  const std::optional<double> scale = parse_number(std::string_view(text).substr(colon + 1));
  if (!scale) return NamedAdapter{.path = text};
  if (!std::isfinite(*scale) || std::abs(*scale) > kMostScale)
    return error(ErrorKind::invalid, "the scale of adapter ", printable(text), ": want one from ", -kMostScale, " to ",
                 kMostScale);
  return NamedAdapter{.path = text.substr(0, colon), .scale = static_cast<float>(*scale)};
}

Result<AdapterSum> open_adapters(const Model& model, const ModelFiles& files, const Arguments& arguments) {
  std::vector<NamedAdapter> others;
  for (const std::string& text : arguments.all("--adapter")) {
    TRY(NamedAdapter one, parse_adapter(text));
    others.push_back(std::move(one));
  }
  return open_adapters(model, files, others);
}

Result<AdapterSum> open_adapters(const Model& model, const ModelFiles& files, const std::vector<NamedAdapter>& others) {
  std::vector<NamedAdapter> named;
  named.reserve(files.adapters.size() + others.size());
  for (const std::string& path : files.adapters) named.push_back({.path = path});
  named.insert(named.end(), others.begin(), others.end());
  AdapterSum sum;
  sum.reserve(named.size());
  for (const NamedAdapter& one : named) {
    TRY(std::shared_ptr<const Adapter> adapter, Adapter::open(model, one.path));
    sum.push_back({.adapter = std::move(adapter), .scale = one.scale});
  }
  return sum;
}

}  // namespace sluice
