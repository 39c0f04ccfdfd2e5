// What tells one model's states from another's: whatever changes an answer changes the digest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "checkpoint/contents.h"
#include "tests/model/tiny_model.h"
#include "tests/model/written_gguf.h"

namespace sluice {
namespace {

using ::testing::IsSubsetOf;

// A checkpoint in memory, config and bytes of which may be changed between two models that are made of it.
class Changeable {
 public:
  explicit Changeable(const std::string& path) {
    const Checkpoint from = *open_checkpoint(path);
    config = *from.document("config.json");
    for (const StoredTensor& tensor : from.tensors()) {
      const std::span<const std::byte> stored = tensor.bytes;
      begins.push_back(bytes->size());
      bytes->insert(bytes->end(), stored.begin(), stored.end());
      tensors.push_back(tensor);
    }
  }

  Result<Model> model(std::shared_ptr<ContentsMemory> memory = nullptr) const {
    MadeCheckpoint made{.dialect = Dialect::hugging_face,
                        .name = "made",
                        .documents = {{"config.json", config}},
                        .metadata = {},
                        .tensors = tensors,
                        .memory = bytes};
    for (size_t i = 0; i < tensors.size(); ++i) {
      made.tensors[i].file = 0;
      made.tensors[i].bytes = std::span<const std::byte>(*bytes).subspan(begins[i], tensors[i].bytes.size());
    }
    return resolve(std::make_shared<const Checkpoint>(make_checkpoint(std::move(made))), std::move(memory));
  }

