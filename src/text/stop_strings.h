// Stop strings over a stream of text: the text comes out up to where the first of them begins.
//
// Text that may be the beginning of a stop string is held back until it is decided. The stop string that is complete
// first counts, of several complete at once the longest, so how the text was cut into pieces makes no difference.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class StopStrings {
 public:
  // Empty strings stop nothing.
  explicit StopStrings(std::vector<std::string> stops);

  // The text that may be shown now. After a stop string nothing more comes out.
  std::string push(std::string_view text);
  // What is still held back, when the text ends without a stop string; then ready for another text.
  std::string flush();
  // The index of the stop string that was found.
  std::optional<size_t> stopped() const { return stopped_; }

 private:
  // The longest stop string that ends where `text` ends.
  std::optional<size_t> ending(std::string_view text) const;
  // How much of the end of `text` may be the beginning of a stop string.
  size_t undecided(std::string_view text) const;

  std::vector<std::string> stops_;
  std::string held_;
  std::optional<size_t> stopped_;
};

}  // namespace sluice
