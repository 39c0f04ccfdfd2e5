// Small checkpoints with a head for multi-token prediction: a folder of tests/data with a layer more, whose numbers
// come from their names, as tests/data/make_draft_heads.py makes them, too; some tensors may be put in the place of the
// folder's.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "base/text.h"

namespace sluice::tests {

// Numbers of [-1, 1), each exact in f32, from a name.
inline std::vector<float> draft_numbers(const std::string& name, size_t count) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t x = hash + (i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    numbers[i] = static_cast<float>(x >> 40) / static_cast<float>(1 << 23) - 1.0f;
  }
  return numbers;
}

struct DraftTensor {
  std::string name;
  std::vector<int64_t> shape;
  size_t count() const {
    size_t n = 1;
    for (const int64_t extent : shape) n *= static_cast<size_t>(extent);
    return n;
  }
};

// Matrices spread by a quarter, vectors too: around 1, or around 0 where the family adds 1.
inline std::vector<float> random_head(const DraftTensor& tensor, bool plus_one) {
  std::vector<float> values = draft_numbers(tensor.name, tensor.count());
  const float middle = tensor.shape.size() == 1 && !plus_one && ends_with(tensor.name, "norm.weight") ? 1.0f : 0.0f;
  for (float& value : values) value = middle + 0.25f * value;
  return values;
}

class DraftCheckpoint {
 public:
  using Values = std::function<std::optional<std::vector<float>>(const DraftTensor&)>;

  // `base`: "qwen3_5_moe" or "deepseek_v3". `replace`: other values for a tensor, the head's among them.
  DraftCheckpoint(const std::string& base, const std::string& folder, const Values& replace)
      : from_(cat(SLUICE_TEST_DATA, "/", base)),
        folder_(cat(::testing::TempDir(), ::getpid(), "_", folder)),
        qwen_(base != "deepseek_v3") {
    std::filesystem::create_directories(folder_);
    put_config();
    put_tensors(replace);
  }
  ~DraftCheckpoint() { std::filesystem::remove_all(folder_); }
  DraftCheckpoint(const DraftCheckpoint&) = delete;
  DraftCheckpoint& operator=(const DraftCheckpoint&) = delete;

  const std::string& path() const { return folder_; }

 private:
  static constexpr int64_t kHidden = 64;

  void put_config() const {
    std::string config = *read_file(join_path(from_, "config.json"), 1 << 20);
    const std::string none = "\"num_nextn_predict_layers\": 0";
    if (const size_t at = config.find(none); at != std::string::npos) config[at + none.size() - 1] = '1';
    EXPECT_TRUE(write_file(join_path(folder_, "config.json"), config).ok());
  }

  std::vector<DraftTensor> head(const Json& header) const {
    const std::string join = qwen_ ? "mtp." : "model.layers.4.";
    std::vector<DraftTensor> tensors;
    const auto add = [&](const char* name, std::vector<int64_t> shape) { tensors.push_back({join + name, shape}); };
    add(qwen_ ? "fc.weight" : "eh_proj.weight", {kHidden, 2 * kHidden});
    add(qwen_ ? "pre_fc_norm_embedding.weight" : "enorm.weight", {kHidden});
    add(qwen_ ? "pre_fc_norm_hidden.weight" : "hnorm.weight", {kHidden});
    add(qwen_ ? "norm.weight" : "shared_head.norm.weight", {kHidden});
    const std::string last = qwen_ ? "model.language_model.layers.3." : "model.layers.3.";
    for (const auto& [name, entry] : header.as_object()) {
      if (!starts_with(name, last)) continue;
      DraftTensor tensor{(qwen_ ? "mtp.layers.0." : join) + name.substr(last.size()), {}};
      for (const Json& extent : entry.find("shape")->as_array()) tensor.shape.push_back(extent.as_integer());
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

  void put_tensors(const Values& replace) const {
    const std::string file = *read_file(join_path(from_, "model.safetensors"), 1 << 24);
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    const Json header = *parse_json(file.substr(8, length), "model.safetensors");
    std::string data;
    Json::Object entries;
    const auto put = [&](const DraftTensor& tensor, const char* format, std::string_view bytes) {
      const auto begin = static_cast<int64_t>(data.size());
      data.append(bytes);
      Json::Array shape(tensor.shape.begin(), tensor.shape.end());
      entries.emplace_back(tensor.name,
                           Json::Object{{"dtype", format},
                                        {"shape", std::move(shape)},
                                        {"data_offsets", Json::Array{begin, static_cast<int64_t>(data.size())}}});
    };
    const auto put_floats = [&](const DraftTensor& tensor, const std::vector<float>& values) {
      put(tensor, "F32", {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    };
    for (const auto& [name, entry] : header.as_object()) {
      if (name == "__metadata__") continue;
      DraftTensor tensor{name, {}};
      for (const Json& extent : entry.find("shape")->as_array()) tensor.shape.push_back(extent.as_integer());
      const Json::Array& at = entry.find("data_offsets")->as_array();
      const auto begin = static_cast<size_t>(at[0].as_integer()), end = static_cast<size_t>(at[1].as_integer());
      if (const auto other = replace(tensor))
        put_floats(tensor, *other);
      else
        put(tensor, entry.find("dtype")->as_string().c_str(),
            std::string_view(file).substr(8 + length + begin, end - begin));
    }
    for (const DraftTensor& tensor : head(header))
      put_floats(tensor, replace(tensor).value_or(random_head(tensor, qwen_)));
    const std::string text = write_json(entries);
    const uint64_t bytes = text.size();
    const std::string whole = std::string(reinterpret_cast<const char*>(&bytes), 8) + text + data;
    EXPECT_TRUE(write_file(join_path(folder_, "model.safetensors"), whole).ok());
  }

  std::string from_, folder_;
  bool qwen_;
};

inline std::optional<std::vector<float>> nothing_replaced(const DraftTensor&) { return std::nullopt; }

// A text in which a token is followed by the one after it, 767 by 0, and a head that foretells just that: no layer adds
// anything, embeddings are directions of their own, and the head of the model turns each into the next one's.
inline std::optional<std::vector<float>> counting(const DraftTensor& tensor) {
  const auto is = [&](std::string_view end) { return ends_with(tensor.name, end); };
  if (is("o_proj.weight") || is("out_proj.weight") || is("experts.down_proj") || is("down_proj.weight"))
    return std::vector<float>(tensor.count(), 0.0f);
  const size_t width = tensor.shape.empty() ? 0 : static_cast<size_t>(tensor.shape.back());
  if (is("embed_tokens.weight") || is("lm_head.weight")) {
    const std::vector<float> embeddings = draft_numbers("embeddings", tensor.count());
    if (is("embed_tokens.weight")) return embeddings;
    std::vector<float> head(tensor.count());
    for (size_t i = 0; i < head.size(); ++i) head[(i + width) % head.size()] = embeddings[i];
    return head;
  }
  if (is("mtp.fc.weight") || is("eh_proj.weight")) {
    std::vector<float> join(tensor.count(), 0.0f);
    for (size_t row = 0; row < width / 2; ++row) join[row * width + row] = 1.0f;
    return join;
  }
  if (!is("norm.weight")) return std::nullopt;
  const bool plus_one = starts_with(tensor.name, "mtp.") || starts_with(tensor.name, "model.language_model.");
  return std::vector<float>(tensor.count(), plus_one ? 0.0f : 1.0f);
}

}  // namespace sluice::tests
