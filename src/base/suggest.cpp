#include "base/suggest.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/text.h"

namespace sluice {
namespace {

constexpr size_t kLongest = 80;  // bytes of a word; the table below grows with its square
constexpr size_t kLeastPrefix = 3;

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// The least number of letters to add, take, replace or exchange with their neighbour (optimal string alignment).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  const std::string wanted = lower(word);
  const bool is_letter = wanted.size() == 2 && wanted[0] == '-';  // any other one is as near
  if (wanted.empty() || is_letter || wanted.size() > kLongest) return {};
  size_t least = std::max<size_t>(1, wanted.size() / 3) + 1;
  std::string nearest;
  for (const std::string& one : known) {
    const std::string other = lower(one);
    if (other.size() > kLongest) continue;
    const bool begins = wanted.size() >= kLeastPrefix && starts_with(other, wanted);
    const size_t cost = begins ? 1 : distance(wanted, other);
    if (cost >= least) continue;
    least = cost;
    nearest = one;
  }
  return nearest;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const std::string near = nearest_word(word, known);
  return near.empty() ? "" : cat(": did you mean ", printable(near, 200), "?");
}

}  // namespace sluice
