// A checkpoint: a model's tensors under the names that the source gives them, its metadata, and its dialect.
//
// Opening reads headers and small documents; tensors stay in read-only mappings. This code knows no model family:
// model/ turns source names into canonical ones. A Checkpoint may be destroyed while its tensors are in use, as long as
// owner() of their file is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/files/stored_bytes.h"
#include "base/json.h"
#include "base/result.h"
#include "checkpoint/gguf_value.h"
#include "format/format.h"

namespace sluice {

enum class Dialect : uint8_t { hugging_face, gguf };
const char* dialect_name(Dialect dialect);  // "Hugging Face", "GGUF"

struct StoredTensor {
  std::string name;
  Format format{};
  std::vector<int64_t> shape;  // outermost first, as Hugging Face writes it (GGUF's dimensions reversed)
  StoredBytes bytes;           // of the mapping, at any address
  uint32_t file = 0;           // index into Checkpoint::files
  uint64_t offset = 0;         // of the first byte in that file
};

// The position of a byte in one of a checkpoint's files.
struct FilePlace {
  uint32_t file = 0;  // index into Checkpoint::files
  uint64_t offset = 0;
};

class Checkpoint {
 public:
  Dialect dialect() const { return dialect_; }
  const std::string& path() const { return path_; }
  const std::vector<std::string>& files() const { return files_; }       // those with tensors
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in the order of the files
  const StoredTensor* find(std::string_view name) const;
  // An error when a file has been written to since it was opened. Data read from it cannot be trusted then.
  Status check_unchanged() const;
  // 64 hexadecimal digits that stand for the versions of all files (Mapping::version); "" where a file has none.
  std::string version() const;
  // The file position of a byte of a tensor; none when the checkpoint lies in no file.
  std::optional<FilePlace> place_of(const StoredAt& byte) const;
  // Keeps the mapping of the tensor's bytes alive.
  std::shared_ptr<const void> owner(const StoredTensor& tensor) const {
    return memory_ != nullptr ? memory_ : mappings_[tensor.file];
  }

  // Hugging Face: "config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json" ...; null when the
  // directory has no such file. text_file: "chat_template.jinja".
  const Json* document(std::string_view file_name) const;
  const std::string* text_file(std::string_view file_name) const;

  // GGUF keys; those of the first file of a split model. Empty for other dialects.
  const GgufMetadata& metadata() const { return metadata_; }
  const GgufValue* key(std::string_view name) const { return metadata_.find(name); }

 private:
  friend class CheckpointBuilder;

  Dialect dialect_{};
  std::string path_;
  std::vector<std::string> files_;
  std::vector<std::shared_ptr<const Mapping>> mappings_;  // by file
  std::shared_ptr<const void> memory_;                    // of a checkpoint in no file
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<std::pair<std::string, Json>> documents_;
  std::vector<std::pair<std::string, std::string>> texts_;
  GgufMetadata metadata_;
};

// Opens a Hugging Face directory (config.json and *.safetensors, sharded or not) or a .gguf file. Any file of a split
// model will do.
Result<Checkpoint> open_checkpoint(const std::string& path);
// The model's checkpoint with the tensors and keys of a draft head (multi-token prediction) from a file of its own
// (draft_file.h). Both checkpoints share the mappings of the model's files.
Result<Checkpoint> join_draft_head(const Checkpoint& model, const std::string& path);
// The same with towers from a file of their own, as llama.cpp writes it ("mmproj"): its architecture is "clip", its
// keys begin with "clip.".
Result<Checkpoint> join_projector(const Checkpoint& model, const std::string& path);
// A checkpoint without a file: a configuration alone, or a model made up in memory.
struct MadeCheckpoint {
  Dialect dialect{};
  std::string name;  // in the place of a path
  std::vector<std::pair<std::string, Json>> documents;
  GgufMetadata metadata;
  std::vector<StoredTensor> tensors;   // of file 0, under different names
  std::shared_ptr<const void> memory;  // owns their bytes
};
Checkpoint make_checkpoint(MadeCheckpoint made);
// One safetensors file without documents: goldens, adapters.
Result<Checkpoint> open_safetensors(const std::string& path);

}  // namespace sluice
