#include "tests/engine/real_engine.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>

#include "base/text.h"
#include "checkpoint/gguf_writer.h"
#include "model/export.h"
#include "tests/model/quantised_folder.h"

namespace sluice {
namespace {

Model open_model(const std::string& path) {
  return unwrap(resolve(std::make_shared<const Checkpoint>(unwrap(open_checkpoint(path)))));
}

Status write_gguf(const Model& model, const Mix& mix, ExpertLayout layout, const std::string& path) {
  TRY(const GgufExport made, export_gguf(model, mix, {}, layout));
  GgufWriter writer;
  for (const auto& key : made.keys) writer.add_key(key.name, key.value);
  for (const ExportTensor& tensor : made.tensors) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
  TRY(AtomicFile file, AtomicFile::create(path));
  TRY_STATUS(writer.begin(file));
  ThreadPool pool(1);
  for (const ExportTensor& tensor : made.tensors)
    TRY_STATUS(convert_rows(tensor, pool, [&](std::span<const std::byte> piece) { return writer.write(piece); }));
  writer.finish();
  return file.commit();
}

struct RemoveFile {
  void operator()(const std::string* path) const {
    std::error_code ignored;
    std::filesystem::remove_all(*path, ignored);
    delete path;
  }
};

void write_quantised(const std::string& from, const std::string& scheme_name, const std::string& folder) {
  const auto schemes = quantising::quantised_schemes();
  const auto scheme = std::ranges::find(schemes, scheme_name, &quantising::QuantisedScheme::name);
  CHECK(scheme != schemes.end());
  const quantising::QuantisedFolder made = quantising::quantise_gemma(from, *scheme);
  std::filesystem::create_directories(folder);
  quantising::write_folder(folder, made.config, made.quantised);
}

Model make_model(const std::string& name) {
  const std::string data = SLUICE_TEST_DATA;
  const std::vector<std::string> words = split(name, ' ');  // model, mix, layout; or model, "as", scheme
  const Model model = open_model(join_path(data, words[0]));
  if (words.size() == 1) return model;
  // Kept for engines that read experts from it.
  static std::vector<std::unique_ptr<const std::string, RemoveFile>> made;
  const bool quantised = words[1] == "as";
  made.emplace_back(
      new std::string(cat(testing::TempDir(), ::getpid(), "_real_engine_", made.size(), quantised ? "" : ".gguf")));
  const std::string& path = *made.back();
  if (quantised) {
    write_quantised(join_path(data, words[0]), words[2], path);
    return open_model(path);
  }
  const ExpertLayout layout = words.size() == 3 ? ExpertLayout::packed : ExpertLayout::stacked;
  unwrap(write_gguf(model, *find_mix(words[1]), layout, path));
  return open_model(path);
}

}  // namespace

const Model& real_model(const std::string& name) {
  static std::map<std::string, Model> models;
  auto found = models.find(name);
  if (found == models.end()) found = models.emplace(name, make_model(name)).first;
  return found->second;
}

}  // namespace sluice
