// main() of every test program. The tests run in a child process: where one of them aborts or hangs, it alone fails,
// and another child runs those that are left. Programs may run beside each other: each has a folder of its own for
// temporary files. Under a debugger use --gtest_break_on_failure, which keeps one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

namespace {

constexpr size_t kMostTests = 16384, kMostNameBytes = 4u << 20;
constexpr time_t kMostSeconds = 900;  // a test; the longest take a minute under an emulator or a sanitizer

// What the child tells its parent, in memory that both share.
struct Told {
  std::atomic<size_t> count;            // tests that this child is to run
  std::atomic<size_t> starts;           // of tests, so far
  std::atomic<size_t> running;          // index of the last one that began
  std::atomic<bool> ended;              // all were run
  std::atomic<bool> began[kMostTests];  // by index
  char names[kMostNameBytes];           // a line each
};

std::string name_of(const testing::TestInfo& test) { return std::string(test.test_suite_name()) + "." + test.name(); }

class Teller : public testing::EmptyTestEventListener {
 public:
  explicit Teller(Told& told) : told_(told) {}

  void OnTestProgramStart(const testing::UnitTest& program) override {
    char* end = told_.names;
    for (int suite = 0; suite < program.total_test_suite_count(); ++suite) {
      const testing::TestSuite& tests = *program.GetTestSuite(suite);
      for (int i = 0; i < tests.total_test_count(); ++i) {
        const testing::TestInfo& test = *tests.GetTestInfo(i);
        const std::string name = name_of(test) + "\n";
        if (!test.should_run() || end + name.size() >= told_.names + kMostNameBytes) continue;
        if (names_.size() == kMostTests) return;
        std::memcpy(end, name.data(), name.size());
        end += name.size();
        names_.push_back(name_of(test));
        told_.count = names_.size();
      }
    }
  }
  void OnTestStart(const testing::TestInfo& test) override {
    // In the order of the list, unless shuffled.
    const std::string name = name_of(test);
    for (size_t tried = 0; tried < names_.size(); ++tried, next_ = (next_ + 1) % names_.size()) {
      if (names_[next_] != name) continue;
      told_.began[next_] = true;
      told_.running = next_;
      ++told_.starts;
      return;
    }
  }
  void OnTestProgramEnd(const testing::UnitTest& /*program*/) override { told_.ended = true; }

 private:
  Told& told_;
  std::vector<std::string> names_;
  size_t next_ = 0;
};

// Waits for the child; one whose test runs for too long is killed. Its wait status.
int wait_for(pid_t child, const Told& told) {
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  size_t starts = 0;
  time_t since = time(nullptr);
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return status;
    if (told.starts != starts) starts = told.starts, since = time(nullptr);
    if (time(nullptr) - since > kMostSeconds) {
      std::fprintf(stderr, "killed: the test has run for more than %ld s\n", static_cast<long>(kMostSeconds));
      kill(child, SIGKILL);
    }
    const timespec second{1, 0};
    sigtimedwait(&ended, nullptr, &second);
  }
}

std::vector<std::string> names_of(const Told& told) {
  std::vector<std::string> names;
  for (const char* at = told.names; names.size() < told.count;) {
    const char* end = std::strchr(at, '\n');
    names.emplace_back(at, end);
    at = end + 1;
  }
  return names;
}

// Runs the tests in a child. True where another child has to run what is left, which the filter then names.
bool run_in_child(int& status) {
  void* shared = mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return std::perror("tests: mmap"), status = 1, false;
  Told& told = *static_cast<Told*>(shared);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return std::perror("tests: fork"), status = 1, false;
  if (child == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    testing::UnitTest::GetInstance()->listeners().Append(new Teller(told));
    std::exit(RUN_ALL_TESTS());
  }
  const int ended = wait_for(child, told);
  if (ended != 0) status = 1;
  if (told.ended || told.starts == 0) return munmap(shared, sizeof(Told)), false;

  const std::vector<std::string> names = names_of(told);
  std::printf("[ ABORTED  ] %s (%s %d)\n[  FAILED  ] %s\n", names[told.running].c_str(),
              WIFSIGNALED(ended) ? "signal" : "exit status", WIFSIGNALED(ended) ? WTERMSIG(ended) : WEXITSTATUS(ended),
              names[told.running].c_str());
  status = 1;
  std::string left;
  for (size_t i = 0; i < names.size(); ++i)
    if (!told.began[i]) left += (left.empty() ? "" : ":") + names[i];
  munmap(shared, sizeof(Told));
  if (left.empty()) return false;
  std::printf("tests: going on behind it\n");
  unsetenv("GTEST_TOTAL_SHARDS");
  unsetenv("GTEST_SHARD_INDEX");
  GTEST_FLAG_SET(filter, left);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  // A death test's own process, which gtest starts.
  bool apart = true;
  for (int i = 1; i < argc; ++i) apart = apart && std::strncmp(argv[i], "--gtest_internal_run_death_test", 31) != 0;
  testing::InitGoogleMock(&argc, argv);
  if (!apart || GTEST_FLAG_GET(break_on_failure) || GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();

  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ended, nullptr);
  std::string folder = testing::TempDir() + "sluice-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return std::perror("tests: mkdtemp"), 1;
  setenv("TEST_TMPDIR", folder.c_str(), 1);
  int status = 0;
  while (run_in_child(status)) {
  }
  std::error_code left;
  std::filesystem::remove_all(folder, left);
  return status;
}
