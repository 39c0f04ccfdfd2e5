// Towers against transformers' intermediates (models of shared/models; their golden.json says with which versions they
// were made), on the reference device and the CPU in exact arithmetic. The bar is design.md's: 1e-4 in relative norm.
// Pictures and sounds are decoded from the files that the goldens were made of.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>

#include "device/cpu/cpu.h"
#include "media/decode/picture_file.h"
#include "media/decode/sound_file.h"
#include "tests/model/tower_bench.h"
#include "tests/reference_models.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

constexpr double kNamedBar = 1e-4;

std::vector<float> numbers_of(const StoredTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// One named value of a tower: its rows, and which of them is the golden's row i.
struct NamedRowsOf {
  const std::vector<float>& values;
  size_t columns;
  std::function<size_t(size_t)> row_of;
};

// Of the rows and columns that both have; the golden's rows from `first` on are those of this picture or sound.
double relative_norm(const NamedRowsOf& got, const StoredTensor& golden, size_t first) {
  const std::vector<float> want = numbers_of(golden);
  const auto columns = static_cast<size_t>(golden.shape[1]);
  const size_t rows = std::min(got.values.size() / got.columns, want.size() / columns - first);
  double difference = 0, norm = 0;
  for (size_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < columns; ++column) {
      const auto wanted = static_cast<double>(want[(first + row) * columns + column]);
      const auto value = static_cast<double>(got.values.at(got.row_of(row) * got.columns + column));
      difference += std::pow(value - wanted, 2);
      norm += std::pow(wanted, 2);
    }
  EXPECT_GT(norm, 0);
  return std::sqrt(difference / norm);
}

size_t itself(size_t row) { return row; }

// Goldens have patches in raster order, towers of several patches a row in blocks.
std::function<size_t(size_t)> raster_order(const TowerInputs& inputs) {
  const auto found = std::ranges::find(inputs.inputs, "coordinates", &TowerInput::name);
  if (found == inputs.inputs.end()) return itself;
  uint32_t columns = 0;
  for (size_t i = 0; i < found->words.size(); i += 2) columns = std::max(columns, found->words[i] + 1);
  std::vector<size_t> order(found->words.size() / 2);
  for (size_t i = 0; i < order.size(); ++i) order[found->words[2 * i + 1] * size_t{columns} + found->words[2 * i]] = i;
  return [order](size_t row) { return order.at(row); };
}

class Golden {
 public:
  Golden(const std::string& folder, const std::string& name)
      : json_(unwrap(parse_json(unwrap(read_file(cat(folder, "/", name, ".json"), 1 << 28)), name))),
        tensors_(unwrap(open_safetensors(cat(folder, "/", name, ".safetensors")))) {}

  std::vector<std::string> files(const std::string& golden_case) const {
    std::vector<std::string> files;
    for (const Json& file : of(golden_case).find("files")->as_array()) files.push_back(file.as_string());
    return files;
  }
  const StoredTensor* tensor(const std::string& golden_case, const std::string& name) const {
    const Json* key = of(golden_case).find("tensors")->find(name);
    return key == nullptr ? nullptr : tensors_.find(key->as_string());
  }

 private:
  const Json& of(const std::string& golden_case) const {
    for (const Json& one : json_.find("cases")->as_array())
      if (one.find("name")->as_string() == golden_case) return one;
    ADD_FAILURE() << "the golden has no case " << golden_case;
    return json_;
  }

  Json json_;
  Checkpoint tensors_;
};

TowerInputs prepared(const Model& model, const std::string& path, ProgramKind kind) {
  const std::string bytes = unwrap(read_file(path, 1 << 24));
  const auto span = std::as_bytes(std::span(bytes));
  if (kind == ProgramKind::vision) return unwrap(model.prepare(unwrap(decode_picture(span, path, {}))));
  return unwrap(model.prepare(unwrap(decode_sound(span, path, {}))));
}

// A model's tower on a device, held to one golden file.
class TowerCheck {
 public:
  TowerCheck(const Model& model, ProgramKind kind, const std::string& folder, const Golden& golden,
             std::unique_ptr<Device> device)
      : model_(model), kind_(kind), folder_(folder), golden_(golden), bench_(model, kind, std::move(device)) {}

  // Every picture or sound of the case. The largest difference.
  double expect_case(const std::string& name) {
    double largest = 0;
    size_t index = 0, rows_before = 0;
    for (const std::string& file : golden_.files(name)) {
      if ((kind_ == ProgramKind::audio) != ends_with(file, ".wav")) continue;
      const TowerInputs inputs = prepared(model_, join_path(folder_, file), kind_);
      for (const auto& [value, difference] : differences(name, inputs, index, rows_before)) {
        EXPECT_LE(difference, kNamedBar) << name << ", " << file << ": " << value;
        largest = std::max(largest, difference);
      }
      rows_before += inputs.rows;
      ++index;
    }
    return largest;
  }

 private:
  // Of all values that the golden has of the picture or sound `index` of a case.
  std::map<std::string, double> differences(const std::string& name, const TowerInputs& inputs, size_t index,
                                            size_t rows_before) {
    std::map<std::string, double> found;
    for (const auto& [value, rows] : bench_.play(inputs)) {
      const ValueType& type = bench_.program().values[find_value(bench_.program(), value)].type;
      const StoredTensor* of_this = golden_.tensor(name, cat(value, ".", index));
      const StoredTensor* of_all = golden_.tensor(name, value);
      if (of_this == nullptr && of_all == nullptr) continue;
      const bool of_patches = type.extent.ratio != 1;
      const NamedRowsOf got{rows, static_cast<size_t>(type.columns()), of_patches ? raster_order(inputs) : itself};
      // Rows of the text are all pictures' one after another, in a tensor without number.
      found[value] = of_this != nullptr ? relative_norm(got, *of_this, 0)
                                        : relative_norm(got, *of_all, of_patches ? 0 : rows_before);
    }
    EXPECT_GE(found.size(), 1u) << name;
    return found;
  }

  const Model& model_;
  const ProgramKind kind_;
  const std::string folder_;
  const Golden& golden_;
  TowerBench bench_;
};

void expect_tower(const std::string& folder, const std::string& golden_name, ProgramKind kind,
                  const std::vector<std::string>& cases) {
  const Result<Model> model = open_model(folder);
  ASSERT_TRUE(model) << model.error().text;
  ASSERT_TRUE(model->has(kind)) << model->record(kind).error().text;
  const Golden golden(folder, golden_name);
  ThreadPool pool(2);
  TowerCheck reference(*model, kind, folder, golden, make_reference_device());
  TowerCheck cpu(*model, kind, folder, golden, make_cpu_device({.pool = &pool}));
  for (const std::string& name : cases) {
    const double plain = reference.expect_case(name), fast = cpu.expect_case(name);
    std::printf("%s: reference %.1e, cpu %.1e\n", name.c_str(), plain, fast);
  }
}

// The full set's model, or "" where it is not at hand.
std::string reference_model(const char* name) {
  const std::string models = reference_models();
  return models.empty() ? "" : join_path(models, name);
}
#define NEEDS_MODEL(folder) \
  if ((folder).empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: goldens of towers did not run"

TEST(Gemma4Vision, StandardizedRows) {
  expect_tower(cat(SLUICE_TEST_DATA, "/gemma4_dense"), "golden", ProgramKind::vision, {"image"});
}
TEST(Gemma4Vision, ClippedLinears) {
  const std::string folder = reference_model("gemma4");
  NEEDS_MODEL(folder);
  expect_tower(folder, "golden", ProgramKind::vision, {"image1", "image2", "image3", "image4"});
}
TEST(Gemma4Vision, SeveralPicturesAndFrames) {
  const std::string folder = reference_model("gemma4_towers");
  NEEDS_MODEL(folder);
  expect_tower(folder, "golden", ProgramKind::vision, {"image_two", "image_jpeg", "mixed", "video"});
}
TEST(Gemma4Unified, PicturesWithoutEncoder) {
  const std::string folder = reference_model("gemma4_unified");
  NEEDS_MODEL(folder);
  expect_tower(folder, "golden", ProgramKind::vision, {"image_two", "image_jpeg", "mixed", "video"});
}
TEST(Gemma4Unified, SoundsWithoutEncoder) {
  const std::string folder = reference_model("gemma4_unified");
  NEEDS_MODEL(folder);
  expect_tower(folder, "golden", ProgramKind::audio, {"audio_two", "mixed"});
}
TEST(Gemma4Audio, ClippedLinears) {
  const std::string folder = reference_model("gemma4");
  NEEDS_MODEL(folder);
  expect_tower(folder, "golden_audio", ProgramKind::audio, {"audio1", "audio2"});
}
TEST(Gemma4Audio, SoundsOfDifferentLengths) {
  const std::string folder = reference_model("gemma4_towers");
  NEEDS_MODEL(folder);
  expect_tower(folder, "golden", ProgramKind::audio, {"audio_two", "mixed"});
}

}  // namespace
}  // namespace sluice
