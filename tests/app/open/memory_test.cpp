// --memory holds: a model several times larger than the bound answers within it, also in a control group with that
// bound. A model that does not fit is refused before anything is loaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "app/bench/bench_model.h"
#include "app/cli/console.h"
#include "app/commands.h"
#include "app/open/machine_memory.h"
#include "base/files/file.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/experts/routing_trace.h"
#include "tests/app/json_fields.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_ADDRESS_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_ADDRESS_SANITIZER
#endif

constexpr uint64_t kBound = 130'000'000;  // the file has four times as much
const std::vector<std::string> kBounded = {"--memory", "130M"};

// One layer of 256 experts, half a gigabyte, with few words.
Status write_model(const std::string& path, int vocabulary = 1024, int experts = 256, const char* mix = "q4_k_m") {
  TRY(ShapeConfig config, find_shape("qwen3.6-35b-a3b:1"));
  for (auto& [name, value] : config.config.as_object()) {
    if (name == "vocab_size") value = vocabulary;
    if (name == "num_experts") value = experts;
  }
  TRY(const SyntheticModel synthetic, SyntheticModel::make(config, *find_mix(mix), Routing{1.0}));
  Console console;
  return write_synthetic(synthetic, path, console);
}

// Why the tests cannot run here; "" where they can.
std::string missing_for_tests() {
#if defined(SLUICE_ADDRESS_SANITIZER)
  return "the address sanitizer's own memory grows with what the program does";
#else
  constexpr uint64_t kDiskBytes = 600'000'000;
  std::error_code failed;
  const auto space = std::filesystem::space(std::filesystem::temp_directory_path(), failed);
  return failed || space.available < kDiskBytes ? "the folder for temporary files has no room for 600 MB" : "";
#endif
}

// One for all tests here.
class Memory : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    if (!missing_for_tests().empty()) return;
    const Status written = write_model(model());
    ASSERT_TRUE(written) << written.error().text;
    ASSERT_GT(std::filesystem::file_size(model()), 4 * kBound);
  }
  void SetUp() override {
    if (path_kind(model()) != PathKind::file) GTEST_SKIP() << missing_for_tests();
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string model() { return folder_->path("larger.gguf"); }

  static ProgramResult run(const std::vector<std::string>& more, const std::string& group = {}) {
    std::vector<std::string> words = {"run", model(),     "ab ba aba", "--raw",     "--greedy", "--max-tokens",
                                      "6",   "--context", "256",       "--threads", "2",        "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_sluice(words, {.group = group});
  }

 private:
  static inline TemporaryFolder* folder_ = nullptr;
};

Json json_of(const ProgramResult& result) {
  Result<Json> json = parse_json(result.out, "standard output");
  EXPECT_TRUE(json) << result.out << result.err;
  return json ? *std::move(json) : Json();
}

std::string answer_of(const ProgramResult& result) {
  EXPECT_EQ(result.status, 0) << result.err;
  const Json json = json_of(result);
  return json.is_object() ? json.find("answer")->as_string() : "";
}

// A control group that holds memory to so many bytes; removed with the object.
class MemoryGroup {
 public:
  explicit MemoryGroup(uint64_t bytes) {
    const std::string root = "/sys/fs/cgroup";
    if (path_kind(root + "/memory/memory.limit_in_bytes") != PathKind::missing) {
      make(root + "/memory", "memory.limit_in_bytes", bytes);
    } else if (path_kind(root + "/cgroup.controllers") != PathKind::missing) {
      // A group with processes gives no controllers to groups below it: beside this process's, or higher up.
      std::string folder = root + own_group();
      while (!is_here() && folder.size() >= root.size()) {
        make(folder, "memory.max", bytes);
        folder.resize(folder.rfind('/'));
      }
    } else {
      missing_ = "this machine has no control groups for memory";
    }
  }
  ~MemoryGroup() { remove(); }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool is_here() const { return !folder_.empty(); }
  const std::string& missing() const { return missing_; }  // why it is not
  std::string processes() const { return folder_ + "/cgroup.procs"; }

 private:
  // Of version 2, "/" at the root: the line "0::/PATH" of this process's groups.
  static std::string own_group() {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);)
      if (line.starts_with("0::/")) return line.size() == 4 ? "" : line.substr(3);
    return "";
  }
  // Not write_file, which writes beside and renames.
  static bool put(uint64_t number, const std::string& path) {
    return std::system(cat("{ echo ", number, " > '", path, "'; } 2> /dev/null").c_str()) == 0;
  }

  void make(const std::string& parent, const std::string& limit, uint64_t bytes) {
    const std::string folder = cat(parent, "/sluice_test_", getpid());
    std::error_code failed;
    if (!std::filesystem::create_directory(folder, failed)) {
      missing_ = cat("no control group can be made in ", parent);
      return;
    }
    folder_ = folder;
    if (path_kind(cat(folder, "/", limit)) == PathKind::missing)
      missing_ = cat("groups in ", parent, " have no ", limit);
    else if (!put(bytes, cat(folder, "/", limit)))
      missing_ = cat(limit, " of a group in ", parent, " cannot be written");
    else if (!put(0, processes()))
      missing_ = cat("no process can be moved to a group in ", parent);
    else
      return;
    remove();
  }
  void remove() {
    if (is_here()) rmdir(folder_.c_str());
    folder_.clear();
  }

  std::string folder_, missing_;
};

