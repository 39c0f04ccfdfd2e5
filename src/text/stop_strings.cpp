#include "text/stop_strings.h"

#include <algorithm>

#include "base/text.h"

namespace sluice {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

std::optional<size_t> StopStrings::ending(std::string_view text) const {
  std::optional<size_t> found;
  for (size_t i = 0; i < stops_.size(); ++i) {
    if (stops_[i].empty() || !ends_with(text, stops_[i])) continue;
    if (!found || stops_[i].size() > stops_[*found].size()) found = i;
  }
  return found;
}

size_t StopStrings::undecided(std::string_view text) const {
  size_t most = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size(), text.size() + 1); n-- > most + 1;)
      if (ends_with(text, std::string_view(stop).substr(0, n))) most = n;
  }
  return most;
}

std::string StopStrings::push(std::string_view text) {
  if (stopped_) return {};
  const size_t before = held_.size();
  held_ += text;
  const std::string_view all = held_;
  for (size_t end = before + 1; end <= all.size(); ++end) {
    stopped_ = ending(all.substr(0, end));
    if (!stopped_) continue;
    std::string shown(all.substr(0, end - stops_[*stopped_].size()));
    held_.clear();
    return shown;
  }
  const size_t ready = all.size() - undecided(all);
  std::string shown(all.substr(0, ready));
  held_.erase(0, ready);
  return shown;
}

std::string StopStrings::flush() {
  std::string rest;
  rest.swap(held_);
  stopped_.reset();
  return rest;
}

}  // namespace sluice
