#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "base/limits.h"
#include "base/sha256.h"
#include "checkpoint/draft_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard_index.h"
#include "checkpoint/split_gguf.h"

namespace sluice {

namespace {

constexpr const char* kProjectorArchitecture = "clip";
constexpr const char* kProjectorKeys = "clip.";
constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kAdapterConfigName = "adapter_config.json";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kModelName = "model.safetensors";
constexpr std::string_view kDocumentNames[] = {
    "config.json",           "generation_config.json",        "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json",       "preprocessor_config.json",
    "processor_config.json", "video_preprocessor_config.json"};
constexpr std::string_view kTextNames[] = {"chat_template.jinja"};

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> with_suffix(const std::vector<std::string>& names, std::string_view suffix) {
  std::vector<std::string> found;
  std::ranges::copy_if(names, std::back_inserter(found), [&](const auto& name) { return ends_with(name, suffix); });
  return found;
}

// The error about a directory that is not a checkpoint, with a hint at what it may be.
Error not_a_checkpoint(const std::string& path, const std::vector<std::string>& names) {
  if (names.empty()) return error(ErrorKind::not_found, path, ": an empty directory: want config.json and safetensors");
  if (contains(names, kAdapterConfigName))
    return error(ErrorKind::unsupported, path,
                 ": a LoRA adapter: want the model that it changes, and --adapter for this folder");
  const auto ggufs = with_suffix(names, ".gguf");
  if (!ggufs.empty())
    return error(ErrorKind::invalid, path, ": a directory of GGUF files: want one of them, such as ", ggufs.front());
  if (!with_suffix(names, ".bin").empty() || !with_suffix(names, ".pt").empty())
    return error(ErrorKind::unsupported, path, ": weights of PyTorch's pickle format: want safetensors");
  const char* missing = contains(names, kConfigName) ? "*.safetensors" : "config.json";
  return error(ErrorKind::not_found, path, ": no ", missing, ": want a Hugging Face directory or a GGUF file");
}

}  // namespace

const char* dialect_name(Dialect dialect) {
  static constexpr const char* kNames[] = {"Hugging Face", "GGUF"};
  return kNames[static_cast<size_t>(dialect)];
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::optional<FilePlace> Checkpoint::place_of(const StoredAt& byte) const {
  for (size_t file = 0; file < mappings_.size(); ++file)
    if (const std::optional<uint64_t> offset = mappings_[file]->stored().offset_of(byte))
      return FilePlace{static_cast<uint32_t>(file), *offset};
  return std::nullopt;
}

Status Checkpoint::check_unchanged() const {
  for (const auto& mapping : mappings_) TRY_STATUS(mapping->check_unchanged());
  return {};
}

std::string Checkpoint::version() const {
  Sha256 versions;
  for (const auto& mapping : mappings_) {
    const std::string version = mapping->version();
    if (version.empty()) return {};
    versions.add(version + "\n");
  }
  return mappings_.empty() ? "" : versions.finish_hex();
}

const Json* Checkpoint::document(std::string_view file_name) const {
  for (const auto& [name, json] : documents_)
    if (name == file_name) return &json;
  return nullptr;
}

const std::string* Checkpoint::text_file(std::string_view file_name) const {
  for (const auto& [name, text] : texts_)
    if (name == file_name) return &text;
  return nullptr;
}

// Builds a Checkpoint file by file.
class CheckpointBuilder {
 public:
  CheckpointBuilder(Dialect dialect, const std::string& path) {
    built_.dialect_ = dialect;
    built_.path_ = path;
  }
  explicit CheckpointBuilder(Checkpoint begun) : built_(std::move(begun)) {}

  Status add_safetensors(const std::string& path);
  Status add_gguf(const std::string& path);
  Status add_directory(const std::string& path);
  Status add_draft_head(const std::string& path);
  Status add_projector(const std::string& path);
  void add_made(MadeCheckpoint made);
  Checkpoint take() { return std::move(built_); }

 private:
  Status add_file(const std::string& path, std::vector<TensorEntry> entries);
  Status add_shards(const std::string& folder, const std::vector<std::string>& names);
  Status add_documents(const std::string& folder, const std::vector<std::string>& names);

  Checkpoint built_;
};

Status CheckpointBuilder::add_file(const std::string& path, std::vector<TensorEntry> entries) {
  TRY(Mapping mapping, Mapping::open(path));
  const auto shared = std::make_shared<const Mapping>(std::move(mapping));
  const StoredBytes bytes = shared->stored();
  const auto file = static_cast<uint32_t>(built_.files_.size());
  for (TensorEntry& entry : entries) {
    if (entry.offset > bytes.size() || entry.bytes > bytes.size() - entry.offset)
      return error(ErrorKind::io, path, ": the file became shorter while it was opened");
    if (!built_.index_.emplace(entry.name, built_.tensors_.size()).second)
      return error(ErrorKind::corrupt, path, ": tensor ", printable(entry.name), " stands in another file too");
    const StoredBytes held(bytes.data() + entry.offset, entry.bytes);
    built_.tensors_.push_back({std::move(entry.name), entry.format, std::move(entry.shape), held, file, entry.offset});
  }
  built_.files_.push_back(path);
  built_.mappings_.push_back(shared);
  return {};
}

Status CheckpointBuilder::add_safetensors(const std::string& path) {
  TRY(const auto source, FileSource::open(path));
  TRY(auto entries, parse_safetensors(*source, path));
  return add_file(path, std::move(entries));
}

Status CheckpointBuilder::add_gguf(const std::string& path) {
  TRY(GgufParts gguf, read_gguf_parts(path));
  built_.metadata_ = std::move(gguf.metadata);
  for (GgufPart& part : gguf.parts) TRY_STATUS(add_file(part.path, std::move(part.tensors)));
  return {};
}

Status CheckpointBuilder::add_draft_head(const std::string& path) {
  TRY(GgufParts gguf, read_gguf_parts(path));
  TRY(DraftFileKeys keys, join_draft_keys(built_.metadata_, built_.path_, gguf.metadata, path));
  for (GgufPart& part : gguf.parts) {
    std::erase_if(part.tensors, [&](const auto& entry) { return !is_draft_tensor(entry.name, keys.first_layer); });
    TRY_STATUS(add_file(part.path, std::move(part.tensors)));
  }
  built_.metadata_ = std::move(keys.joined);
  return {};
}

Status CheckpointBuilder::add_projector(const std::string& path) {
  TRY(GgufParts gguf, read_gguf_parts(path));
  TRY(const std::string architecture, gguf.metadata.get_string("general.architecture"));
  if (architecture != kProjectorArchitecture) {
    return error(ErrorKind::invalid, path, ": is of the architecture ", printable(architecture), ": want ",
                 kProjectorArchitecture, ", the towers of a model");
  }
  for (const auto& [name, value] : gguf.metadata.entries())
    if (starts_with(name, kProjectorKeys) && built_.metadata_.find(name) == nullptr) built_.metadata_.add(name, value);
  for (GgufPart& part : gguf.parts) TRY_STATUS(add_file(part.path, std::move(part.tensors)));
  return {};
}

Status CheckpointBuilder::add_shards(const std::string& folder, const std::vector<std::string>& names) {
  const std::string index_path = join_path(folder, kIndexName);
  TRY(const std::string text, read_file(index_path, kMaxDocumentBytes));
  TRY(const auto weight_map, parse_shard_index(text, index_path));
  std::set<std::string> shards;
  for (const auto& [tensor, file] : weight_map) shards.insert(file);
  if (shards.empty() || shards.size() > kMaxShards)
    return error(ErrorKind::corrupt, index_path, ": ", shards.size(), " files: want 1 to ", kMaxShards);
  for (const std::string& shard : shards) {
    if (!contains(names, shard)) {
      return error(ErrorKind::not_found, join_path(folder, shard), ": missing: want every file that ", kIndexName,
                   " names");
    }
    TRY_STATUS(add_safetensors(join_path(folder, shard)));
  }
  for (const auto& [tensor, file] : weight_map) {
    const StoredTensor* stored = built_.find(tensor);
    if (stored == nullptr || file_name(built_.files_[stored->file]) != file) {
      return error(ErrorKind::corrupt, index_path, ": tensor ", printable(tensor), " is not in ", file,
                   ": want the index to fit its files");
    }
  }
  if (built_.tensors_.size() == weight_map.size()) return {};
  const auto unlisted =
      std::ranges::find_if(built_.tensors_, [&](const auto& tensor) { return !weight_map.contains(tensor.name); });
  return error(ErrorKind::corrupt, index_path, ": tensor ", printable(unlisted->name), " of ",
               file_name(built_.files_[unlisted->file]), " is not listed: want the index to fit its files");
}

Status CheckpointBuilder::add_documents(const std::string& folder, const std::vector<std::string>& names) {
  for (const std::string_view name : kDocumentNames) {
    if (!contains(names, name)) continue;
    const std::string path = join_path(folder, name);
    TRY(const std::string text, read_file(path, kMaxDocumentBytes));
    TRY(Json json, parse_json(text, path));
    built_.documents_.emplace_back(name, std::move(json));
  }
  for (const std::string_view name : kTextNames) {
    if (!contains(names, name)) continue;
    TRY(std::string text, read_file(join_path(folder, name), kMaxDocumentBytes));
    built_.texts_.emplace_back(name, std::move(text));
  }
  return {};
}

Status CheckpointBuilder::add_directory(const std::string& path) {
  TRY(const auto names, list_directory(path));
  if (!contains(names, kConfigName)) return not_a_checkpoint(path, names);
  TRY_STATUS(add_documents(path, names));
  if (contains(names, kIndexName)) return add_shards(path, names);
  if (contains(names, kModelName)) return add_safetensors(join_path(path, kModelName));
  const auto files = with_suffix(names, ".safetensors");
  if (files.size() > 1) {
    return error(ErrorKind::not_found, path, ": ", files.size(), " safetensors files and no ", kIndexName,
                 ": want the index that says which tensor is where");
  }
  if (files.empty()) return not_a_checkpoint(path, names);
  return add_safetensors(join_path(path, files.front()));
}

void CheckpointBuilder::add_made(MadeCheckpoint made) {
  built_.files_ = {built_.path_};
  built_.memory_ = std::move(made.memory);
  built_.documents_ = std::move(made.documents);
  built_.metadata_ = std::move(made.metadata);
  built_.tensors_ = std::move(made.tensors);
  for (size_t i = 0; i < built_.tensors_.size(); ++i) {
    const bool added = built_.index_.emplace(built_.tensors_[i].name, i).second;
    CHECK(added && built_.memory_ != nullptr && built_.tensors_[i].file == 0);
  }
}

namespace {

// What a file that is no model begins with, and what to do about it.
struct OtherFile {
  std::string_view begins;  // in lower case
  const char* what;
};
constexpr OtherFile kOtherFiles[] = {
    {"version https://git-lfs", "a Git LFS pointer in place of the file: want git lfs pull there, or the file itself"},
    {"<!doctype html", "a web page, not a model: want the address of the file itself"},
    {"<html", "a web page, not a model: want the address of the file itself"},
    {"pk\x03\x04", "weights of PyTorch's pickle format: want safetensors or GGUF"},
};

// The refusal of a file that is no model, by its first bytes.
Error not_a_model(const std::string& path, std::string_view begin) {
  const size_t blanks = std::min(begin.find_first_not_of(" \t\r\n"), begin.size());
  std::string text(begin.substr(blanks));
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (begin.empty())
    return error(ErrorKind::corrupt, path, ": an empty file: want a GGUF file or a Hugging Face directory");
  for (const OtherFile& other : kOtherFiles)
    if (starts_with(text, other.begins)) return error(ErrorKind::unsupported, path, ": ", other.what);
  if (file_name(path).find("imatrix") != std::string_view::npos)
    return error(ErrorKind::unsupported, path, ": an importance matrix: want the model that it was made of");
  if (ends_with(path, ".safetensors"))
    return error(ErrorKind::invalid, path, ": weights without their config.json: want the directory they lie in");
  return error(ErrorKind::unsupported, path, ": not a GGUF file: want a GGUF file or a Hugging Face directory");
}

Result<Checkpoint> open_file(const std::string& path) {
  TRY(const auto source, FileSource::open(path));
  std::array<char, 64> start{};
  const std::span<char> there =
      std::span(start).first(static_cast<size_t>(std::min<uint64_t>(start.size(), source->size())));
  TRY_STATUS(source->read_at(0, std::as_writable_bytes(there)));
  const std::string_view begin(there.data(), there.size());
  if (starts_with(begin, "GGUF")) {
    CheckpointBuilder builder(Dialect::gguf, path);
    TRY_STATUS(builder.add_gguf(path));
    return builder.take();
  }
  return not_a_model(path, begin);
}

}  // namespace

Result<Checkpoint> open_checkpoint(const std::string& path) {
  switch (path_kind(path)) {
    case PathKind::missing: return error(ErrorKind::not_found, path, ": no such file or directory");
    case PathKind::other: return error(ErrorKind::invalid, path, ": neither a file nor a directory");
    case PathKind::file: return open_file(path);
    case PathKind::directory: break;
  }
  CheckpointBuilder builder(Dialect::hugging_face, path);
  TRY_STATUS(builder.add_directory(path));
  return builder.take();
}

Result<Checkpoint> open_safetensors(const std::string& path) {
  CheckpointBuilder builder(Dialect::hugging_face, path);
  TRY_STATUS(builder.add_safetensors(path));
  return builder.take();
}

Result<Checkpoint> join_projector(const Checkpoint& model, const std::string& path) {
  if (model.dialect() != Dialect::gguf)
    return error(ErrorKind::unsupported, path, ": towers in a file of their own: want a GGUF model beside it");
  CheckpointBuilder builder(model);
  TRY_STATUS(builder.add_projector(path));
  return builder.take();
}

Result<Checkpoint> join_draft_head(const Checkpoint& model, const std::string& path) {
  if (model.dialect() != Dialect::gguf)
    return error(ErrorKind::unsupported, path, ": a draft head in a file of its own: want a GGUF model beside it");
  CheckpointBuilder builder(model);
  TRY_STATUS(builder.add_draft_head(path));
  return builder.take();
}

Checkpoint make_checkpoint(MadeCheckpoint made) {
  CheckpointBuilder builder(made.dialect, made.name);
  builder.add_made(std::move(made));
  return builder.take();
}

}  // namespace sluice
