// The program as a shell sees it: help, exit statuses, and one sentence for each mistake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "app/commands.h"
#include "base/files/file.h"
#include "base/json.h"
#include "base/text.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kData = SLUICE_TEST_DATA;
const std::string kMoe = kData + "/gemma4_moe";

// Fails with that status and nothing but that sentence on standard error.
void expect_fails(const std::vector<std::string>& words, int status, const std::string& sentence) {
  const ProgramResult result = run_sluice(words);
  EXPECT_EQ(result.status, status) << result.out;
  EXPECT_EQ(result.err, "sluice: " + sentence + "\n");
}

TEST(Cli, HelpListsEveryCommand) {
  const ProgramResult result = run_sluice({"--help"});
  EXPECT_EQ(result.status, 0);
  for (const CommandSpec& command : all_commands()) EXPECT_THAT(result.out, HasSubstr(cat("\n  ", command.name, " ")));
  EXPECT_EQ(run_sluice({"help"}).out, result.out);
}

TEST(Cli, EveryCommandHasHelpWithAllItsOptionsAndAnExample) {
  for (const CommandSpec& command : all_commands()) {
    const ProgramResult result = run_sluice({command.name, "--help"});
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.out, HasSubstr("Examples:\n"));
    for (const OptionSpec& option : command.options) EXPECT_THAT(result.out, HasSubstr(cat("\n  ", option.name)));
    EXPECT_EQ(run_sluice({"help", command.name}).out, result.out);
  }
}

TEST(Cli, HelpFitsALineOfAHundred) {
  for (const CommandSpec& command : all_commands())
    for (const std::string& line : split(run_sluice({command.name, "--help"}).out, '\n'))
      EXPECT_LE(line.size(), starts_with(line, "  sluice ") ? 140u : 100u) << line;
}

TEST(Cli, DocsAreTheGeneratedPage) {
  const Result<std::string> docs = read_file(SLUICE_DOCS "/cli.md", 1 << 20);
  ASSERT_TRUE(docs);
  EXPECT_TRUE(*docs == run_sluice({"help", "--markdown"}).out)
      << "run: build/release/sluice help --markdown > docs/cli.md";
}