TEST_F(Memory, AnswersWithinABoundAsWithout) {
  const std::string resident = answer_of(run({}));
  EXPECT_FALSE(resident.empty());
  const ProgramResult bounded = run(kBounded);
  EXPECT_EQ(answer_of(bounded), resident);
  // Nothing beyond the bound is promised to anybody, and no more is taken than promised.
  const Json json = json_of(bounded);
  uint64_t promised = 0;
  for (const Json& line : json.find("memory")->as_array())
    promised += static_cast<uint64_t>(line.find("peak_bytes")->as_integer());
  EXPECT_LE(promised, kBound);
  EXPECT_GE(promised, kBound * 9 / 10);
  EXPECT_LE(static_cast<uint64_t>(json.find("peak_memory_bytes")->as_integer()), promised);
}

// A head was read where it lies in the file while its packed form was made behind the answer: it stood in memory twice.
TEST_F(Memory, APackedHeadIsNotInMemoryTwice) {
  const TemporaryFolder folder;
  const std::string path = folder.path("head.gguf");
  const Status written = write_model(path, /*vocabulary=*/65536, /*experts=*/8, "q8_0");
  ASSERT_TRUE(written) << written.error().text;
  const ProgramResult bounded = run_sluice({"run", path, "ab ba aba", "--raw", "--greedy", "--max-tokens", "40",
                                            "--context", "256", "--threads", "2", "--json", "--memory", "500M"});
  ASSERT_EQ(bounded.status, 0) << bounded.err;
  uint64_t promised = 0, packed = 0;
  const Json json = json_of(bounded);
  for (const Json& line : json.find("memory")->as_array()) {
    const auto bytes = static_cast<uint64_t>(line.find("peak_bytes")->as_integer());
    promised += bytes;
    if (line.find("purpose")->as_string() == "packed weights") packed = bytes;
  }
  EXPECT_GT(packed, 130'000'000u);
  EXPECT_LE(promised, 500'000'000u);
  EXPECT_LE(static_cast<uint64_t>(json.find("peak_memory_bytes")->as_integer()), promised);
}

TEST_F(Memory, AnswersInAControlGroupOfAQuarterOfTheModel) {
  const MemoryGroup group(kBound);
  if (!group.is_here()) GTEST_SKIP() << group.missing();
  EXPECT_EQ(answer_of(run(kBounded, group.processes())), answer_of(run({})));
}

