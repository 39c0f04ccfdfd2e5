// Gemma 4 on the reference device against transformers' logits and intermediates (models of shared/models; their
// golden.json says with which versions they were made). Bars of exact arithmetic: logits 1e-3, or ten times
// the case's own difference between f32 and f64 where that is larger; named intermediates 1e-4 in relative norm.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/model/text_bench.h"
#include "tests/reference_models.h"

namespace sluice {
namespace {

constexpr double kLogitBar = 1e-3;
constexpr double kNamedBar = 1e-4;
constexpr size_t kLongest = 300;  // tokens of a case; longer ones take the reference device minutes

std::vector<int32_t> integers(const Json& list) {
  std::vector<int32_t> values;
  for (const Json& value : list.as_array()) values.push_back(static_cast<int32_t>(value.as_integer()));
  return values;
}

std::vector<float> elements(const StoredTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / 4);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// The integers whose bits the floats hold.
std::vector<int32_t> bits(const std::vector<float>& values) {
  std::vector<int32_t> integers(values.size());
  std::memcpy(integers.data(), values.data(), values.size() * 4);
  return integers;
}

double largest_difference(const std::vector<float>& got, const std::vector<float>& want) {
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
  return largest;
}

double relative_norm(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(difference / norm);
}

// What a golden says of a case, beside what the program gives.
void expect_case(TextBench& bench, const Json& golden_case, const Checkpoint& tensors) {
  std::vector<ValueId> values;
  std::vector<const StoredTensor*> golden;
  std::vector<std::string> names;
  for (const auto& [name, key] : golden_case.find("tensors")->as_object()) {
    values.push_back(find_value(bench.program(), name));
    EXPECT_NE(values.back(), kNone) << "the program has no value named " << name;
    golden.push_back(tensors.find(key.as_string()));
    names.push_back(name);
  }
  if (std::ranges::count(values, kNone) > 0) return;
  const auto got =
      bench.play(integers(*golden_case.find("input_ids")), integers(*golden_case.find("positions")), values);
  const double own = golden_case.find("float64_difference")->as_number();
  for (size_t i = 0; i < names.size(); ++i) {
    const std::vector<float> want = elements(*golden[i]);
    ASSERT_EQ(got[i].size(), want.size()) << names[i];
    if (names[i] == "logits")
      EXPECT_LE(largest_difference(got[i], want), std::max(kLogitBar, 10 * own));
    else if (golden[i]->format == Format::i32)
      EXPECT_EQ(bits(got[i]), bits(want)) << names[i];
    else
      EXPECT_LE(relative_norm(got[i], want), kNamedBar) << names[i];
  }
}

// Every text and chat case of the golden in `golden_folder`, on the model at `model_path`.
void expect_golden(const std::string& model_path, const std::string& golden_folder) {
  const Result<Model> model = open_model(model_path);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_TRUE(model->unknown_tensors().empty()) << model->unknown_tensors().front();
  Result<Program> program = model->record_text({.all_named = true});
  ASSERT_TRUE(program) << program.error().text;
  TextBench bench(*model, std::move(*program), kLongest);

  const Result<std::string> text = read_file(golden_folder + "/golden.json", 1 << 28);
  ASSERT_TRUE(text) << text.error().text;
  const Result<Json> golden = parse_json(*text, "golden.json");
  const Result<Checkpoint> tensors = open_safetensors(golden_folder + "/golden.safetensors");
  ASSERT_TRUE(tensors) << tensors.error().text;
  int cases = 0;
  for (const Json& golden_case : golden->find("cases")->as_array()) {
    const std::string& kind = golden_case.find("kind")->as_string();
    if ((kind != "text" && kind != "chat") || golden_case.find("input_ids")->as_array().size() > kLongest) continue;
    SCOPED_TRACE(golden_case.find("name")->as_string());
    expect_case(bench, golden_case, *tensors);
    ++cases;
  }
  EXPECT_GE(cases, 5);
}

const std::string kData = SLUICE_TEST_DATA;

TEST(Gemma4Golden, DenseWithValuesFromKeys) { expect_golden(kData + "/gemma4_dense", kData + "/gemma4_dense"); }
TEST(Gemma4Golden, ExpertsBesideTheDenseLayer) { expect_golden(kData + "/gemma4_moe", kData + "/gemma4_moe"); }
TEST(Gemma4Golden, ExpertsFromAFileOfLlamaCpp) {
  expect_golden(kData + "/peer/gemma4_moe-bf16.gguf", kData + "/gemma4_moe");
}

TEST(Gemma4Golden, PerLayerEmbeddingsAndSharedKeys) {
  const std::string models = reference_models();
  if (models.empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: the demo's goldens did not run";
  expect_golden(cat(models, "/gemma4"), cat(models, "/gemma4"));
}

}  // namespace
}  // namespace sluice
