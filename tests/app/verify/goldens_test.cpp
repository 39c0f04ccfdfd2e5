// The goldens through `sluice verify`: every source format, every SIMD level of this machine, both arithmetics, held to
// the bars of app/verify/verify_bars.h. Models of tests/data always; the full set when SLUICE_REFERENCE_MODELS names
// its folder. Directories of tests/data run at every level, and what else the machine supports at its best level only;
// with SLUICE_EVERY_LEVEL set (`make check-long`) all of it runs at every level.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "base/files/file.h"
#include "base/json.h"
#include "base/text.h"
#include "device/cpu/cpu.h"
#include "tests/app/program.h"
#include "tests/reference_models.h"
#include "tests/small_models.h"

namespace sluice {
namespace {

const std::string kData = SLUICE_TEST_DATA;

struct Expected {
  int64_t held = 0, not_run = 0;
};

// Every case of the golden holds, as many as expected.
void expect_holds(const std::string& model, const std::string& golden, const std::vector<std::string>& options,
                  const Expected& expected) {
  // On one thread unless the options say otherwise, because other tests run at the same time.
  std::vector<std::string> words = {"verify", model, "--golden", golden, "--json", "--threads", "1"};
  words.insert(words.end(), options.begin(), options.end());
  const ProgramResult result = run_sluice(words);
  const Result<Json> json = parse_json(result.out, "verify --json");
  ASSERT_TRUE(json) << result.err;
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_EQ(json->find("missed")->as_integer(), 0);
  EXPECT_EQ(json->find("held")->as_integer(), expected.held);
  EXPECT_EQ(json->find("not_run")->as_integer(), expected.not_run);
}

// Parity tests hold every op and format at every level; models need each level once.
bool every_level_always() {
  static const bool set = std::getenv("SLUICE_EVERY_LEVEL") != nullptr;
  return set;
}

void expect_holds_at_every_level(const std::string& model, const std::string& golden,
                                 const std::vector<std::string>& options, const Expected& expected) {
  for (const SimdLevel level : simd_levels()) {
    SCOPED_TRACE(cat(model, " --simd ", simd_name(level)));
    std::vector<std::string> words = options;
    words.insert(words.end(), {"--simd", simd_name(level)});
    expect_holds(model, golden, words, expected);
  }
}

void expect_holds_at_best_level(const std::string& model, const std::string& golden, const Expected& expected) {
  if (every_level_always())
    expect_holds_at_every_level(model, golden, {}, expected);
  else
    expect_holds(model, golden, {}, expected);
}

constexpr const char* kFormats[] = {"bf16", "f32", "f16", "q8_0"};

// `expected`: of files of text alone; `of_directory`: of the model itself, where it has towers.
void expect_holds_from_every_format(const std::string& model, const std::string& golden, const Expected& expected,
                                    const Expected& of_directory, std::span<const char* const> formats = kFormats) {
  expect_holds_at_every_level(model, golden, {}, of_directory);
  const TemporaryFolder folder;
  for (const char* format : formats) {
    const std::string file = folder.path(cat(format, ".gguf"));
    const ProgramResult converted = run_sluice({"convert", model, file, "--to", format});
    ASSERT_EQ(converted.status, 0) << converted.err;
    expect_holds_at_best_level(file, golden, expected);
  }
}

// Both arithmetics: twice the golden's cases. `towers`: whether the file has the model's towers.
Expected expected_of(std::string_view model, bool towers) {
  const auto known = std::ranges::find(small_models(), model, &SmallModel::name);
  CHECK(known != small_models().end());
  const int64_t held = known->golden_held, not_run = known->golden_not_run, of_towers = known->golden_towers;
  return towers ? Expected{2 * (held + of_towers), 2 * not_run} : Expected{2 * held, 2 * (of_towers + not_run)};
}
// From files of text alone.
const Expected kDense = expected_of("gemma4_dense", false), kMoe = expected_of("gemma4_moe", false),
               kLatents = expected_of("deepseek_v3", false), kDemo = expected_of("gemma4", false),
               kQwen = expected_of("qwen3_5_moe", false), kMlx = expected_of("qwen3_5_moe_mlx2", false);

TEST(Goldens, DenseModelFromEveryFormatAtEveryLevel) {
  expect_holds_from_every_format(kData + "/gemma4_dense", kData + "/gemma4_dense/golden.json", kDense,
                                 expected_of("gemma4_dense", true));
}

TEST(Goldens, ExpertsFromEveryFormatAtEveryLevel) {
  expect_holds_from_every_format(kData + "/gemma4_moe", kData + "/gemma4_moe/golden.json", kMoe, kMoe);
}

TEST(Goldens, DeltaNetsAndExpertsFromEveryFormatAtEveryLevel) {
  expect_holds_from_every_format(kData + "/qwen3_5_moe", kData + "/qwen3_5_moe/golden.json", kQwen,
                                 expected_of("qwen3_5_moe", true));
}

TEST(Goldens, LatentAttentionFromEveryFormatAtEveryLevel) {
  expect_holds_from_every_format(kData + "/deepseek_v3", kData + "/deepseek_v3/golden.json", kLatents, kLatents);
}

// An MLX directory whose tokenizer is another model's of tests/data: they are the same files.
std::string with_tokenizer(const TemporaryFolder& folder, const std::string& model, const std::string& other) {
  return folder.links(model, {kData + "/" + model, kData + "/" + other});
}

// A factor times an integer plus an offset is no 16-bit number: F32 files keep it, and q8_0 is judged by itself.
constexpr const char* kFormatsOfMlx[] = {"f32", "q8_0"};

TEST(Goldens, MlxDirectoryFromFormatsThatKeepItAtEveryLevel) {
  const TemporaryFolder folder;
  const std::string model = with_tokenizer(folder, "qwen3_5_moe_mlx2", "qwen3_5_moe");
  expect_holds_from_every_format(model, model + "/golden.json", kMlx, kMlx, kFormatsOfMlx);
}

TEST(Goldens, MlxDirectoryOfLatentAttentionFromFormatsThatKeepItAtEveryLevel) {
  const TemporaryFolder folder;
  const std::string model = with_tokenizer(folder, "deepseek_v3_mlx4", "deepseek_v3");
  expect_holds_from_every_format(model, model + "/golden.json", kMlx, kMlx, kFormatsOfMlx);
}

// 4 s. Guesses of assistants with a whole head and with clusters; behind a quantised model they are judged by the
// reference device.
TEST(Goldens, DraftsOfAnAssistantAtEveryLevel) {
  const TemporaryFolder folder;
  const std::string file = folder.path("q8_0.gguf");
  ASSERT_EQ(run_sluice({"convert", kData + "/gemma4_dense", file, "--to", "q8_0"}).status, 0);
  for (const char* name : {"/gemma4_assistant", "/gemma4_assistant_ordered"}) {
    const std::string assistant = kData + name, golden = assistant + "/golden.json";
    const std::vector<std::string> options = {"--draft-model", assistant};
    expect_holds_at_every_level(kData + "/gemma4_dense", golden, options, {6, 0});
    expect_holds(file, golden, options, {6, 0});
  }
}

TEST(Goldens, ExpertsFromAFileOfLlamaCpp) {
  expect_holds_at_best_level(kData + "/peer/gemma4_moe-bf16.gguf", kData + "/gemma4_moe/golden.json", kMoe);
}

TEST(Goldens, AFileWrittenFromGgufHoldsToo) {
  const TemporaryFolder folder;
  const std::string file = folder.path("again.gguf");
  ASSERT_EQ(run_sluice({"convert", kData + "/peer/gemma4_moe-bf16.gguf", file, "--to", "f32"}).status, 0);
  expect_holds(file, kData + "/gemma4_moe/golden.json", {}, kMoe);
}

TEST(Goldens, PackedExpertsThatAreReadAsTheyAreChosen) {
  const TemporaryFolder folder;
  for (const auto& [model, expected] :
       {std::pair("gemma4_moe", kMoe), {"qwen3_5_moe", kQwen}, {"deepseek_v3", kLatents}}) {
    const std::string file = folder.path(cat(model, ".gguf"));
    ASSERT_EQ(run_sluice({"convert", cat(kData, "/", model), file, "--to", "f32", "--pack-experts"}).status, 0);
    expect_holds(file, cat(kData, "/", model, "/golden.json"), {"--expert-memory", "500k"}, expected);
  }
}

TEST(Goldens, RandomModelsOnTheReferenceDevice) {
  const std::vector<std::string> options = {"--device", "reference", "--arithmetic", "exact"};
  const TemporaryFolder folder;
  for (const SmallModel& one : small_models()) {
    if (!one.weights_here) continue;
    const std::string model =
        one.tokenizer_of.empty() ? cat(kData, "/", one.name) : with_tokenizer(folder, one.name, one.tokenizer_of);
    expect_holds(model, model + "/golden.json", options, {one.golden_held + one.golden_towers, one.golden_not_run});
  }
}

TEST(Goldens, ThreadsDoNotMatter) {
  for (const char* threads : {"1", "3"}) {
    SCOPED_TRACE(threads);
    expect_holds(kData + "/gemma4_moe", kData + "/gemma4_moe/golden.json", {"--threads", threads}, kMoe);
  }
}

TEST(Goldens, BuiltInDemoIsAsGoodAsThePeers) {
  expect_holds("demo", kData + "/gemma4/golden.json", {"--arithmetic", "fast"}, {11, 0});
}

TEST(Goldens, BuiltInDemoIsExact) {
  expect_holds("demo", kData + "/gemma4/golden.json", {"--arithmetic", "exact", "--cases", "chat*"}, {4, 0});
}

// What the reference model answers to these (the goldens' cases image1 and audio2), though the text is quantised here.
TEST(Goldens, BuiltInDemoNamesPicturesAndSounds) {
  for (const auto& [option, file, question, answer] :
       {std::tuple("--image", "picture1.png", "What is in this picture?",
                   "A red circle on the left and a blue square on the right.\n"),
        std::tuple("--audio", "sound2.wav", "Describe the sound.",
                   "One long low beep and then three short low beeps.\n")}) {
    const ProgramResult result = run_sluice(
        {"run", "demo", option, cat(kData, "/gemma4/", file), question, "--temperature", "0", "--threads", "1"});
    EXPECT_EQ(result.out, answer) << result.err;
  }
}

TEST(Goldens, AModelThatIsNotTheGoldensMisses) {
  const ProgramResult result =
      run_sluice({"verify", kData + "/gemma4_dense", "--golden", kData + "/gemma4_moe/golden.json", "--json"});
  EXPECT_EQ(result.status, 1);
  const Result<Json> json = parse_json(result.out, "verify --json");
  ASSERT_TRUE(json);
  EXPECT_GT(json->find("missed")->as_integer(), 0);
}

// --- the full set

// A model of the full set, and the golden that it is held to.
struct FullCase {
  std::string model, golden;
  Expected expected;
};
std::vector<FullCase> full_cases() {
  std::vector<FullCase> all;
  for (const SmallModel& one : small_models())
    all.push_back({one.name, one.name + "/golden", expected_of(one.name, true)});
  // With the projector beside it, which does not say how many tokens the reference gave a picture.
  all.push_back({"peer/gemma4_dense-bf16.gguf", "gemma4_dense/golden", expected_of("gemma4_dense", true)});
  all.push_back({"peer/gemma4_moe-bf16.gguf", "gemma4_moe/golden", kMoe});
  // Pictures, sounds and films, each case in both arithmetics.
  all.push_back({"gemma4_towers", "gemma4_towers/golden", {12, 0}});
  all.push_back({"gemma4", "gemma4/golden_audio", {4, 0}});
  all.push_back({"qwen3_5", "qwen3_5/golden_media", {6, 0}});
  // Adapters alone, together, of other requests of the same engine, and trained.
  for (const char* model : {"gemma4_dense", "gemma4_moe", "qwen3_5_moe", "deepseek_v3"})
    all.push_back({model, cat(model, "/golden_lora"), {14, 0}});
  return all;
}

class FullReferenceModels : public testing::TestWithParam<FullCase> {};

TEST_P(FullReferenceModels, Hold) {
  const auto& [model, golden, expected] = GetParam();
  const std::string folder = reference_models();
  if (folder.empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: goldens of the full set did not run";
  expect_holds_at_best_level(cat(folder, '/', model), cat(folder, '/', golden, ".json"), expected);
}

std::string name_of_case(const testing::TestParamInfo<FullCase>& info) {
  std::string name = cat(info.index, "_", info.param.golden);
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Goldens, FullReferenceModels, testing::ValuesIn(full_cases()), name_of_case);

// Neither do llama.cpp's projectors of Qwen3.5 say the least number of pixels.
TEST(Goldens, PicturesThroughPeersProjectors) {
  const std::string folder = reference_models();
  if (folder.empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: llama.cpp's projectors did not run";
  const TemporaryFolder temporary;
  for (const char* model : {"qwen3_5", "qwen3_5_moe"}) {
    const std::string file = temporary.path(cat(model, ".gguf")), directory = cat(folder, '/', model);
    ASSERT_EQ(run_sluice({"convert", directory, file, "--to", "bf16"}).status, 0);
    expect_holds(file, directory + "/golden.json",
                 {"--mmproj", cat(folder, "/peer/mmproj-", model, ".gguf"), "--cases", "image"}, {2, 0});
  }
}

// The golden's cases with this adapter alone, as cases of a model that has the changes in its weights.
std::string merged_golden(const TemporaryFolder& folder, const std::string& golden, const std::string& adapter) {
  const Json read = *parse_json(*read_file(golden + ".json", 1u << 28), golden);
  Json::Object merged = read.as_object();
  for (auto& [name, value] : merged) {
    if (name != "cases") continue;
    Json::Array cases;
    for (Json& one : value.as_array()) {
      if (one.find("kind")->as_string() != "lora") continue;
      const Json::Array& files = one.find("files")->as_array();
      if (files.size() != 1 || files[0].as_string() != adapter) continue;
      for (auto& [member, content] : one.as_object()) {
        if (member == "kind") content = "text";
        if (member == "files") content = Json::Array();
      }
      cases.push_back(std::move(one));
    }
    value = std::move(cases);
  }
  std::filesystem::create_symlink(golden + ".safetensors", folder.path("merged.safetensors"));
  EXPECT_TRUE(write_file(folder.path("merged.json"), write_json(merged)).ok());
  return folder.path("merged.json");
}

// Experts, heads in another order, and latents.
TEST(Goldens, AdaptersMergedIntoFiles) {
  const std::string folder = reference_models();
  if (folder.empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: merged adapters were not verified";
  for (const auto& [model, form] : {std::pair("gemma4_dense", "lora_a"),
                                    {"gemma4_moe", "lora_a"},
                                    {"gemma4_moe", "lora_a.gguf"},
                                    {"qwen3_5_moe", "lora_a"},
                                    {"qwen3_5_moe", "lora_a.gguf"},
                                    {"deepseek_v3", "lora_a"}}) {
    SCOPED_TRACE(cat(model, " ", form));
    const TemporaryFolder temporary;
    const std::string of_model = cat(folder, '/', model), file = temporary.path("merged.gguf");
    const std::string golden = merged_golden(temporary, of_model + "/golden_lora", "lora_a");
    ASSERT_EQ(run_sluice({"convert", of_model, file, "--to", "f32", "--adapter", cat(of_model, '/', form)}).status, 0);
    expect_holds(file, golden, {}, {6, 0});
  }
}

TEST(Goldens, DemoThroughConvertedFiles) {
  const std::string folder = reference_models();
  if (folder.empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: the demo's goldens did not run";
  const TemporaryFolder temporary;
  for (const char* format : {"bf16", "f32"}) {
    SCOPED_TRACE(format);
    const std::string file = temporary.path(cat(format, ".gguf"));
    ASSERT_EQ(run_sluice({"convert", folder + "/gemma4", file, "--to", format}).status, 0);
    expect_holds(file, folder + "/gemma4/golden.json", {}, kDemo);
  }
}

TEST(Goldens, BuiltInDemoIsTheReferenceModelConverted) {
  const std::string folder = reference_models();
  if (folder.empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: the demo's goldens did not run";
  const TemporaryFolder temporary;
  const std::string file = temporary.path("demo-gemma4-q8_0.gguf"), towers = temporary.path("mmproj-demo-gemma4.gguf");
  ASSERT_EQ(run_sluice({"convert", folder + "/gemma4", file, "--to", "q8_0", "--mmproj", towers}).status, 0);
  for (const std::string& made : {file, towers})
    EXPECT_EQ(*read_file(made, 1u << 28) == *read_file(cat(SLUICE_ASSETS, '/', file_name(made)), 1u << 28), true)
        << made;
}

}  // namespace
}  // namespace sluice
