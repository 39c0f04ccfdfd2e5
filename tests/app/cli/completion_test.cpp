// `sluice completion` in real shells, and an installed program that finds its files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "app/cli/environment.h"
#include "app/commands.h"
#include "base/files/file.h"
#include "base/text.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// What a shell's command line prints.
std::string output_of(const std::string& line) {
  FILE* pipe = popen(line.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string out;
  char piece[4096];
  for (size_t got = fread(piece, 1, sizeof piece, pipe); got > 0; got = fread(piece, 1, sizeof piece, pipe))
    out.append(piece, got);
  EXPECT_EQ(pclose(pipe), 0) << line << '\n' << out;
  return out;
}

bool has(const char* program) {
  return std::system(cat("command -v ", program, " > /dev/null").c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
}

// The program is called sluice there, and one model lies in a store of Ollama's.
class Completion : public testing::Test {
 protected:
  Completion() {
    std::filesystem::create_directory(folder_.path("bin"));
    std::filesystem::create_symlink(SLUICE_PROGRAM, folder_.path("bin/sluice"));
    EXPECT_TRUE(make_folders(folder_.path("ollama/manifests/registry.ollama.ai/library/gemma4")));
    EXPECT_TRUE(write_file(folder_.path("ollama/manifests/registry.ollama.ai/library/gemma4/e2b"), "{}"));
    EXPECT_TRUE(write_file(folder_.path("notes.txt"), ""));
    environment_ = cat("cd ", folder_.path(), "; export PATH=", folder_.path("bin"), ":$PATH HOME=", folder_.path(),
                       " OLLAMA_MODELS=", folder_.path("ollama"), " HF_HUB_CACHE=", folder_.path("hub"), "; ");
  }
  std::string run(const std::string& line) const { return output_of(environment_ + line); }
  // What bash offers after `line`, one candidate after another.
  std::string bash(const std::string& line) const {
    EXPECT_TRUE(write_file(folder_.path("try.bash"),
                           cat("source <(sluice completion bash)\nCOMP_LINE='", line, "' COMP_POINT=", line.size(),
                               "\n_sluice\necho \"${COMPREPLY[*]}\"\n")));
    return run("bash try.bash");
  }
  std::string fish(const std::string& line) const {
    EXPECT_TRUE(write_file(folder_.path("try.fish"),
                           cat("sluice completion fish | source\ncomplete -C'", line, "' | cut -f1 | tr '\\n' ' '\n")));
    return run("fish try.fish");
  }

  TemporaryFolder folder_;
  std::string environment_;
};

TEST_F(Completion, BashKnowsCommandsOptionsChoicesModelsAndFiles) {
  if (!has("bash")) GTEST_SKIP() << "bash is not installed";
  std::string names;
  for (const CommandSpec& command : all_commands()) names += cat(command.name, ' ');
  EXPECT_EQ(bash("sluice "), names + "--help --version\n");
  EXPECT_EQ(bash("sluice conv"), "convert\n");
  EXPECT_EQ(bash("sluice run --dev"), "--device --device-memory\n");
  EXPECT_EQ(bash("sluice run --device "), "auto cpu gpu webgpu reference cuda\n");
  EXPECT_EQ(bash("sluice run --device=c"), "cpu cuda\n");
  EXPECT_EQ(bash("sluice completion "), "bash zsh fish\n");
  EXPECT_EQ(bash("sluice help ve"), "verify\n");
  EXPECT_EQ(bash("sluice run g"), "gemma4:e2b\n");
  EXPECT_EQ(bash("sluice run --greedy --system Hi gemma4:e"), "e2b\n");  // a word begins after its colon, for bash
  EXPECT_EQ(bash("sluice inspect no"), "notes.txt\n");
  EXPECT_EQ(bash("sluice verify --golden no"), "notes.txt\n");
  EXPECT_EQ(bash("sluice pull http://x/y --to o"), "ollama\n");
  EXPECT_EQ(bash("sluice run demo "), "\n");
  EXPECT_EQ(bash("sluice fly "), "\n");
}

TEST_F(Completion, FishKnowsTheSame) {
  if (!has("fish")) GTEST_SKIP() << "fish is not installed";
  EXPECT_EQ(fish("sluice conv"), "convert ");
  EXPECT_EQ(fish("sluice run --dev"), "--device --device-memory ");
  EXPECT_EQ(fish("sluice run --device "), "auto cpu cuda gpu reference webgpu ");
  EXPECT_EQ(fish("sluice completion "), "bash fish zsh ");
  EXPECT_EQ(fish("sluice run gem"), "gemma4:e2b ");
  EXPECT_THAT(fish("sluice inspect no"), HasSubstr("notes.txt"));
}

TEST_F(Completion, ZshTakesItsScript) {
  if (!has("zsh")) GTEST_SKIP() << "zsh is not installed";
  run("sluice completion zsh > _sluice; zsh -n _sluice");
}

TEST_F(Completion, EveryOptionIsInEveryScript) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = run_sluice({"completion", shell}).out;
    for (const CommandSpec& command : all_commands())
      for (const OptionSpec& option : command.options)
        EXPECT_THAT(script, HasSubstr(shell == std::string("fish") ? cat("-l ", option.name + 2) : option.name));
  }
}

