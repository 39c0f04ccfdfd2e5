#include "chat/adapter_shelf.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/text.h"

namespace sluice {
namespace {

// "folders/lora.gguf" and "folders/lora/": lora.
std::string plain_name(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  if (const size_t slash = path.rfind('/'); slash != std::string_view::npos && slash + 1 < path.size())
    path.remove_prefix(slash + 1);
  constexpr std::string_view kGguf = ".gguf";
  if (path.size() > kGguf.size() && ends_with(path, kGguf)) path.remove_suffix(kGguf.size());
  return std::string(path);
}

}  // namespace

std::string AdapterShelf::add(AdapterUse use) {
  const std::string plain = plain_name(use.adapter->path());
  std::string name = plain;
  for (uint32_t number = 2; has(name); ++number) name = cat(plain, "-", number);
  list_.push_back({name, std::move(use)});
  return name;
}

bool AdapterShelf::has(std::string_view name) const {
  return std::ranges::any_of(list_, [&](const ShelvedAdapter& one) { return one.name == name; });
}

Result<size_t> AdapterShelf::index_of(std::string_view name) const {
  for (size_t i = 0; i < list_.size(); ++i)
    if (list_[i].name == name) return i;
  std::string names;
  for (const ShelvedAdapter& one : list_) names += cat(names.empty() ? "" : ", ", printable(one.name));
  return error(ErrorKind::not_found, "no adapter ", printable(std::string(name)), ": want ",
               names.empty() ? "one that was added" : names);
}

Status AdapterShelf::rescale(std::string_view name, float scale) {
  TRY(const size_t index, index_of(name));
  list_[index].use.scale = scale;
  return {};
}

Result<std::shared_ptr<const Adapter>> AdapterShelf::drop(std::string_view name) {
  TRY(const size_t index, index_of(name));
  std::shared_ptr<const Adapter> dropped = list_[index].use.adapter;
  list_.erase(list_.begin() + static_cast<std::ptrdiff_t>(index));
  return dropped;
}

AdapterSum AdapterShelf::sum() const {
  AdapterSum sum;
  sum.reserve(list_.size());
  for (const ShelvedAdapter& one : list_) sum.push_back(one.use);
  return sum;
}

}  // namespace sluice
