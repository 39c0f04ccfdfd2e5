// config.json of a Hugging Face directory from any bytes, through resolve(): a configuration that its family accepts
// gets the tensors that its weight table asks for, all zeros, and the model is recorded, placed and run. The same bytes
// are its generation_config.json.
#include <set>

#include "base/checked.h"
#include "base/json.h"
#include "fuzz/files.h"
#include "fuzz/small_engine.h"
#include "model/family.h"

namespace {

using namespace sluice;  // NOLINT(google-build-using-namespace)

constexpr uint64_t kMostBytes = 4u << 20;  // of a model's tensors
constexpr size_t kMostRows = 400;          // of its weight table

std::string safetensors_of(const Json::Object& header) {
  const std::string text = write_json(header);
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

// False when they would be many or large.
bool put_tensors(const WeightTable& table, const std::string& prefix, const fuzz::Folder& folder) {
  Json::Object header;
  std::set<std::string> names;
  CheckedSize end = 0;
  if (table.rows().size() > kMostRows) return false;
  for (const WeightRow& row : table.rows()) {
    if (row.hugging_face.empty()) continue;
    const SourceName& source = row.hugging_face.front();
    if (!names.insert(source.name).second) continue;
    Json::Array shape;
    CheckedSize bytes = 2;
    for (const int64_t n : stored_shape(row.shape, source)) {
      shape.emplace_back(n);
      bytes *= static_cast<uint64_t>(n);
    }
    const auto begin = static_cast<int64_t>(*end.value());
    end += bytes;
    if (!end.fits(kMostBytes)) return false;
    header.emplace_back(prefix + source.name,
                        Json::Object{{"dtype", "BF16"},
                                     {"shape", std::move(shape)},
                                     {"data_offsets", Json::Array{begin, static_cast<int64_t>(*end.value())}}});
  }
  folder.put("model.safetensors", safetensors_of(header), *end.value());
  return true;
}

void check_config(const Checkpoint& checkpoint, const fuzz::Folder& folder) {
  const auto family = find_family(checkpoint);
  if (!family) return fuzz::check_sentence(family.error());
  const auto model = (*family)->read(checkpoint, SourceNames());
  if (!model) return fuzz::check_sentence(model.error());
  const std::string prefix = (*family)->prefixes.empty() ? "" : (*family)->prefixes.front();
  if (!put_tensors(model->programs.front().weights, prefix, folder)) return;
  auto whole = open_checkpoint(folder.path());
  CHECK(whole.ok());
  const auto resolved = resolve(std::make_shared<const Checkpoint>(*std::move(whole)));
  if (!resolved) return fuzz::check_sentence(resolved.error());
  fuzz::use_model(*resolved);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::Folder kFolder;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!parse_json(text, "config.json")) return 0;  // json_fuzz looks for faults there
  kFolder.put("config.json", text);
  kFolder.put("generation_config.json", text);
  kFolder.put("model.safetensors", safetensors_of({}));
  const auto checkpoint = open_checkpoint(kFolder.path());
  CHECK(checkpoint.ok());
  check_config(*checkpoint, kFolder);
  return 0;
}
