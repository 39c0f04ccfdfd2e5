// The program's entry: finds the command, runs it, and turns its result into an exit status and at most one sentence.
#include <csignal>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "app/cli/args.h"
#include "app/cli/console.h"
#include "app/cli/fatal_errors.h"
#include "app/cli/help.h"
#include "app/cli/interrupt.h"
#include "app/commands.h"
#include "base/suggest.h"

namespace sluice {
namespace {

int fail(Console& console, const std::string& text, int status) {
  console.err("sluice: " + text + "\n");
  return status;
}

bool is_help(const std::string& word) { return word == "--help" || word == "-h"; }

bool asks_for_help(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") return false;
    if (is_help(word)) return true;
  }
  return false;
}

int run_command(const CommandSpec& command, const std::vector<std::string>& words, Console& console) {
  if (asks_for_help(words)) {
    console.out(help_text(command, console.columns()));
    return 0;
  }
  const Result<Arguments> arguments = parse_arguments(command, words);
  if (!arguments) return fail(console, arguments.error().text, kUsageExit);
  const Status checked = command.check == nullptr ? Status() : command.check(*arguments, console);
  if (!checked) return fail(console, checked.error().text, kUsageExit);
  const Result<int> status = command.run(*arguments, console);
  if (status) return *status;
  return fail(console, status.error().text, interrupted() ? kInterruptedExit : kFailedExit);
}

int no_command(const std::string& name, Console& console) {
  const std::string near = did_you_mean(name, command_names());
  return fail(console,
              cat("no command ", printable(name), near, near.empty() ? ": want one that " : " (", "sluice --help lists",
                  near.empty() ? "" : " all)"),
              kUsageExit);
}

int dispatch(const std::vector<std::string>& words, Console& console) {
  if (words.empty()) {
    console.err(help_overview(console.columns()));
    return kUsageExit;
  }
  if (is_help(words[0])) {
    console.out(help_overview(console.columns()));
    return 0;
  }
  if (words[0] == "--version" || words[0] == "-V") {
    console.out("sluice " SLUICE_VERSION "\n");
    return 0;
  }
  const CommandSpec* command = find_command(words[0]);
  if (command == nullptr) return no_command(words[0], console);
  return run_command(*command, {words.begin() + 1, words.end()}, console);
}

int guarded_main(const std::vector<std::string>& words) {
  // A closed pipe is then a failed write, which ends the program quietly and after its files are cleaned up.
  std::signal(SIGPIPE, SIG_IGN);
  handle_fatal_errors();
  Console console;
  const int status = dispatch(words, console);
  if (!console.status() && status == 0) {
    const Error& failure = console.status().error();
    return failure.kind == ErrorKind::cancelled ? 0 : fail(console, failure.text, kFailedExit);
  }
  return status;
}

}  // namespace
}  // namespace sluice

int main(int count, char** words) {
  try {
    return sluice::guarded_main({words + (count > 0 ? 1 : 0), words + count});
  } catch (const std::bad_alloc&) {
    sluice::Console().err(sluice::kOutOfMemory);
    return sluice::kFailedExit;
  } catch (const std::system_error& failed) {  // of a thread
    sluice::Console().err(std::string("sluice: cannot start a thread: ") + failed.code().message() +
                          ": want fewer --threads, or a system that allows more\n");
    return sluice::kFailedExit;
  }
}