TEST(Cli, VersionIsOneLine) {
  const ProgramResult result = run_sluice({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, StartsWith("sluice "));
}

TEST(Cli, AWrongCommandLineIsStatusTwo) {
  EXPECT_EQ(run_sluice({}).status, 2);
  expect_fails({"fly"}, 2, "no command fly: want one that sluice --help lists");
  expect_fails({"lst"}, 2, "no command lst: did you mean list? (sluice --help lists all)");
  expect_fails({"help", "nope"}, 2, "help: no command nope: want one that sluice help lists");
  expect_fails({"run", "demo", "Hi", "--logit-bias", "5"}, 2,
               "--logit-bias is 5: want ID=X, a token's id and a number or -inf");
  expect_fails({"run", "demo", "Hi", "--think", "--no-think"}, 2, "run: --think and --no-think: want one of them");
  expect_fails({"run", "demo", ""}, 2, "run: PROMPT is empty: want a prompt");
  expect_fails({"run", "demo", "What", "is"}, 2,
               "run: unexpected argument is: want PROMPT in quotes: \"What is ...\" (sluice run --help)");
  expect_fails({"pull", "http://127.0.0.1/m.gguf", "--sha256", "123"}, 2,
               "--sha256: found 123: want 64 hexadecimal digits, lower case");
  expect_fails({"convert", "demo", "f", "--to", "f16", "--tensor", "x"}, 2, "--tensor x: want PATTERN=FORMAT");
  expect_fails({"list", "qwen"}, 2, "list: unexpected argument qwen: want --online with it");
  expect_fails({"run", "--colour"}, 2, "run: unknown option --colour (sluice run --help)");
  expect_fails({"run", "m", "--temperature", "hot"}, 2,
               "run: --temperature is hot: want a number, 0 to 100 (sluice run --help)");
  expect_fails({"verify", "m"}, 2, "verify: missing --golden FILE (sluice verify --help)");
  expect_fails({"convert", "m"}, 2, "convert: missing FILE.gguf (sluice convert --help)");
  expect_fails(
      {"convert", "m", "f", "--to", "q9"}, 2,
      "convert: --to is q9: want bf16|f16|f32|q8_0|q4_0|q4_1|q5_0|q5_1|q2_k|q2_k_s|q3_k_s|q3_k_m|q3_k_l|q4_k_s|"
      "q4_k_m|q5_k_s|q5_k_m|q6_k|iq4_nl|iq4_xs|mxfp4_moe (sluice convert --help)");
  expect_fails({"inspect"}, 2, "inspect: missing MODEL (sluice inspect --help)");
  expect_fails({"devices", "all"}, 2, "devices: unexpected argument all: want options only (sluice devices --help)");
}

TEST(Cli, AMissingModelIsOneSentence) {
  const std::string path = "./" + kData + "/none.gguf";  // else the stores are asked for it too
  for (const char* command : {"run", "inspect"}) {
    expect_fails({command, path}, 1,
                 path +
                     ": no such file or directory: sluice list shows the models that are here, sluice pull gemma4:e2b "
                     "fetches one");
  }
}

TEST(Cli, OtherNamesOfCommandsAndOptionsMeanTheSame) {
  EXPECT_EQ(run_sluice({"show", kMoe}).out, run_sluice({"inspect", kMoe}).out);
  EXPECT_EQ(run_sluice({"run", "-m", "demo", "-p", "What is a violin?", "--temp", "0", "-n", "2", "-t", "1"}).out,
            run_sluice({"run", "demo", "What is a violin?", "--greedy", "--max-tokens", "2", "--threads", "1"}).out);
}

// Each is told from a model by what it begins with, or by its keys.
TEST(Cli, AFileThatIsNoModelIsNamed) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, std::string_view text, const std::string& sentence) {
    const std::string path = folder.path(name);
    ASSERT_TRUE(write_file(path, text));
    expect_fails({"run", path, "Hi"}, 1, path + ": " + sentence);
  };
  refused("page.gguf", "\n<!DOCTYPE html><title>404</title>",
          "a web page, not a model: want the address of the file itself");
  refused("pointer.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
          "a Git LFS pointer in place of the file: want git lfs pull there, or the file itself");
  refused("empty.gguf", "", "an empty file: want a GGUF file or a Hugging Face directory");
  refused("x.imatrix.dat", "counts", "an importance matrix: want the model that it was made of");
  refused("pytorch_model.bin", std::string_view("PK\x03\x04..."),
          "weights of PyTorch's pickle format: want safetensors or GGUF");
  const std::string whole = *read_file(SLUICE_ASSETS "/demo-gemma4-q8_0.gguf", 1 << 26);
  refused("cut.gguf", std::string_view(whole).substr(0, 5'000'000),
          cat("is cut short: has 5000000 bytes: want the whole file of ", whole.size(), " bytes"));
  expect_fails({"run", SLUICE_ASSETS "/mmproj-demo-gemma4.gguf", "Hi"}, 1,
               SLUICE_ASSETS
               "/mmproj-demo-gemma4.gguf: towers for pictures and sounds (mmproj): want the model that "
               "they belong to, and --mmproj for this file");
}

TEST(Cli, AMistypedNameIsAnsweredWithAKnownOne) {
  expect_fails({"run", "gema4:e2b", "Hi"}, 1,
               "gema4:e2b: no file or model of that name on this machine: did you mean gemma4:e2b? sluice pull "
               "gemma4:e2b fetches it");
  expect_fails({"run", "org/some-model", "Hi"}, 1,
               "org/some-model: no file or model of that name on this machine: sluice pull org/some-model looks for "
               "it online");
}

TEST(Cli, ModelsThatCanBeFetchedAreListed) {
  const ProgramResult all = run_sluice({"list", "--online"});
  EXPECT_EQ(all.status, 0);
  EXPECT_THAT(all.out, HasSubstr("\ngemma4:e2b "));
  EXPECT_THAT(all.out, HasSubstr("\nqwen3.6:35b "));
  const ProgramResult some = run_sluice({"list", "--online", "QWEN"});
  EXPECT_THAT(some.out, testing::Not(HasSubstr("gemma4")));
  EXPECT_THAT(some.out, HasSubstr("As of November 2026"));
  EXPECT_THAT(run_sluice({"list", "--online", "llama"}).err,
              HasSubstr("no model in the table of November 2026 has llama"));
}

