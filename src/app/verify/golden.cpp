#include "app/verify/golden.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/files/file.h"
#include "base/limits.h"
#include "base/text.h"

namespace sluice {
namespace {

// Members of one JSON object, with errors that name the document and the place: "golden.json: case short17: ...".
class Members {
 public:
  Members(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {}

  Error fault(std::string_view name, std::string_view want) const {
    return error(ErrorKind::corrupt, where_, ": ", name, " is missing or of another kind: want ", want);
  }

  Result<std::string> text(std::string_view name) const {
    const Json* member = object_->find(name);
    return member != nullptr && member->is_string() ? Result<std::string>(member->as_string())
                                                    : fault(name, "a string");
  }

  Result<const Json::Array*> array(std::string_view name) const {
    const Json* member = object_->find(name);
    if (member == nullptr || !member->is_array()) return fault(name, "an array");
    return &member->as_array();
  }

  // Absent: empty.
  template <class T>
  Result<std::vector<T>> numbers(std::string_view name) const {
    std::vector<T> values;
    if (object_->find(name) == nullptr) return values;
    TRY(const Json::Array* members, array(name));
    for (const Json& member : *members) {
      if (!member.is_number() || !in_range<T>(member.as_number())) return fault(name, "an array of numbers");
      values.push_back(static_cast<T>(member.as_number()));
    }
    return values;
  }

  Result<std::optional<double>> number(std::string_view name) const {
    const Json* member = object_->find(name);
    if (member == nullptr) return std::optional<double>();
    return member->is_number() ? Result<std::optional<double>>(member->as_number()) : fault(name, "a number");
  }

  const std::string& where() const { return where_; }

 private:
  template <class T>
  static bool in_range(double value) {
    return value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
           value <= static_cast<double>(std::numeric_limits<T>::max());
  }

  const Json* object_;
  std::string where_;
};

Status check_positions(const GoldenCase& read, const Members& members) {
  for (size_t i = 0; i < read.positions.size(); ++i) {
    if (read.positions[i] >= read.input_ids.size() || (i > 0 && read.positions[i] <= read.positions[i - 1])) {
      return error(ErrorKind::corrupt, members.where(), ": positions[", i, "] is ", read.positions[i],
                   ": want ascending positions below ", read.input_ids.size());
    }
  }
  if (read.greedy.size() != read.greedy_margin.size()) {
    return error(ErrorKind::corrupt, members.where(), ": ", read.greedy_margin.size(), " greedy margins: want ",
                 read.greedy.size());
  }
  return {};
}

Status read_tensor_names(const Json& object, const Members& members, GoldenCase& read) {
  const Json* tensors = object.find("tensors");
  if (tensors == nullptr) return {};
  if (!tensors->is_object()) return members.fault("tensors", "an object");
  for (const auto& [name, key] : tensors->as_object()) {
    if (!key.is_string()) return members.fault("tensors", "an object of strings");
    read.tensors.emplace_back(name, key.as_string());
  }
  return {};
}

Status read_files(const Json& object, const Members& members, GoldenCase& read) {
  const Json* files = object.find("files");
  if (files == nullptr) return {};
  if (!files->is_array()) return members.fault("files", "an array of strings");
  for (const Json& file : files->as_array()) {
    const bool is_name = file.is_string() && file.as_string().find('/') == std::string::npos;
    if (!is_name) return members.fault("files", "an array of names of files beside it");
    read.files.push_back(file.as_string());
  }
  return {};
}

Status read_numbers(const Json& object, const Members& members, GoldenCase& read) {
  TRY(read.input_ids, members.numbers<int32_t>("input_ids"));
  TRY(read.positions, members.numbers<uint32_t>("positions"));
  TRY(read.greedy, members.numbers<int32_t>("greedy"));
  TRY(read.greedy_margin, members.numbers<float>("greedy_margin"));
  TRY(read.perplexity, members.number("perplexity"));
  TRY(const std::optional<double> difference, members.number("float64_difference"));
  read.float64_difference = difference.value_or(0);
  TRY_STATUS(read_files(object, members, read));
  TRY_STATUS(read_tensor_names(object, members, read));
  return check_positions(read, members);
}

Status read_drafts(const Members& members, GoldenCase& read) {
  TRY(const std::optional<double> first, members.number("first_token"));
  if (!first) return members.fault("first_token", "a token");
  read.first_token = static_cast<int32_t>(*first);
  TRY(read.greedy, members.numbers<int32_t>("draft_tokens"));
  TRY(read.greedy_margin, members.numbers<float>("margins"));
  if (read.greedy.empty() || read.greedy.size() != read.greedy_margin.size())
    return members.fault("draft_tokens", "tokens, and as many margins");
  return {};
}

Status read_chat(const Json& object, const Members& members, GoldenCase& read) {
  TRY(read.text, members.text("text"));
  TRY_STATUS(members.array("messages"));
  read.messages = *object.find("messages");
  if (const Json* kwargs = object.find("template_kwargs"); kwargs != nullptr && kwargs->is_object())
    read.template_kwargs = *kwargs;
  return {};
}

Result<GoldenCase> read_case(const Json& object, const std::string& where) {
  GoldenCase read;
  TRY(read.name, Members(object, where).text("name"));
  const Members members(object, cat(where, ": case ", printable(read.name)));
  TRY(read.kind, members.text("kind"));
  if (read.kind == kTrainingKind) {
    read.training = object;
    TRY_STATUS(read_files(object, members, read));
    TRY_STATUS(read_tensor_names(object, members, read));
    return read;
  }
  // Cases of other kinds are only listed; their members may have other shapes.
  if (!reason_not_run(read.kind)) {
    TRY_STATUS(read_numbers(object, members, read));
    if (read.input_ids.empty()) return members.fault("input_ids", "at least one token");
  }
  if (read.kind == kDraftKind) TRY_STATUS(read_drafts(members, read));
  if (read.kind == "chat") TRY_STATUS(read_chat(object, members, read));
  return read;
}

std::string tensors_path(const std::string& path) {
  return cat(ends_with(path, ".json") ? path.substr(0, path.size() - 5) : path, ".safetensors");
}

template <class T>
std::vector<T> copy_elements(const StoredTensor& stored) {
  std::vector<T> elements(stored.bytes.size() / sizeof(T));
  if (!elements.empty()) std::memcpy(elements.data(), stored.bytes.data(), elements.size() * sizeof(T));
  return elements;
}

}  // namespace

Result<Golden> Golden::open(const std::string& path) {
  TRY(const std::string text, read_file(path, kMaxDocumentBytes));
  TRY(const Json document, parse_json(text, path));
  const Members members(document, path);
  TRY(std::string model, members.text("model"));
  TRY(const Json::Array* objects, members.array("cases"));
  std::vector<GoldenCase> cases;
  for (const Json& object : *objects) {
    TRY(GoldenCase read, read_case(object, path));
    cases.push_back(std::move(read));
  }
  TRY(Checkpoint tensors, open_safetensors(tensors_path(path)));
  const size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  return Golden(std::move(model), std::move(folder), std::move(cases), std::move(tensors));
}

Result<GoldenTensor> Golden::tensor(const GoldenCase& golden_case, const std::string& name) const {
  for (const auto& [known, key] : golden_case.tensors) {
    if (known != name) continue;
    const StoredTensor* stored = tensors_.find(key);
    if (stored == nullptr) {
      return error(ErrorKind::corrupt, tensors_.path(), ": no tensor ", printable(key), ": want the ", name,
                   " of case ", golden_case.name);
    }
    switch (stored->format) {
      case Format::f32: return GoldenTensor{stored->shape, copy_elements<float>(*stored), {}};
      case Format::f64: {
        const std::vector<double> exact = copy_elements<double>(*stored);
        return GoldenTensor{stored->shape, std::vector<float>(exact.begin(), exact.end()), {}};
      }
      case Format::i32: return GoldenTensor{stored->shape, {}, copy_elements<int32_t>(*stored)};
      default:
        return error(ErrorKind::unsupported, tensors_.path(), ": ", printable(key), " is ", format_name(stored->format),
                     ": want f32, f64 or i32");
    }
  }
  return error(ErrorKind::not_found, "case ", golden_case.name, ": no tensor ", name);
}

std::optional<std::string> reason_not_run(std::string_view kind) {
  for (const char* known : {"text", "chat", "image", "audio", "mixed", "video", "lora", "train", "draft"})
    if (kind == known) return std::nullopt;
  return cat("cases of kind ", printable(kind), " are not known");
}

}  // namespace sluice
