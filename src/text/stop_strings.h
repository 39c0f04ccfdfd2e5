// Stop strings in a stream of text. The text comes out up to the beginning of the first stop string.
//
// Text that may begin a stop string is held back until it is clear. The stop string that is complete first counts;
// among several complete at once, the longest counts. So the result does not depend on how the text was cut into
// pieces.
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
  // The text still held back when it ends without a stop string. Afterwards the object is ready for another text.
  std::string flush();
  // The index of the stop string that was found.
  std::optional<size_t> stopped() const { return stopped_; }

 private:
  // The longest stop string that ends where `text` ends.
  std::optional<size_t> ending(std::string_view text) const;
  // How many bytes at the end of `text` may begin a stop string.
  size_t undecided(std::string_view text) const;

  std::vector<std::string> stops_;
  std::string held_;
  std::optional<size_t> stopped_;
};

}  // namespace sluice
