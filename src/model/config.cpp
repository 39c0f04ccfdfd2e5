#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/limits.h"
#include "model/weight_table.h"

namespace sluice {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

std::string number_text(double value) {
  if (std::floor(value) == value && std::abs(value) < 1e15) return cat(static_cast<int64_t>(value));
  return cat(value);
}

double json_number(const Json& value, const ConfigField& field) {
  if (value.is_bool()) return value.as_bool() ? 1.0 : 0.0;
  if (value.is_number()) return value.as_number();
  for (size_t i = 0; i < field.words.size(); ++i)
    if (field.words[i] != nullptr && value.is_string() && value.as_string() == field.words[i])
      return static_cast<double>(i);
  return kNoNumber;
}

template <class T>
void append_numbers(std::vector<double>& to, const T& value) {
  if constexpr (std::is_arithmetic_v<T>)
    to.push_back(static_cast<double>(value));
  else
    to.push_back(kNoNumber);
}
template <class T>
void append_numbers(std::vector<double>& to, const GgufArray<T>& values) {
  for (size_t i = 0; i < values.size(); ++i) append_numbers<T>(to, values[i]);
}

bool is_flag(const ConfigField& field) { return std::holds_alternative<bool*>(field.target); }
bool is_per_layer(const ConfigField& field) { return std::holds_alternative<std::vector<uint32_t>*>(field.target); }
bool takes_fractions(const ConfigField& field) { return std::holds_alternative<float*>(field.target); }

bool allowed(const ConfigField& field, double value) {
  if (is_flag(field)) return value == 0.0 || value == 1.0;
  return value >= field.least && value <= field.most && (takes_fractions(field) || std::floor(value) == value);
}

std::string wanted(const ConfigField& field) {
  if (is_flag(field)) return "true or false";
  if (field.words[0] != nullptr) return cat(field.words[0], " or ", field.words[1]);
  return cat(number_text(field.least), " to ", number_text(field.most));
}

void store(const ConfigField& field, const std::vector<double>& numbers) {
  if (auto* const* whole = std::get_if<uint32_t*>(&field.target)) **whole = static_cast<uint32_t>(numbers[0]);
  if (auto* const* real = std::get_if<float*>(&field.target)) **real = static_cast<float>(numbers[0]);
  if (auto* const* flag = std::get_if<bool*>(&field.target)) **flag = numbers[0] != 0.0;
  if (auto* const* each = std::get_if<std::vector<uint32_t>*>(&field.target)) {
    (*each)->clear();
    for (const double number : numbers) (*each)->push_back(static_cast<uint32_t>(number));
  }
}

GgufValue per_layer_value(const ConfigField& field, const std::vector<uint32_t>& each) {
  if (field.words[0] != nullptr) {
    GgufArray<bool> flags;
    for (const uint32_t value : each) flags.push_back(value != 0);
    return flags;
  }
  if (std::all_of(each.begin(), each.end(), [&](uint32_t value) { return value == each.front(); })) return each.front();
  GgufArray<int32_t> numbers;
  for (const uint32_t value : each) numbers.push_back(static_cast<int32_t>(value));
  return numbers;
}

bool left_out(const ConfigField& field) {
  if (field.gguf == nullptr) return true;
  auto* const* whole = std::get_if<uint32_t*>(&field.target);
  return whole != nullptr && **whole == 0 && field.otherwise == 0.0;
}

GgufValue gguf_value(const ConfigField& field) {
  if (auto* const* whole = std::get_if<uint32_t*>(&field.target)) return **whole;
  if (auto* const* real = std::get_if<float*>(&field.target)) return **real;
  if (auto* const* flag = std::get_if<bool*>(&field.target)) return **flag;
  return per_layer_value(field, **std::get_if<std::vector<uint32_t>*>(&field.target));
}

}  // namespace

Result<ConfigReader> ConfigReader::open(const Checkpoint& checkpoint, const std::string& architecture,
                                        const char* section) {
  ConfigReader reader;
  reader.checkpoint_ = &checkpoint;
  if (checkpoint.dialect() == Dialect::gguf) {
    reader.where_ = checkpoint.path();
    reader.prefix_ = architecture + ".";
    return reader;
  }
  const Json* config = checkpoint.document("config.json");
  if (config == nullptr || !config->is_object())
    return error(ErrorKind::not_found, checkpoint.path(), ": no config.json");
  const Json* found = config->find(section);
  const bool nested = found != nullptr && found->is_object();
  reader.where_ = join_path(checkpoint.path(), "config.json");
  reader.section_ = nested ? found : config;
  reader.root_ = config;
  reader.prefix_ = nested ? cat(section, ".") : "";
  return reader;
}

bool ConfigReader::is_at_root(const ConfigField& field) const {
  return field.at_root && section_ != nullptr && find_json(field.hugging_face) == nullptr &&
         root_->find(field.hugging_face) != nullptr;
}

std::string ConfigReader::name(const ConfigField& field) const {
  if (is_at_root(field)) return field.hugging_face;
  return prefix_ + (section_ != nullptr ? field.hugging_face : field.gguf);
}

