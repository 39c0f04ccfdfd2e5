#include "engine/experts/routing_trace.h"

#include <algorithm>
#include <optional>

#include "base/files/file.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr int64_t kMost = 1 << 16;  // layers, experts
constexpr std::string_view kHead = "sluice routing 1: ";

// 0 for anything else than a number from 1 to kMost.
uint32_t count(const std::string& word) {
  const auto number = parse_integer(word);
  return number && *number > 0 && *number <= kMost ? static_cast<uint32_t>(*number) : 0;
}

std::optional<RoutingTrace> parse_head(const std::string& line) {
  if (!starts_with(line, kHead)) return std::nullopt;
  const std::vector<std::string> words = split(line.substr(kHead.size()), ' ');
  if (words.size() != 7 || words[1] != "layers," || words[3] != "experts," || words[5] != "a" || words[6] != "token")
    return std::nullopt;
  RoutingTrace trace{.layers = count(words[0]), .experts = count(words[2]), .used = count(words[4]), .chosen = {}};
  if (trace.layers == 0 || trace.used == 0 || trace.used > trace.experts) return std::nullopt;
  return trace;
}

// Appends the experts of a line; false where it holds anything else.
bool parse_experts(const std::string& line, RoutingTrace& trace) {
  const std::vector<std::string> words = split(line, ' ');
  if (words.size() != trace.used) return false;
  size_t words_of_line = 0;
  for (const std::string& word : words) {
    const auto expert = parse_integer(word);
    if (!expert || *expert < 0 || *expert >= int64_t{trace.experts}) return false;
    const auto chosen = std::span(trace.chosen).last(words_of_line);
    if (std::find(chosen.begin(), chosen.end(), *expert) != chosen.end()) return false;
    trace.chosen.push_back(static_cast<uint32_t>(*expert));
    ++words_of_line;
  }
  return true;
}

}  // namespace

Result<RoutingTrace> read_routing(const std::string& path) {
  TRY(const std::string text, read_file(path, kMostBytes));
  std::vector<std::string> lines = split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  std::optional<RoutingTrace> trace = lines.empty() ? std::nullopt : parse_head(lines.front());
  if (!trace)
    return error(ErrorKind::corrupt, path, ": line 1: found no \"", kHead,
                 "40 layers, 256 experts, 8 a token\": want a routing trace");
  for (size_t i = 1; i < lines.size(); ++i) {
    if (parse_experts(lines[i], *trace)) continue;
    return error(ErrorKind::corrupt, path, ": line ", i + 1, ": found ", printable(lines[i], 60), ": want ",
                 trace->used, " different numbers below ", trace->experts);
  }
  if (lines.size() == 1 || (lines.size() - 1) % trace->layers != 0)
    return error(ErrorKind::corrupt, path, ": found ", lines.size() - 1, " lines of experts: want ", trace->layers,
                 " for each token");
  return *std::move(trace);
}

Status write_routing(const RoutingTrace& trace, const std::string& path) {
  std::string text = cat(kHead, trace.layers, " layers, ", trace.experts, " experts, ", trace.used, " a token\n");
  for (size_t i = 0; i < trace.chosen.size(); ++i) text += cat(trace.chosen[i], (i + 1) % trace.used == 0 ? '\n' : ' ');
  return write_file(path, text);
}

}  // namespace sluice
