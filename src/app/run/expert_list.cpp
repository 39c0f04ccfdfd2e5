#include "app/run/expert_list.h"

#include <limits>
#include <optional>

#include "base/checksum.h"
#include "base/files/file.h"
#include "base/files/kept_files.h"
#include "base/sha256.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr std::string_view kFirstLine = "sluice experts 1\n";
constexpr std::string_view kChecksum = "checksum ";
constexpr uint64_t kMostBytes = 16 << 20;
constexpr size_t kNameDigits = 32;

std::string checksum_line(std::string_view text) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(text)));
  return cat(kChecksum, hex_of(sum.value()), '\n');
}

std::optional<HotExpert> parse_line(const std::string& line) {
  const std::vector<std::string> words = split(line, ' ');
  if (words.size() != 3) return std::nullopt;
  uint64_t numbers[3];
  for (size_t i = 0; i < 3; ++i) {
    const auto number = parse_integer(words[i]);
    if (!number || *number < 0 || (i < 2 && *number > std::numeric_limits<uint32_t>::max())) return std::nullopt;
    numbers[i] = static_cast<uint64_t>(*number);
  }
  return HotExpert{static_cast<uint32_t>(numbers[0]), static_cast<uint32_t>(numbers[1]), numbers[2]};
}

}  // namespace

Result<std::string> expert_list_path(const std::string& state_folder, const std::vector<std::string>& model_files) {
  Sha256 name;
  for (const std::string& path : model_files) {
    TRY(const auto file, FileSource::open(path));
    name.add(cat(file_name(path), '\n', file->size(), '\n'));
  }
  return join_path(join_path(state_folder, "experts"), name.finish_hex().substr(0, kNameDigits));
}

Result<std::vector<HotExpert>> read_expert_list(const std::string& path) {
  if (path_kind(path) == PathKind::missing) return error(ErrorKind::not_found, path, ": no such file");
  TRY(const std::string text, read_file(path, kMostBytes));
  const auto damaged = [&] { return error(ErrorKind::corrupt, path, ": no list of experts, or a damaged one"); };
  const size_t end = text.rfind(kChecksum);
  if (!starts_with(text, kFirstLine) || end == std::string::npos ||
      text.substr(end) != checksum_line(std::string_view(text).substr(0, end))) {
    return damaged();
  }
  std::vector<HotExpert> hot;
  for (const std::string& line : split(text.substr(kFirstLine.size(), end - kFirstLine.size()), '\n')) {
    if (line.empty()) continue;
    const auto one = parse_line(line);
    if (!one) return damaged();
    hot.push_back(*one);
  }
  return hot;
}

Status write_expert_list(const std::string& path, std::span<const HotExpert> hot) {
  std::string text(kFirstLine);
  for (const HotExpert& one : hot) text += cat(one.layer, ' ', one.expert, ' ', one.uses, '\n');
  text += checksum_line(text);
  const std::string folder = path.substr(0, path.rfind('/'));
  TRY_STATUS(make_own_folder(folder.substr(0, folder.rfind('/'))));
  TRY_STATUS(make_own_folder(folder));
  return write_file(path, text);
}

}  // namespace sluice
