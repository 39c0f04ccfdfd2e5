#include "tests/app/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "base/text.h"

namespace sluice {
namespace {

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    read = ends[0];
    write = ends[1];
  }
  static void close_end(int& end) {
    if (end >= 0) {
      close(end);
      end = -1;
    }
  }
  ~Pipe() {
    close_end(read);
    close_end(write);
  }
};

[[noreturn]] void become_program(const std::vector<std::string>& arguments, const ProgramSetup& setup, Pipe& in,
                                 Pipe& out, Pipe& err) {
  std::vector<char*> words = {const_cast<char*>(setup.program.empty() ? SLUICE_PROGRAM : setup.program.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const int to = setup.out_path.empty() ? out.write : open(setup.out_path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool ready =
      dup2(in.read, STDIN_FILENO) >= 0 && dup2(to, STDOUT_FILENO) >= 0 && dup2(err.write, STDERR_FILENO) >= 0;
  std::signal(SIGPIPE, SIG_DFL);
  setenv("XDG_STATE_HOME", setup.state_home.c_str(), 1);
  if (!setup.group.empty()) {
    const int group = open(setup.group.c_str(), O_WRONLY | O_CLOEXEC);
    if (write(group, "0", 1) != 1) _exit(126);  // 0: the writer itself
  }
  const rlimit room{setup.address_space, setup.address_space}, file{setup.file_size, setup.file_size};
  if (setup.file_size != 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &file) != 0) _exit(125);
  }
  if (ready && (setup.address_space == 0 || setrlimit(RLIMIT_AS, &room) == 0)) execv(words[0], words.data());
  _exit(127);
}

// Feeds and drains all pipes at once, so that none can block another.
void exchange(Pipe& in, Pipe& out, Pipe& err, const ProgramSetup& setup, pid_t child, ProgramResult& result) {
  std::string_view input = setup.input;
  bool waits = setup.signal != 0;
  while (out.read >= 0 || err.read >= 0) {
    if (waits && setup.when()) {
      kill(child, setup.signal);
      waits = false;
    }
    if (input.empty()) Pipe::close_end(in.write);
    pollfd ends[] = {{in.write, POLLOUT, 0}, {out.read, POLLIN, 0}, {err.read, POLLIN, 0}};
    if (poll(ends, 3, waits ? 1 : -1) < 0) {
      CHECK(errno == EINTR);
      continue;
    }
    if (ends[0].revents != 0) {
      const ssize_t written = write(in.write, input.data(), input.size());
      input = written < 0 ? "" : input.substr(static_cast<size_t>(written));
    }
    const auto drain = [](const pollfd& end, int& descriptor, std::string& into) {
      char piece[4096];
      if (end.revents == 0) return;
      const ssize_t got = read(descriptor, piece, sizeof piece);
      if (got > 0)
        into.append(piece, static_cast<size_t>(got));
      else
        Pipe::close_end(descriptor);
    };
    drain(ends[1], out.read, result.out);
    drain(ends[2], err.read, result.err);
  }
}

// Progress lines come after a second of work, so on a slow machine anywhere.
std::string without_progress(const std::string& text) {
  std::string kept;
  for (const std::string& line : split(text, '\n')) {
    bool progress = false;
    for (const char* doing :
         {"loading ", "reading the prompt  ", "verifying in ", "converting to ", "pulling ", "looking at models "}) {
      progress = progress || (starts_with(line, doing) && ends_with(line, " s"));
    }
    kept += progress ? "" : line + "\n";
  }
  kept.pop_back();  // split() gives one piece more than there are ends of lines
  return kept;
}

}  // namespace

ProgramResult run_sluice(const std::vector<std::string>& arguments, const ProgramSetup& setup) {
  if (setup.state_home.empty()) {
    const TemporaryFolder own;
    ProgramSetup with_folder = setup;
    with_folder.state_home = own.path();
    return run_sluice(arguments, with_folder);
  }
  std::signal(SIGPIPE, SIG_IGN);
  Pipe in, out, err;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) become_program(arguments, setup, in, out, err);
  Pipe::close_end(in.read);
  Pipe::close_end(out.write);
  Pipe::close_end(err.write);
  if (setup.close_out) Pipe::close_end(out.read);
  ProgramResult result;
  exchange(in, out, err, setup, child, result);
  result.err = without_progress(result.err);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path().string() + "/sluice-test-XXXXXX";
  CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::links(const std::string& name, const std::vector<std::string>& folders) const {
  namespace fs = std::filesystem;
  const fs::path whole = path(name);
  fs::create_directory(whole);
  for (const std::string& from : folders)
    for (const fs::directory_entry& file : fs::directory_iterator(from)) {
      const fs::path link = whole / file.path().filename();
      if (!fs::exists(link)) fs::create_symlink(fs::absolute(file.path()), link);
    }
  return whole;
}

}  // namespace sluice
