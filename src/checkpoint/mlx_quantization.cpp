#include "checkpoint/mlx_quantization.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace sluice {
namespace {

// The first of a mode's groups is its default.
struct Mode {
  MlxPacking packing;
  std::array<uint32_t, 3> groups;  // 0: unused
};
constexpr Mode kModes[] = {
    {{.mode = "affine", .bits = 4}, {64, 32, 128}},
    {{.mode = "mxfp4", .bits = 4, .elements = Format::f4, .scales = Format::f8_e8m0, .offsets = false}, {32}},
    {{.mode = "mxfp8", .bits = 8, .elements = Format::f8_e4m3, .scales = Format::f8_e8m0, .offsets = false}, {32}},
    {{.mode = "nvfp4", .bits = 4, .elements = Format::f4, .scales = Format::f8_e4m3, .offsets = false}, {16}},
};
constexpr const char* kWantModes = "affine, mxfp4, mxfp8 or nvfp4";

struct Width {
  uint32_t bits;
  Format elements;
};
constexpr Width kWidths[] = {{2, Format::u2}, {3, Format::u3}, {4, Format::u4},
                             {5, Format::u5}, {6, Format::u6}, {8, Format::u8}};  // of affine

Error wrong(const std::string& where, const char* name, const Json& found, const std::string& wanted) {
  return error(ErrorKind::unsupported, where, ".", name, " is ", printable(write_json(found)), ": want ", wanted);
}

Status read_group(const Json& entry, const std::string& where, const Mode& mode, MlxPacking& packing) {
  packing.group = mode.groups[0];
  const Json* group = entry.find("group_size");
  if (group == nullptr || group->is_null()) return {};
  std::string wanted;
  for (const uint32_t known : mode.groups) {
    if (known == 0) continue;
    if (group->is_integer() && group->as_integer() == known) {
      packing.group = known;
      return {};
    }
    wanted += cat(wanted.empty() ? "" : ", ", known);
  }
  return wrong(where, "group_size", *group, cat(wanted, " in mode ", packing.mode));
}

Status read_bits(const Json& entry, const std::string& where, MlxPacking& packing) {
  const Json* bits = entry.find("bits");
  if (bits == nullptr || bits->is_null()) return {};
  const auto is_found = [&](uint32_t known) { return bits->is_integer() && bits->as_integer() == known; };
  if (!packing.offsets)
    return is_found(packing.bits) ? Status()
                                  : Status(wrong(where, "bits", *bits, cat(packing.bits, " in mode ", packing.mode)));
  const auto* width = std::ranges::find_if(kWidths, is_found, &Width::bits);
  if (width == std::end(kWidths)) return wrong(where, "bits", *bits, "2, 3, 4, 5, 6, 8 in mode affine");
  packing.bits = width->bits;
  packing.elements = width->elements;
  return {};
}

Result<MlxPacking> read_packing(const Json& entry, const std::string& where) {
  const Json* name = entry.find("mode");
  const Mode* mode = kModes;
  if (name != nullptr && !name->is_null()) {
    mode = std::ranges::find_if(
        kModes, [&](const Mode& known) { return name->is_string() && name->as_string() == known.packing.mode; });
    if (mode == std::end(kModes)) return wrong(where, "mode", *name, kWantModes);
  }
  MlxPacking packing = mode->packing;
  TRY_STATUS(read_group(entry, where, *mode, packing));
  TRY_STATUS(read_bits(entry, where, packing));
  return packing;
}

}  // namespace

bool is_affine_format(Format format) {
  return std::ranges::find(kWidths, format, &Width::elements) != std::end(kWidths);
}

std::string MlxQuantization::without_prefix(const std::string& path) const {
  const auto prefix = std::ranges::find_if(prefixes_, [&](const auto& known) { return starts_with(path, known); });
  return prefix == prefixes_.end() ? path : path.substr(prefix->size());
}

Result<std::optional<MlxQuantization>> MlxQuantization::read(const Json& config, const std::string& where,
                                                             std::span<const std::string> prefixes) {
  const Json* found = config.find("quantization");
  if (found == nullptr || found->is_null()) return std::optional<MlxQuantization>();
  const std::string own = cat(where, ": quantization");
  if (!found->is_object())
    return error(ErrorKind::unsupported, own, " is ", printable(write_json(*found)), ": want an object");
  MlxQuantization quantization;
  quantization.where_ = own;
  quantization.prefixes_.assign(prefixes.begin(), prefixes.end());
  TRY(quantization.usual_, read_packing(*found, own));
  for (const auto& [path, entry] : found->as_object()) {
    Other other{.packing = std::nullopt, .path = path};
    if (entry.is_object()) {
      TRY(other.packing, read_packing(entry, cat(own, ".", printable(path))));
    } else if (entry.is_bool()) {
      if (entry.as_bool()) other.packing = quantization.usual_;
    } else {
      continue;
    }
    const auto [known, added] = quantization.any_spelling_.emplace(quantization.without_prefix(path), other);
    if (!added && known->second.packing != other.packing) known->second.rival = path;
    quantization.others_[path] = std::move(other);
  }
  return std::optional(std::move(quantization));
}

Result<const MlxPacking*> MlxQuantization::of(const std::string& path) const {
  const auto given = [](const Other& other) { return other.packing ? &*other.packing : nullptr; };
  if (const auto same = others_.find(path); same != others_.end()) return given(same->second);
  const auto other = any_spelling_.find(without_prefix(path));
  if (other == any_spelling_.end()) return &usual_;
  if (other->second.rival.empty()) return given(other->second);
  return error(ErrorKind::invalid, where_, " says for ", printable(path), " one thing as ",
               printable(other->second.path), " and another as ", printable(other->second.rival), ": want one of them");
}

}  // namespace sluice
