// Typed configuration. One table row describes a field and its name in both dialects. Reading a Hugging Face
// config.json, reading GGUF keys and writing GGUF keys all use that table.
//
//   std::vector<ConfigField> fields(Config& c) {
//     return {{"num_hidden_layers", "block_count", &c.layers, 1, kMaxLayers}, ...};
//   }
//
// Rules, the same for every family:
//   - a number outside [least, most], or a fraction where a whole number belongs, is refused with its name and range;
//   - a missing field takes `otherwise`, or is refused; null in config.json means 0 if the range contains 0;
//   - a field with one value a layer may be a single value for all layers or an array with exactly one for each;
//   - Hugging Face may write a 0/1 field as one of two words.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace sluice {

class SourceNames;

struct ConfigField {
  using Target = std::variant<uint32_t*, float*, bool*, std::vector<uint32_t>*>;

  const char* hugging_face = nullptr;              // path below the section, parts joined by '.'; null: no such field
  const char* gguf = nullptr;                      // key after "<architecture>."; null: no such key
  Target target;                                   // a member of a family's config, which outlives the row
  double least = 0, most = 0;                      // the range of a number; a bool has none
  std::optional<double> otherwise = std::nullopt;  // value when the field is missing; none: the field is required
  std::array<const char*, 2> words = {};           // what Hugging Face writes for 0 and 1
  bool at_root = false;                            // config.json may also have it outside the section
};

class ConfigReader {
 public:
  // `architecture` prefixes GGUF keys. `section` names the object of config.json that fields are read from; if there is
  // no such object, fields are read from the whole document. Fails when a Hugging Face checkpoint has no config.json.
  static Result<ConfigReader> open(const Checkpoint& checkpoint, const std::string& architecture,
                                   const char* section = "text_config");

  // Fills the targets of the rows that have a name in this dialect. The row that fills `layers` must come before every
  // field with one value a layer.
  Status read(std::span<const ConfigField> fields, const uint32_t& layers) const;

  // Hugging Face only: fails if the field has another value than this word. A missing field and null are accepted.
  Status require_word(const char* path, const char* wanted) const;

  // The value at a path below the section; null if there is none or the source is GGUF.
  const Json* member(const char* path) const { return section_ == nullptr ? nullptr : find_json(path); }
  // The value of the key "<architecture>.name"; null if there is none or the source is Hugging Face.
  const GgufValue* key(const std::string& name) const { return is_gguf() ? checkpoint_->key(prefix_ + name) : nullptr; }
  bool is_gguf() const { return section_ == nullptr; }

  // An error about the field that fills `target`: "model.gguf: llama.attention.head_count is 3: want ...".
  Error complain(std::span<const ConfigField> fields, ConfigField::Target target, const std::string& text) const;
  // An error about the field with this name in this dialect.
  Error refuse(ErrorKind kind, const std::string& name, const std::string& text) const {
    return error(kind, where_, ": ", prefix_, name, " ", text);
  }

 private:
  struct Found {
    bool array = false;
    bool null = false;
    uint64_t count = 1;  // elements of an array; the numbers are read only if a model could have so many layers
    std::vector<double> numbers;  // NaN for an element that is not a number
    std::string text;  // the value as the file writes it; for an array, the first element that is not a number
  };

  std::string name(const ConfigField& field) const;
  bool is_at_root(const ConfigField& field) const;
  const Json* find_json(const char* path) const;
  std::optional<Found> find_in_json(const ConfigField& field) const;
  std::optional<Found> find_in_gguf(const ConfigField& field) const;
  Status read_field(const ConfigField& field, uint32_t layers) const;
  Result<std::vector<double>> numbers(const ConfigField& field, uint32_t layers) const;

  const Checkpoint* checkpoint_ = nullptr;
  const Json* section_ = nullptr;  // Hugging Face only
  const Json* root_ = nullptr;     // the whole document, which may be the section
  std::string where_;              // begins every error
  std::string prefix_;             // begins every name: "text_config." or "llama."
};

// The rows as GGUF keys. Rows without a GGUF name are left out, and so are zeros whose `otherwise` is 0. A field with
// one value a layer is written as one number when all layers agree.
std::vector<GgufMetadata::Entry> gguf_keys(std::span<const ConfigField> fields, const std::string& architecture);

// The number of tokens when a GGUF file has no key for it: the rows of its embedding table, each `hidden` wide.
Result<uint32_t> gguf_vocabulary(const Checkpoint& checkpoint, const SourceNames& names, uint32_t hidden);

}  // namespace sluice