  Json config;
  std::vector<StoredTensor> tensors;
  std::vector<size_t> begins;
  std::shared_ptr<std::vector<std::byte>> bytes = std::make_shared<std::vector<std::byte>>();
};

// Every number and flag, by its path: "text_config.rope_parameters.full_attention.rope_theta".
void collect(Json& json, const std::string& path, std::map<std::string, Json*>& leaves) {
  if (json.is_object())
    for (auto& [name, value] : json.as_object()) collect(value, path.empty() ? name : cat(path, ".", name), leaves);
  else if (json.is_array())
    for (size_t i = 0; i < json.as_array().size(); ++i) collect(json.as_array()[i], cat(path, ".", i), leaves);
  else if (json.is_number() || json.is_bool())
    leaves[path] = &json;
}

std::vector<Json> other_values(const Json& value) {
  if (value.is_bool()) return {Json(!value.as_bool())};
  if (!value.is_integer()) return {Json(value.as_number() * 2), Json(value.as_number() / 2)};
  const int64_t number = value.as_integer();
  return {Json(number + 1), Json(number - 1), Json(number * 2), Json(number / 2)};
}

// The fields of config.json by which answers differ. Where they do, the digest must.
std::set<std::string> telling_fields(const std::string& path) {
  Changeable source(path);
  const Model plain = *source.model();
  const std::vector<float> answer = logits_of(plain);
  std::map<std::string, Json*> leaves;
  collect(source.config, "", leaves);
  std::set<std::string> telling;
  for (const auto& [name, leaf] : leaves) {
    const Json before = *leaf;
    for (const Json& other : other_values(before)) {
      *leaf = other;
      const Result<Model> changed = source.model();
      if (!changed || !changed->record_text() || logits_of(*changed) == answer) continue;
      telling.insert(name);
      EXPECT_NE(changed->digest(), plain.digest()) << name << " is " << write_json(other);
      break;
    }
    *leaf = before;
  }
  EXPECT_EQ(source.model()->digest(), plain.digest());
  return telling;
}

class Digest : public tests::TinyModel {};

TEST_F(Digest, EachFieldOfGemma4sConfigCounts) {
  put_model(tests::like_26b());
  const std::string ropes = "text_config.rope_parameters.";
  EXPECT_THAT((std::set<std::string>{"text_config.rms_norm_eps", "text_config.sliding_window",
                                     "text_config.final_logit_softcapping", "text_config.top_k_experts",
                                     // This one by the factors that are made of it alone:
                                     ropes + "full_attention.partial_rotary_factor",
                                     ropes + "full_attention.rope_theta", ropes + "sliding_attention.rope_theta"}),
              IsSubsetOf(telling_fields(path(""))));
}

TEST_F(Digest, EachFieldOfQwen3_5sConfigCounts) {
  EXPECT_THAT((std::set<std::string>{"text_config.rms_norm_eps", "text_config.num_experts_per_tok",
                                     "text_config.rope_parameters.rope_theta",
                                     "text_config.rope_parameters.partial_rotary_factor"}),
              IsSubsetOf(telling_fields(SLUICE_TEST_DATA "/qwen3_5_moe")));
}

TEST_F(Digest, EachFieldOfDeepSeekV3sConfigCounts) {
  EXPECT_THAT((std::set<std::string>{"rms_norm_eps", "num_experts_per_tok", "n_group", "topk_group", "norm_topk_prob",
                                     "routed_scaling_factor", "rope_theta", "rope_scaling.factor",
                                     "rope_scaling.beta_fast", "rope_scaling.mscale_all_dim"}),
              IsSubsetOf(telling_fields(SLUICE_TEST_DATA "/deepseek_v3")));
}

// Also those behind the first 64 KiB, which was all that counted once.
TEST_F(Digest, EachByteOfEachTensorCounts) {
  tests::TinyShape shape = tests::like_e4b();
  shape.vocabulary = 1024;  // 128 KiB of embeddings
  put_model(shape);
  const Changeable source(path(""));
  std::set<std::string> digests = {source.model()->digest()};
  size_t changes = 1;
  for (size_t i = 0; i < source.tensors.size(); ++i) {
    const size_t size = source.tensors[i].bytes.size();
    for (const size_t at : {size_t{0}, size / 2, size - 1}) {
      std::byte& byte = (*source.bytes)[source.begins[i] + at];
      byte ^= std::byte{1};
      digests.insert(source.model()->digest());
      byte ^= std::byte{1};
      ++changes;
    }
  }
  EXPECT_GT(changes, 300u);
  EXPECT_EQ(digests.size(), changes);
}

// ---- what is remembered

class FakeMemory final : public ContentsMemory {
 public:
  std::optional<std::string> find(const std::string& version) override {
    const auto found = known.find(version);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(const std::string& version, const std::string& contents) override { known[version] = contents; }
  void reading(uint64_t done, uint64_t all) override {
    EXPECT_LE(done, all);
    reads += done == all ? 1 : 0;
  }

  std::map<std::string, std::string> known;
  int reads = 0;
};

Model open_with(const std::string& path, const std::shared_ptr<ContentsMemory>& memory) {
  return *resolve(std::make_shared<const Checkpoint>(*open_checkpoint(path)), memory);
}

TEST_F(Digest, AFileIsReadOnce) {
  const auto memory = std::make_shared<FakeMemory>();
  const std::string old = SLUICE_TEST_DATA "/deepseek_v3";
  const std::string digest = open_with(old, nullptr).digest();
  for (int run = 0; run < 3; ++run) {
    const Model model = open_with(old, memory);
    EXPECT_EQ(memory->reads, run == 0 ? 0 : 1) << "nobody asked yet";
    EXPECT_EQ(model.digest(), digest);
    EXPECT_EQ(model.digest(), digest);
  }
  EXPECT_EQ(memory->reads, 1);
  ASSERT_EQ(memory->known.size(), 1u);
  memory->known.begin()->second = "what another model holds";
  EXPECT_NE(open_with(old, memory).digest(), digest) << "the memory is believed";
}

// The next change within the clock's grain would leave the same times.
TEST_F(Digest, AFileThatWasJustWrittenIsNotRemembered) {
  put_model(tests::like_12b());
  std::filesystem::last_write_time(path("model.safetensors"),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1000));
  const auto memory = std::make_shared<FakeMemory>();
  const std::string digest = open_with(path(""), memory).digest();
  std::string bytes = *read_file(path("model.safetensors"), 1 << 20);
  bytes.back() ^= 1;
  put("model.safetensors", bytes);
  std::filesystem::last_write_time(path("model.safetensors"),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1000));
  EXPECT_NE(open_with(path(""), memory).digest(), digest);
  EXPECT_TRUE(memory->known.empty());
}

TEST_F(Digest, OfTheSameTensorsInOneFileOrInPartsIsTheSame) {
  put_model(tests::like_12b());
  const Checkpoint whole = *open_checkpoint(path(""));
  const std::string contents = contents_of(whole, nullptr);
  EXPECT_EQ(contents.size(), 32u);
  MadeCheckpoint made{.dialect = Dialect::hugging_face,
                      .name = "made",
                      .documents = {},
                      .metadata = {},
                      .tensors = whole.tensors(),
                      .memory = std::make_shared<int>(0)};
  EXPECT_EQ(contents_of(make_checkpoint(made), nullptr), contents);
  std::swap(made.tensors[0].name, made.tensors[1].name);
  EXPECT_NE(contents_of(make_checkpoint(made), nullptr), contents);
  std::swap(made.tensors[0].name, made.tensors[1].name);
  made.tensors[0].shape.insert(made.tensors[0].shape.begin(), 1);
  EXPECT_NE(contents_of(make_checkpoint(made), nullptr), contents);
}

}  // namespace
}  // namespace sluice