TEST_F(Completion, NamesOfModelsAreListedWithoutReadingThem) { EXPECT_EQ(run("sluice list --names"), "gemma4:e2b\n"); }

TEST(ManPage, IsTheGeneratedPage) {
  const Result<std::string> page = read_file(SLUICE_DOCS "/sluice.1", 1 << 20);
  ASSERT_TRUE(page);
  EXPECT_TRUE(*page == run_sluice({"help", "--man"}).out) << "run: build/release/sluice help --man > docs/sluice.1";
}

TEST(ManPage, IsFaultless) {
  if (has("mandoc")) {
    // Everything but the date, which a generated page has none of.
    EXPECT_EQ(output_of("mandoc -T lint -W warning " SLUICE_DOCS "/sluice.1 | grep -v 'missing date' || true"), "");
  } else if (has("man")) {
    EXPECT_EQ(output_of("LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings -l " SLUICE_DOCS "/sluice.1 2>&1 > /dev/null"), "");
  } else {
    GTEST_SKIP() << "neither mandoc nor man is installed";
  }
}

TEST(ManPage, NamesEveryVariableThatIsRead) {
  std::string rows;
  for (const TableRow& row : environment_rows()) rows += row.head + ' ';
  for (const char* name : kPlaceVariables) EXPECT_THAT(rows, HasSubstr(name));
}

TEST(Install, AProgramSomewhereElseFindsItsModel) {
  const TemporaryFolder folder;
  output_of(cat("DESTDIR=", folder.path(), " cmake --install ", SLUICE_BUILD, " --prefix /opt/sluice 2>&1"));
  const std::string root = folder.path("opt/sluice/");
  for (const char* file : {"bin/sluice", "share/sluice/demo-gemma4-q8_0.gguf", "share/sluice/mmproj-demo-gemma4.gguf",
                           "share/doc/sluice/LICENSE", "share/doc/sluice/NOTICE", "share/man/man1/sluice.1",
                           "share/bash-completion/completions/sluice", "share/zsh/site-functions/_sluice",
                           "share/fish/vendor_completions.d/sluice.fish", "lib/systemd/system/sluice.service",
                           "lib/sysusers.d/sluice.conf"}) {
    EXPECT_EQ(path_kind(root + file), PathKind::file) << file;
  }
  EXPECT_EQ(*read_file(root + "share/bash-completion/completions/sluice", 1 << 20),
            run_sluice({"completion", "bash"}).out);
  EXPECT_THAT(output_of(root + "bin/sluice inspect demo"), HasSubstr(root + "share/sluice/demo-gemma4-q8_0.gguf"));
  EXPECT_THAT(*read_file(root + "lib/systemd/system/sluice.service", 1 << 20),
              HasSubstr("\nExecStart=\"/opt/sluice/bin/sluice\" serve $SERVE\n"));
  // systemd starts no service of which a group is missing, as this one is without udev.
  EXPECT_THAT(*read_file(root + "lib/sysusers.d/sluice.conf", 1 << 20), HasSubstr("\ng render - -\n"));
}

// As systemd would read it: 0.2 s of `make test`.
TEST(Install, SystemdFindsNoFaultInTheUnit) {
  if (!has("systemd-analyze")) GTEST_SKIP() << "systemd-analyze is not installed";
  const TemporaryFolder folder;
  output_of(cat("cmake --install ", SLUICE_BUILD, " --prefix ", folder.path(), " 2>&1"));
  const std::string unit = folder.path("lib/systemd/system/sluice.service");
  ASSERT_EQ(path_kind(unit), PathKind::file);
  // Faults of the machine's other units are not ours.
  EXPECT_THAT(output_of(cat("systemd-analyze verify --man=no ", unit, " 2>&1")), Not(HasSubstr("sluice")));
}

}  // namespace
}  // namespace sluice
