// Files that are broken, lie or change: every command ends with one sentence and status 1, and leaves no file behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <new>
#include <thread>

#include "app/cli/fatal_errors.h"
#include "base/files/file.h"
#include "tests/app/program.h"
#include "tests/checkpoint/bytes.h"

namespace sluice {
namespace {

using namespace sluice::tests;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;
using ::testing::StartsWith;

const std::string kModel = SLUICE_TEST_DATA "/gemma4_moe";
const std::string kDemo = SLUICE_ASSETS "/demo-gemma4-q8_0.gguf";

// Every command that opens a model, on `path`.
void expect_refused(const std::string& path, const std::string& sentence) {
  const TemporaryFolder out;
  const std::vector<std::string> commands[] = {
      {"inspect", path},
      {"run", path, "Hello"},
      {"verify", path, "--golden", kModel + "/golden.json"},
      {"convert", path, out.path("out.gguf"), "--to", "f32"},
  };
  for (const std::vector<std::string>& command : commands) {
    const ProgramResult result = run_sluice(command);
    EXPECT_EQ(result.status, 1) << command[0];
    EXPECT_EQ(result.out, "") << command[0];
    EXPECT_THAT(result.err, AllOf(StartsWith("sluice: " + path + sentence), EndsWith("\n"))) << command[0];
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << command[0];
  }
  EXPECT_TRUE(list_directory(out.path())->empty());
}

struct HostileFiles : public Folder {};

TEST_F(HostileFiles, OneOfEachClassOfGguf) {
  const int64_t big = int64_t{1} << 31;
  const std::pair<std::string, std::string> files[] = {
      {"", ": an empty file: want a GGUF file or a Hugging Face directory"},
      {gguf_start(0, 0, 4), ": byte 8: version 4: want 2 or 3"},
      {padded(gguf_start(int64_t{1} << 62, 0)), ": byte 24: 4611686018427387904 tensors: want 0 to 0"},
      {padded(gguf_start(0, -1)), ": byte 24: -1 keys: want 0 to 0"},
      {gguf_start(0, 1) + u64(uint64_t{1} << 63) + std::string(40, 'x'), ": byte 32: a key has 9223372036854775808"},
      {padded(gguf_start(0, 2) + u32_key("a", 1) + u32_key("a", 2)), ": byte 58: key a stands twice"},
      {padded(gguf_start(0, 1) + u32_key("general.alignment", 24)), ": general.alignment is 24: want a power of two"},
      {gguf_of(gguf_info("t", {-4})), ": byte 98: tensor t is f32 [-4]: want dimensions of at least 0"},
      {gguf_of(gguf_info("t", {big, big, 2}, 24)), ": byte 114: tensor t is i8 [2, 2147483648, 2147483648]: want"},
      {gguf_of(gguf_info("t", {4}, 43)), ": byte 98: tensor t has type 43: want a known type"},
      {gguf_of(gguf_info("t", {4}, 0, uint64_t{0} - 32)), ": tensor t begins at 18446744073709551584 of the data"},
      {gguf_of(gguf_info("t", {1000})), ": is cut short: has 160 bytes: want the whole file of 4128 bytes"},
  };
  int number = 0;
  for (const auto& [content, sentence] : files) expect_refused(put(cat(number++, ".gguf"), content), sentence);
}

TEST_F(HostileFiles, OneOfEachClassOfSafetensors) {
  put("config.json", R"({"model_type":"gemma4"})");
  const std::pair<std::string, std::string> files[] = {
      {u64(UINT64_MAX - 3) + "{}", "the header has 18446744073709551612 bytes: want at most 2"},
      {safetensors_of(R"({"t":{"dtype":"I8","shape":[4194305,4194305,211106198978564],"data_offsets":[0,4]}})", 4),
       "tensor t is i8 [4194305, 4194305, 211106198978564] in 4 bytes: want a size below 2^63"},
      {safetensors_of(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4),
       "tensor t: data_offsets are [4, 0]: want begin and end"},
      {safetensors_of(std::string(1000, '['), 0), "the header does not begin with {"},
      {safetensors_of("{\"a\":" + std::string(1000, '['), 0), "nested deeper than 128"},
  };
  for (const auto& [content, sentence] : files) {
    put("model.safetensors", content);
    expect_refused(folder_, "/model.safetensors: " + sentence);
  }
}

// Any of these lengths but the whole.
TEST_F(HostileFiles, ModelsThatAreCutShort) {
  const std::string demo = *read_file(kDemo, uint64_t{1} << 26);
  for (const size_t part : {1u, 12u, 24u, 36u})
    expect_refused(put("demo.gguf", std::string_view(demo).substr(0, demo.size() * part / 37)), "");
}

// ---- files that change while they are mapped

TEST_F(HostileFiles, AModelThatShrinksUnderTheProgramEndsItWithASentence) {
  const std::string model = put("m.gguf", std::string(1 << 16, 'x'));
  const auto lose = [&] {
    handle_fatal_errors();
    const Mapping mapping = *Mapping::open(model);
    AtomicFile unfinished = *AtomicFile::create(path("out.gguf"));
    std::filesystem::resize_file(model, 100);
    static_cast<void>(unfinished.write(mapping.bytes().subspan(1 << 15, 1)));  // the system answers with EFAULT
    volatile std::byte sum{};
    for (const std::byte byte : mapping.bytes()) sum = byte;
    static_cast<void>(sum);
    std::_Exit(0);
  };
  EXPECT_EXIT(lose(), ExitedWithCode(1),
              "sluice: .*m\\.gguf: became shorter, or its disk failed, while it was read: want a file that nothing "
              "writes to\n$");
  EXPECT_THAT(*list_directory(folder_), ElementsAre("m.gguf"));
}

TEST(FatalErrors, AFaultThatIsNoMappedFilesEndsAsItWould) {
  const auto fault = [] {
    handle_fatal_errors();
    std::raise(SIGBUS);
    std::raise(SIGBUS);
  };
  EXPECT_EXIT(fault(), KilledBySignal(SIGBUS), "^$");
}

TEST(FatalErrors, MemoryThatRunsOutOnAnotherThreadIsOneSentence) {
  const auto run_out = [] {
    handle_fatal_errors();
    std::thread([] { throw std::bad_alloc(); }).join();
  };
  EXPECT_EXIT(run_out(), ExitedWithCode(1),
              "^sluice: out of memory: want a smaller model, a shorter context or a machine with more\n$");
}

// ---- little memory

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_ADDRESS_SANITIZER
#endif
#endif

// Of address space, which is what a program can be denied; where it denies itself, the budget says so.
TEST(LittleMemory, AtAnyAmountTheProgramAnswersOrSaysSo) {
#if defined(SLUICE_ADDRESS_SANITIZER)
  GTEST_SKIP() << "the address sanitizer needs terabytes of address space";
#endif
  uint64_t room = uint64_t{16} << 20;
  while (run_sluice({"--version"}, {.address_space = room}).status != 0) room += uint64_t{4} << 20;
  int refused = 0;
  for (int status = 1; status != 0; room += room / 8) {
    ASSERT_LT(room, uint64_t{16} << 30);
    const ProgramResult result =
        run_sluice({"run", kModel, "Hi", "--max-tokens", "1", "--context", "256"}, {.address_space = room});
    status = result.status;
    if (status == 0) break;
    EXPECT_EQ(status, 1) << room << " bytes: " << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("sluice: "));
    ++refused;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace sluice