TEST_F(Memory, BelowTheFloorIsRefusedWithWhatEachNeeds) {
  const ProgramResult result = run({"--memory", "40M"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, StartsWith("sluice: host memory: 40.0 MB in all: want at least "));
  EXPECT_THAT(result.err, HasSubstr(" held and in reserve, state "));
  EXPECT_THAT(result.err, HasSubstr(", activations "));
  EXPECT_THAT(result.err, HasSubstr(", mapped weights "));
  EXPECT_THAT(result.err, HasSubstr(", at least 8 experts "));
}

TEST(MachineMemory, ThisProcessHasSome) {
  const ResidentMemory memory = resident_memory();
  EXPECT_GT(memory.anonymous, 100'000u);
  if (memory.file == 0) GTEST_SKIP() << "this system does not tell mapped pages from a process's own";
  EXPECT_GT(memory.file, 100'000u);
}

// What getrusage calls the most memory of a process is also that of the process it was forked from.
TEST(MachineMemory, PeakExcludesTheParentProcess) {
  const std::vector<char> large(size_t{1} << 29, 1);
  const ProgramResult result = run_sluice({"run", "demo", "ab", "--greedy", "--max-tokens", "2", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_LT(static_cast<uint64_t>(json_of(result).find("peak_memory_bytes")->as_integer()), large.size());
}

TEST_F(Memory, PlanSaysWhatRunDoes) {
  const ProgramResult planned =
      run_sluice({"plan", model(), "--context", "256", "--memory", "130M", "--threads", "2", "--json"});
  ASSERT_EQ(planned.status, 0) << planned.err;
  const Json plan = json_of(planned);
  std::set<std::string> seen;
  expect_known_fields(*find_command("plan"), plan, seen);
  expect_known_fields(*find_command("plan"), json_of(run_sluice({"plan", SLUICE_TEST_DATA "/qwen3_5_moe", "--json"})),
                      seen);  // which has a tower
  expect_all_fields(*find_command("plan"), seen);
  EXPECT_LE(plan.find("floor_bytes")->as_integer(), static_cast<int64_t>(kBound));
  EXPECT_GT(plan.find("recommended_bytes")->as_integer(), static_cast<int64_t>(4 * kBound));
  EXPECT_TRUE(plan.find("experts")->find("streamed")->as_bool());
  EXPECT_GT(plan.find("hit_rate")->as_number(), 0.05);
  EXPECT_LT(plan.find("hit_rate")->as_number(), 0.9);
  EXPECT_GT(plan.find("tokens_per_second")->as_number(), 0);
  // Bounds from just above the floor on run, also where packed weights would find room and nothing beside them; one
  // below does not. What the program itself takes differs a little between runs.
  const int64_t floor = plan.find("floor_bytes")->as_integer();
  for (const int64_t above : {5'000'000, 8'000'000, 11'000'000}) {
    const ProgramResult enough = run({"--memory", cat(floor + above)});
    EXPECT_EQ(enough.status, 0) << enough.err << planned.out;
  }
  EXPECT_EQ(run({"--memory", cat(floor - 16'000'000)}).status, 1);
}

TEST_F(Memory, PlanUsesRecordedRouting) {
  const TemporaryFolder folder;
  const std::string path = folder.path("routing");
  EXPECT_EQ(answer_of(run({"--memory", "130M", "--max-tokens", "9", "--record-routing", path})),
            answer_of(run({"--max-tokens", "9"})));
  const Result<RoutingTrace> trace = read_routing(path);
  ASSERT_TRUE(trace) << trace.error().text;
  EXPECT_EQ(trace->layers, 1u);
  EXPECT_EQ(trace->experts, 256u);
  EXPECT_EQ(trace->used, 8u);
  EXPECT_EQ(trace->tokens(), 8u);  // the first came with the prompt
  const Json plan = json_of(run_sluice({"plan", model(), "--memory", "130M", "--routing", path, "--json"}));
  EXPECT_EQ(plan.find("routing")->as_string(), "recorded in " + path);
  const ProgramResult refused = run({"--record-routing", path});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, StartsWith("sluice: run: --record-routing: every expert lies in memory: want a --memory "));
}

TEST_F(Memory, PlanNeedsTheHeaderAlone) {
  const TemporaryFolder folder;
  const std::string header = folder.path("header.gguf");
  std::string first(1 << 20, '\0');
  ASSERT_TRUE(std::ifstream(model(), std::ios::binary).read(first.data(), static_cast<std::streamsize>(first.size())));
  ASSERT_TRUE(write_file(header, first));
  const std::vector<std::string> rest = {"--context", "256", "--memory", "130M", "--disk", "1G", "--json"};
  std::vector<std::string> whole_words = {"plan", model()}, header_words = {"plan", header};
  whole_words.insert(whole_words.end(), rest.begin(), rest.end());
  header_words.insert(header_words.end(), rest.begin(), rest.end());
  const Json whole = json_of(run_sluice(whole_words)), beginning = json_of(run_sluice(header_words));
  EXPECT_TRUE(beginning.find("header_only")->as_bool());
  EXPECT_FALSE(whole.find("header_only")->as_bool());
  // The reserve is measured, each time anew.
  const auto beyond_reserve = [](const Json& plan, const char* name) {
    return plan.find(name)->as_integer() - plan.find("reserve_bytes")->as_integer();
  };
  for (const char* name : {"recommended_bytes", "floor_bytes"})
    EXPECT_EQ(beyond_reserve(beginning, name), beyond_reserve(whole, name)) << name;
  EXPECT_GT(beginning.find("tokens_per_second")->as_number(), 0);
  // --device auto goes by the model's size, too: one of the header's would not be worth a GPU.
  ASSERT_EQ(setenv("VK_ICD_FILENAMES", "./none.json", 1), 0);
  header_words.insert(header_words.end(), {"--device", "auto", "--webgpu-library", "./none.so"});
  EXPECT_THAT(run_sluice(header_words).err, HasSubstr(" (webgpu: WebGPU library ./none.so: cannot be opened ("));
  unsetenv("VK_ICD_FILENAMES");
  std::filesystem::resize_file(header, 100);
  EXPECT_EQ(run_sluice(header_words).status, 1);
}

// Bandwidth was measured with four times the last cache, 1.6 GB on large processors.
TEST(PlannedMemory, ASmallModelIsPlannedInLittleMemory) {
#if defined(SLUICE_ADDRESS_SANITIZER)
  GTEST_SKIP() << missing_for_tests();
#endif
  const ProgramResult planned = run_sluice({"plan", "demo", "--threads", "2"}, {.address_space = 900'000'000});
  EXPECT_EQ(planned.status, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("tokens/s foreseen"));
}

TEST(PlannedMemory, ARoutingFileIsCheckedEvenIfNoExpertIsStreamed) {
  const TemporaryFolder folder;
  const std::string path = folder.path("routing");
  ASSERT_TRUE(write_file(path, "sluice routing 1: 1 layers, 4 experts, 2 a token\n0 1\n"));
  const auto refusal = [](const std::string& model, const std::string& routing) {
    const ProgramResult result = run_sluice({"plan", model, "--routing", routing});
    EXPECT_EQ(result.status, 1);
    return result.err;
  };
  EXPECT_EQ(refusal("demo", "/dev/zero"), "sluice: /dev/zero: not a file: want a regular file\n");
  EXPECT_EQ(refusal("demo", path),
            cat("sluice: ", path, ": found a trace of experts: want none, since the model has none\n"));
  EXPECT_THAT(refusal(SLUICE_TEST_DATA "/qwen3_5_moe", path),
              StartsWith(cat("sluice: ", path, ": found 1 layers of 4 experts, 2 a token: want the model's ")));
}

TEST(DeviceMemory, IsBoundedWhereTheDeviceHasItsOwn) {
  const ProgramResult refused = run_sluice({"run", "demo", "hi", "--device-memory", "3M"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.err, "sluice: --device-memory: cpu computes in the host's memory: want --memory\n");
}

}  // namespace
}  // namespace sluice
