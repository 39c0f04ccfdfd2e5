// The adapters of a conversation, each with a name and a scale. Commands and the page's module change them while the
// model runs; the next turn has their sum.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/options.h"

namespace sluice {

struct ShelvedAdapter {
  std::string name;
  AdapterUse use;
};

class AdapterShelf {
 public:
  // Returns the name: the last part of the adapter's path without ".gguf", with a number behind it if that is taken.
  std::string add(AdapterUse use);
  bool has(std::string_view name) const;
  // Fail with one sentence when no adapter has the name.
  Status rescale(std::string_view name, float scale);
  Result<std::shared_ptr<const Adapter>> drop(std::string_view name);

  const std::vector<ShelvedAdapter>& list() const { return list_; }
  AdapterSum sum() const;

 private:
  Result<size_t> index_of(std::string_view name) const;

  std::vector<ShelvedAdapter> list_;
};

}  // namespace sluice
