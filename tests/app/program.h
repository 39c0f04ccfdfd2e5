// Runs the built program as a user would, for tests: arguments, standard input, and what it printed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice {

struct ProgramResult {
  int status = -1;  // exit status; 128 + n when signal n ended it
  std::string out;
  std::string err;  // without progress lines
};

struct ProgramSetup {
  std::string input = {};       // standard input, a pipe
  std::string out_path = {};    // standard output goes to this file instead of a pipe
  bool close_out = false;       // nobody reads standard output
  uint64_t address_space = 0;   // bytes that the program may have; 0: any
  std::string state_home = {};  // XDG_STATE_HOME; without it a folder of this run's own
  std::string program = {};     // a copy of the program; without it the one that was built
  std::string group = {};       // the control group it belongs to: its cgroup.procs
  uint64_t file_size = 0;       // bytes that a file it writes may have, as if the disk were full behind them; 0: any
  // The program gets `signal` as soon as `when`, which is asked every millisecond, says so.
  int signal = 0;
  std::function<bool()> when = {};
};

// The program is SLUICE_PROGRAM. Ends the test program when it cannot be started.
ProgramResult run_sluice(const std::vector<std::string>& arguments, const ProgramSetup& setup = {});

// A folder of this test's own, empty, removed with everything in it on destruction.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  // A folder `name` in it with links to the files of all these; of files with one name the first one's stands.
  std::string links(const std::string& name, const std::vector<std::string>& folders) const;

 private:
  std::string path_;
};

}  // namespace sluice
