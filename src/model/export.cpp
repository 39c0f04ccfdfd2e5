#include "model/export.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "model/facts.h"
#include "model/family.h"

namespace sluice {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;
constexpr uint32_t kQuantizationVersion = 2;

// general.file_type of a file whose matrices are mostly of that format.
struct FileType {
  Format format;
  uint32_t id;
};
constexpr FileType kFileTypes[] = {{Format::f32, 0}, {Format::f16, 1}, {Format::bf16, 32}, {Format::q8_0, 7}};

Format written_format(const std::string& name, const std::vector<int64_t>& shape, Format target) {
  const bool router = ends_with(name, ".ffn_gate_inp.weight");
  if (shape.size() == 1 || router || !ends_with(name, ".weight")) return Format::f32;
  if (shape.back() % format_info(target).block_elements != 0) return Format::f16;
  return target;
}

// The whole stored tensor that a weight is, or is a part of.
TensorSource whole_tensor(const BoundWeight& weight) {
  TensorSource whole = weight.tensor;
  whole.bytes = weight.stored->bytes.data();
  if (weight.source.total_rows != 0) whole.shape.rows = weight.source.total_rows;
  return whole;
}

std::vector<ExportTensor> export_tensors(const Model& model, Format target) {
  std::vector<ExportTensor> tensors;
  for (const MadeTensor& made : model.family_model().gguf_made_tensors()) {
    const auto values = std::make_shared<const std::vector<float>>(made.values);
    const auto columns = static_cast<uint32_t>(values->size());
    const uint64_t bytes = row_bytes(Format::f32, columns);
    tensors.push_back({made.name,
                       {columns},
                       Format::f32,
                       {.shape = {.columns = columns},
                        .format = Format::f32,
                        .bytes = reinterpret_cast<const std::byte*>(values->data()),
                        .expert_stride = bytes,
                        .row_stride = bytes,
                        .owner = values}});
  }
  std::unordered_set<std::string> written;
  for (const BoundWeight& weight : model.weights().all()) {
    const auto& names = weight.row.gguf;
    const auto name = std::ranges::find_if(names, [&](const auto& n) { return n.same_part(weight.source); });
    CHECK(name != names.end());
    if (!written.insert(name->name).second) continue;  // another part of a fused tensor
    std::vector<int64_t> shape = stored_shape(weight.row.shape, weight.source);
    const Format format = written_format(name->name, shape, target);
    tensors.push_back({name->name, std::move(shape), format, whole_tensor(weight)});
  }
  return tensors;
}

std::vector<GgufMetadata::Entry> keys_of_hugging_face(const Model& model) {
  const ModelFacts& facts = model.facts();
  std::vector<GgufMetadata::Entry> keys = {{"general.architecture", std::string(model.family().name)},
                                           {"general.type", std::string("model")}};
  const auto append = [&](std::vector<GgufMetadata::Entry> more) { std::ranges::move(more, std::back_inserter(keys)); };
  append(gguf_sampling(facts.sampling));
  append({{"general.name", facts.name}, {"general.size_label", facts.size_label}});
  append(model.family_model().gguf_config());
  if (!facts.suppress_tokens.empty()) append({{"tokenizer.ggml.suppress_tokens", facts.suppress_tokens}});
  return keys;
}

std::vector<GgufMetadata::Entry> keys_of_gguf(const GgufMetadata& metadata) {
  std::vector<GgufMetadata::Entry> keys;
  std::ranges::copy_if(metadata.entries(), std::back_inserter(keys),
                       [](const auto& entry) { return !starts_with(entry.name, "split."); });
  return keys;
}

void set_key(std::vector<GgufMetadata::Entry>& keys, const char* name, uint32_t value) {
  const auto known = std::ranges::find_if(keys, [&](const auto& entry) { return entry.name == name; });
  if (known != keys.end())
    known->value = value;
  else
    keys.push_back({name, value});
}

Status check_range(const ExportTensor& tensor, std::span<const float> row) {
  const float largest = format_info(tensor.format).largest;
  const auto beyond = std::ranges::find_if(row, [&](float x) { return !(std::abs(x) <= largest); });
  if (beyond == row.end()) return {};
  return error(ErrorKind::invalid, printable(tensor.name), " holds ", *beyond, ": want magnitudes up to ", largest,
               " for ", format_name(tensor.format));
}

// Collects bytes and passes them on in pieces.
class Pieces {
 public:
  explicit Pieces(const WritePiece& write) : write_(write) {}

  // Room for the next `bytes`, to be filled before the next call.
  Result<std::byte*> room(uint64_t bytes) {
    if (!held_.empty() && held_.size() + bytes > kPieceBytes) TRY_STATUS(flush());
    held_.resize(held_.size() + bytes);
    return held_.data() + held_.size() - bytes;
  }
  Status flush() {
    if (held_.empty()) return {};
    TRY_STATUS(write_(held_));
    held_.clear();
    return {};
  }

 private:
  const WritePiece& write_;
  std::vector<std::byte> held_;
};

}  // namespace

Result<GgufExport> export_gguf(const Model& model, Format target) {
  const auto type = std::ranges::find_if(kFileTypes, [&](const FileType& t) { return t.format == target; });
  if (type == std::end(kFileTypes))
    return error(ErrorKind::unsupported, "cannot write ", format_name(target), ": want one of f32, f16, bf16, q8_0");
  const bool from_gguf = model.checkpoint().dialect() == Dialect::gguf;
  GgufExport out;
  out.keys = from_gguf ? keys_of_gguf(model.checkpoint().metadata()) : keys_of_hugging_face(model);
  set_key(out.keys, "general.file_type", type->id);
  set_key(out.keys, "general.quantization_version", kQuantizationVersion);
  out.tensors = export_tensors(model, target);
  out.left_out = model.unread_tensors();
  return out;
}

Status convert_rows(const ExportTensor& tensor, const WritePiece& write) {
  const TensorSource& source = tensor.source;
  const uint32_t columns = source.shape.columns;
  const uint64_t bytes = row_bytes(tensor.format, columns);
  Pieces pieces(write);
  std::vector<float> values(source.format == tensor.format ? 0 : columns);
  for (uint32_t expert = 0; expert < source.shape.experts; ++expert) {
    for (uint32_t row = 0; row < source.shape.rows; ++row) {
      const std::byte* from = source.bytes + expert * source.expert_stride + row * source.row_stride;
      TRY(std::byte* const to, pieces.room(bytes));
      if (source.format == tensor.format) {
        std::copy_n(from, bytes, to);
        continue;
      }
      decode_row(source.format, from, values.data(), columns);
      TRY_STATUS(check_range(tensor, values));
      encode_row(tensor.format, values.data(), to, columns);
    }
  }
  return pieces.flush();
}

}  // namespace sluice
