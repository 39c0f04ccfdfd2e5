// The towers of a Hugging Face checkpoint as llama.cpp's mmproj file.
#include <algorithm>
#include <iterator>
#include <memory>

#include "base/text.h"
#include "checkpoint/file_type.h"
#include "model/export.h"
#include "model/family.h"

namespace sluice {
namespace {

constexpr uint32_t kQuantization = 2;  // general.quantization_version

// Matrices that are f32 in every mmproj file: position tables, convolutions, and the projection behind convolutions.
constexpr std::string_view kAlwaysF32[] = {"position_embd", "patch_embd", "conv1d", "conv_dw"};
constexpr std::string_view kBehindConvolutions = "a.input_projection";

bool is_always_f32(const std::string& name, const std::vector<int64_t>& shape) {
  return shape.size() != 2 || starts_with(name, kBehindConvolutions) ||
         std::ranges::any_of(kAlwaysF32, [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

Format format_of(const std::string& name, const std::vector<int64_t>& shape, const TensorSource& tensor) {
  const bool is_plain = tensor.parts.empty() && (tensor.format == Format::f32 || tensor.format == Format::f16);
  if (is_always_f32(name, shape)) return Format::f32;
  return is_plain ? tensor.format : Format::bf16;
}

ExportTensor made_tensor(const std::string& name, const std::vector<int64_t>& shape, std::vector<float> made) {
  const auto values = std::make_shared<const std::vector<float>>(std::move(made));
  const auto rows = static_cast<uint32_t>(shape.size() < 2 ? 1 : shape[0]);
  const auto columns = static_cast<uint32_t>(values->size() / rows);
  const uint64_t row = row_bytes(Format::f32, columns);
  return {.name = name,
          .shape = shape,
          .format = Format::f32,
          .source = {.shape = {.rows = rows, .columns = columns},
                     .format = Format::f32,
                     .bytes = reinterpret_cast<const std::byte*>(values->data()),
                     .expert_stride = rows * row,
                     .row_stride = row,
                     .owner = values}};
}

std::vector<float> negated(const TensorSource& vector) {
  std::vector<float> values(vector.shape.columns);
  decode_weight_row(vector, 0, 0, values.data());
  for (float& value : values) value = -value;
  return values;
}

// A weight under the first of its GGUF names, which is llama.cpp's.
ExportTensor stored_tensor(const BoundWeight& weight) {
  const SourceName& name = weight.row.gguf.front();
  CHECK(name.is_whole() && weight.source.is_whole());
  const std::vector<int64_t> shape = stored_shape(weight.row.shape, name);
  if (name.transform == Transform::minus) return made_tensor(name.name, shape, negated(weight.tensor));
  CHECK(name.transform == Transform::none);
  return {.name = name.name,
          .shape = shape,
          .format = format_of(name.name, shape, weight.tensor),
          .source = weight.tensor,
          .heads = weight.row.order_to_gguf()};
}

void add_tensors(const BoundWeights& weights, const std::vector<ProjectorTensor>& made, std::vector<ExportTensor>& to) {
  for (const BoundWeight& weight : weights.all()) {
    bool is_replaced = false;
    for (const ProjectorTensor& tensor : made) {
      if (tensor.weight != weight.row.name) continue;
      to.push_back(made_tensor(tensor.name, tensor.shape, tensor.values(weight.tensor)));
      is_replaced = true;
    }
    if (!is_replaced) to.push_back(stored_tensor(weight));
  }
}

// As add_tensors() has them.
void outline_tensors(const FamilyProgram& tower, std::vector<OutlinedTensor>& to) {
  for (const WeightRow& row : tower.weights.rows()) {
    bool is_replaced = false;
    for (const ProjectorTensor& tensor : tower.projector.tensors) {
      if (tensor.weight != row.name) continue;
      to.push_back({tensor.name, tensor.shape, Format::f32, row, {}});
      is_replaced = true;
    }
    if (is_replaced || row.optional || row.hugging_face.empty() || row.gguf.empty()) continue;
    const SourceName& name = row.gguf.front();
    const std::vector<int64_t> shape = stored_shape(row.shape, name);
    to.push_back({name.name, shape, is_always_f32(name.name, shape) ? Format::f32 : Format::bf16, row, {}});
  }
}

// general.file_type: the format of the matrices.
template <class Tensor>
uint32_t file_type_of(const std::vector<Tensor>& tensors) {
  const auto matrix = std::ranges::find_if(tensors, [](const auto& one) { return one.format != Format::f32; });
  return *file_type_by_name(format_name(matrix == tensors.end() ? Format::f32 : matrix->format));
}

// The towers to write. Fails when one of them is not complete or cannot be written.
Result<std::vector<const FamilyProgram*>> towers_of(const Model& model) {
  const std::string& path = model.checkpoint().path();
  std::vector<const FamilyProgram*> towers;
  for (const FamilyProgram& program : model.family_model().programs) {
    if (!is_tower(program.kind)) continue;
    if (!model.has(program.kind)) return model.record(program.kind).error();
    if (!program.projector.problem.empty())
      return error(ErrorKind::unsupported, path, ": ", program_name(program.kind), ": ", program.projector.problem);
    towers.push_back(&program);
  }
  if (towers.empty())
    return error(ErrorKind::unsupported, path, ": has no tower to write: want a model that takes pictures or sounds");
  if (model.checkpoint().dialect() == Dialect::gguf)
    return error(ErrorKind::unsupported, path, ": towers of a GGUF file: want a Hugging Face directory to write them");
  return towers;
}

std::vector<GgufMetadata::Entry> keys_of(const std::string& name, uint32_t file_type,
                                         const std::vector<const FamilyProgram*>& towers) {
  std::vector<GgufMetadata::Entry> keys = {{"general.architecture", std::string("clip")},
                                           {"general.type", std::string("mmproj")},
                                           {"general.name", name},
                                           {"general.file_type", file_type},
                                           {"general.quantization_version", kQuantization}};
  for (const FamilyProgram* tower : towers) {
    keys.push_back({cat("clip.has_", tower->kind == ProgramKind::vision ? "vision" : "audio", "_encoder"), true});
    std::ranges::copy(tower->projector.keys, std::back_inserter(keys));
  }
  return keys;
}

}  // namespace

Result<GgufExport> export_projector(const Model& model) {
  TRY(const std::vector<const FamilyProgram*> towers, towers_of(model));
  GgufExport out;
  for (const FamilyProgram* tower : towers)
    add_tensors(model.own_weights(tower->kind), tower->projector.tensors, out.tensors);
  out.keys = keys_of(model.facts().name, file_type_of(out.tensors), towers);
  return out;
}

Result<GgufOutline> outline_projector(const Checkpoint& config) {
  CHECK(config.dialect() == Dialect::hugging_face && config.tensors().empty());
  TRY(const Family* family, find_family(config));
  TRY(const SourceNames none, SourceNames::read(config, {}));
  TRY(const FamilyModel model, family->read(config, none));
  std::vector<const FamilyProgram*> towers;
  GgufOutline out;
  for (const FamilyProgram& program : model.programs) {
    if (!is_tower(program.kind)) continue;
    if (program.problem) return *program.problem;
    towers.push_back(&program);
    outline_tensors(program, out.tensors);
  }
  out.keys = keys_of(config.path(), file_type_of(out.tensors), towers);
  return out;
}

}  // namespace sluice