TEST(Cli, ADeviceThatIsNotThereIsNeverReplaced) {
  expect_fails({"run", kMoe, "Hi", "--device", "cuda"}, 1,
               "--device cuda: this build has no such device: want cpu, reference or webgpu");
  for (const char* gpu : {"webgpu", "gpu"}) {
    const ProgramResult webgpu = run_sluice({"run", kMoe, "Hi", "--device", gpu, "--webgpu-library", "./none.so"});
    EXPECT_EQ(webgpu.status, 1);
    EXPECT_THAT(webgpu.err, StartsWith("sluice: WebGPU library ./none.so: cannot be opened ("));
  }
  expect_fails({"run", kMoe, "Hi", "--device", "reference", "--simd", "scalar"}, 1,
               "--simd: the reference device has no instruction sets: want --device cpu");
}

// Where make install puts it, and what to run where it is not there.
TEST(Cli, AnInstalledProgramFindsTheWebGpuLibraryByItsOwnPlace) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  fs::create_directory(folder.path("bin"));
  const ProgramSetup setup{.program = folder.path("bin/sluice")};
  fs::copy_file(SLUICE_PROGRAM, setup.program);
  const std::vector<std::string> words = {"run", kMoe, "Hi", "--device", "gpu"};
  const ProgramResult without = run_sluice(words, setup);
  EXPECT_EQ(without.status, 1);
  EXPECT_EQ(without.err,
            cat("sluice: webgpu: found no libwebgpu_wrapper.so: want make build in the source tree, which fetches it, "
                "or that of npm install bun-webgpu-linux-x64@0.1.7 in ",
                folder.path("lib/sluice"), ", or --webgpu-library FILE\n"));
  const std::string library = folder.path("lib/sluice/libwebgpu_wrapper.so");
  fs::create_directories(folder.path("lib/sluice"));
  ASSERT_TRUE(write_file(library, "not a library"));
  const ProgramResult with = run_sluice(words, setup);
  EXPECT_EQ(with.status, 1);
  EXPECT_THAT(with.err, StartsWith(cat("sluice: WebGPU library ", library, ": cannot be opened (")));
}

TEST(Cli, DevicesSayWhatIsMissing) {
  const ProgramResult text = run_sluice({"devices", "--webgpu-library", "./none.so"});
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(text.err, "");
  EXPECT_THAT(text.out, HasSubstr("\nreference   scalar loops"));
  EXPECT_THAT(text.out, HasSubstr("\nwebgpu      not here: WebGPU library ./none.so: cannot be opened ("));
  EXPECT_THAT(text.out, HasSubstr("\ncuda        not here: this build has no such device\n"));
  const ProgramResult json = run_sluice({"devices", "--json", "--webgpu-library", "./none.so"});
  const Result<Json> parsed = parse_json(json.out, "devices");
  ASSERT_TRUE(parsed);
  std::vector<std::string> names;
  for (const Json& device : parsed->find("devices")->as_array()) {
    names.push_back(device.find("name")->as_string());
    EXPECT_EQ(device.find("missing")->is_string(), names.back() == "webgpu" || names.back() == "cuda") << names.back();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"cpu", "webgpu", "reference", "cuda"}));
}

TEST(Cli, AFullDiskBehindStandardOutputIsOneSentence) {
  const ProgramResult result = run_sluice({"inspect", kMoe}, {.out_path = "/dev/full"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "sluice: standard output: cannot write: the disk is full\n");
}

// A model opened on a standard descriptor's number must not stand in for it.
TEST(Cli, AClosedStandardStreamIsOneSentence) {
  const std::string program = SLUICE_PROGRAM;
  const auto said = [&](const std::string& rest) {
    const TemporaryFolder folder;
    const std::string err = folder.path("err");
    const int status = std::system(cat(program, ' ', rest, " 2> ", err).c_str());  // NOLINT(concurrency-mt-unsafe)
    EXPECT_EQ(WEXITSTATUS(status), 1) << rest;
    return *read_file(err, 1 << 16);
  };
  EXPECT_EQ(said("inspect demo >&-"), "sluice: standard output: is closed\n");
  EXPECT_EQ(said("run demo <&-"), "sluice: standard input: is closed\n");
}

TEST(Cli, AReaderThatLeavesIsNoFailure) {
  const ProgramResult result = run_sluice({"help", "--markdown"}, {.close_out = true});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
}

TEST(Cli, TooLittleMemoryIsOneSentenceWithTheTable) {
  const ProgramResult result = run_sluice({"run", kMoe, "Hi", "--memory", "100k"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, StartsWith("sluice: "));
  EXPECT_THAT(result.err, HasSubstr("100.0 kB"));
}

}  // namespace
}  // namespace sluice