const Json* ConfigReader::find_json(const char* path) const {
  const Json* at = section_;
  for (const std::string& part : split(path, '.')) {
    at = at->find(part);
    if (at == nullptr) return nullptr;
  }
  return at;
}

std::optional<ConfigReader::Found> ConfigReader::find_in_json(const ConfigField& field) const {
  const Json* value = is_at_root(field) ? root_->find(field.hugging_face) : find_json(field.hugging_face);
  if (value == nullptr) return std::nullopt;
  Found found;
  found.array = value->is_array();
  found.null = value->is_null();
  if (found.array) {
    found.count = value->as_array().size();
    for (const Json& element : value->as_array()) {
      found.numbers.push_back(json_number(element, field));
      if (std::isnan(found.numbers.back()) && found.text.empty()) found.text = printable(write_json(element));
    }
  } else {
    found.numbers.push_back(json_number(*value, field));
    found.text = printable(write_json(*value));
  }
  return found;
}

std::optional<ConfigReader::Found> ConfigReader::find_in_gguf(const ConfigField& field) const {
  const GgufValue* value = checkpoint_->key(name(field));
  if (value == nullptr) return std::nullopt;
  Found found;
  found.array = is_array(*value);
  found.count = element_count(*value);
  if (found.count <= kMaxLayers) std::visit([&](const auto& v) { append_numbers(found.numbers, v); }, *value);
  found.text =
      found.array || element_type(*value) == GgufType::string ? type_text(*value) : number_text(found.numbers[0]);
  return found;
}

Result<std::vector<double>> ConfigReader::numbers(const ConfigField& field, uint32_t layers) const {
  std::optional<Found> found = section_ != nullptr ? find_in_json(field) : find_in_gguf(field);
  if (found && found->null) {
    found->numbers = {0.0};
    if (field.otherwise && !allowed(field, 0.0)) found.reset();
  }
  if (!found && field.otherwise) return std::vector<double>(is_per_layer(field) ? layers : 1, *field.otherwise);
  if (!found) return error(ErrorKind::not_found, where_, ": ", name(field), " is missing");
  if (found->array && !is_per_layer(field))
    return error(ErrorKind::invalid, where_, ": ", name(field), " is an array: want ", wanted(field));
  if (found->array && found->count != layers)
    return error(ErrorKind::invalid, where_, ": ", name(field), " has ", found->count,
                 " entries: want one for each of ", layers, " layers");
  for (size_t i = 0; i < found->numbers.size(); ++i) {
    const double number = found->numbers[i];
    if (allowed(field, number)) continue;
    const std::string which = found->array ? cat("[", i, "]") : "";
    const std::string text = found->array && !std::isnan(number) ? number_text(number) : found->text;
    return error(ErrorKind::invalid, where_, ": ", name(field), which, " is ", text, ": want ", wanted(field));
  }
  if (is_per_layer(field) && !found->array) found->numbers.resize(layers, found->numbers[0]);
  return std::move(found->numbers);
}

Status ConfigReader::read_field(const ConfigField& field, uint32_t layers) const {
  if ((section_ != nullptr ? field.hugging_face : field.gguf) == nullptr) return {};
  TRY(const std::vector<double> values, numbers(field, layers));
  store(field, values);
  return {};
}

Status ConfigReader::read(std::span<const ConfigField> fields, const uint32_t& layers) const {
  for (const ConfigField& field : fields) TRY_STATUS(read_field(field, layers));
  return {};
}

Status ConfigReader::require_word(const char* path, const char* wanted_word) const {
  const Json* value = section_ == nullptr ? nullptr : find_json(path);
  if (value == nullptr || value->is_null() || (value->is_string() && value->as_string() == wanted_word)) return {};
  return error(ErrorKind::unsupported, where_, ": ", prefix_, path, " is ", printable(write_json(*value)), ": want \"",
               wanted_word, "\"");
}

Error ConfigReader::complain(std::span<const ConfigField> fields, ConfigField::Target target,
                             const std::string& text) const {
  const auto field =
      std::find_if(fields.begin(), fields.end(), [&](const ConfigField& f) { return f.target == target; });
  CHECK(field != fields.end());
  return error(ErrorKind::invalid, where_, ": ", name(*field), " ", text);
}

std::vector<GgufMetadata::Entry> gguf_keys(std::span<const ConfigField> fields, const std::string& architecture) {
  std::vector<GgufMetadata::Entry> keys;
  for (const ConfigField& field : fields)
    if (!left_out(field)) keys.push_back({cat(architecture, ".", field.gguf), gguf_value(field)});
  return keys;
}

Result<uint32_t> gguf_vocabulary(const Checkpoint& checkpoint, const SourceNames& names, uint32_t hidden) {
  const StoredTensor* table = names.find("token_embd.weight");
  if (table == nullptr || table->shape.size() != 2 || table->shape[0] < 1 || table->shape[0] > kMaxVocabulary)
    return error(ErrorKind::invalid, checkpoint.path(), ": token_embd.weight is ",
                 table == nullptr ? "missing" : format_shape(table->shape), ": want [1 to ", kMaxVocabulary, ", ",
                 hidden, "]");
  return static_cast<uint32_t>(table->shape[0]);
}

}  // namespace sluice
