#include "checkpoint/safetensors_writer.h"

#include <array>

#include "base/files/file.h"
#include "base/json.h"

namespace sluice {
namespace {

// Padded with spaces, so that the data behind it are aligned.
std::string header_of(std::span<const SavedTensor> tensors,
                      const std::vector<std::pair<std::string, std::string>>& metadata) {
  Json::Object header;
  if (!metadata.empty()) {
    Json::Object entries;
    for (const auto& [name, value] : metadata) entries.emplace_back(name, value);
    header.emplace_back("__metadata__", std::move(entries));
  }
  int64_t at = 0;
  for (const SavedTensor& tensor : tensors) {
    const auto end = at + static_cast<int64_t>(tensor.numbers.size_bytes());
    header.emplace_back(tensor.name, Json::Object{{"dtype", "F32"},
                                                  {"shape", Json::Array(tensor.shape.begin(), tensor.shape.end())},
                                                  {"data_offsets", Json::Array{at, end}}});
    at = end;
  }
  std::string text = write_json(Json(std::move(header)));
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

Status write_safetensors(const std::string& path, std::span<const SavedTensor> tensors,
                         const std::vector<std::pair<std::string, std::string>>& metadata) {
  const std::string header = header_of(tensors, metadata);
  std::array<std::byte, 8> length;
  for (size_t i = 0; i < length.size(); ++i) length[i] = static_cast<std::byte>(header.size() >> (8 * i));
  TRY(AtomicFile file, AtomicFile::create(path));
  TRY_STATUS(file.write(length));
  TRY_STATUS(file.write(std::as_bytes(std::span(header))));
  for (const SavedTensor& tensor : tensors) TRY_STATUS(file.write(std::as_bytes(tensor.numbers)));
  return file.commit();
}

}  // namespace sluice
