// The file of `sluice serve --models` from any bytes: a list of models with names of their own, or one sentence.
#include <set>
#include <string>

#include "app/serve/wanted_models.h"
#include "base/check.h"
#include "fuzz/files.h"

namespace sluice {
namespace {

// What the command has of options that the file or its reader names.
const CommandSpec& command() {
  static const CommandSpec spec = [] {
    CommandSpec made{.name = "serve", .positionals = {{.name = "MODEL", .repeated = true}}};
    for (const char* flag : {"--store", "--allow-store-changes"}) made.options.push_back({.name = flag});
    made.options.push_back({.name = "--keep-alive", .argument = "TIME", .kind = OptionKind::text, .fallback = "-1"});
    for (const char* number : {"--context", "--parallel", "--draft-tokens", "--image-tokens"})
      made.options.push_back({.name = number, .argument = "N", .kind = OptionKind::integer, .most = 1e6});
    made.options.push_back({.name = "--expert-memory", .argument = "BYTES", .kind = OptionKind::bytes});
    made.options.push_back({.name = "--cache", .argument = "f16|q8_0", .kind = OptionKind::choice});
    for (const char* text : {"--models", "--alias", "--mmproj", "--adapter", "--chat-template", "--draft", "--repack"})
      made.options.push_back({.name = text, .argument = "TEXT", .kind = OptionKind::text, .repeated = true});
    return made;
  }();
  return spec;
}

void check(const std::vector<WantedModel>& all) {
  CHECK(!all.empty());
  std::set<std::string> seen;
  for (const WantedModel& one : all) {
    CHECK(!one.model.empty() && !one.names.empty());
    for (const std::string& name : std::set<std::string>(one.names.begin(), one.names.end()))
      CHECK(seen.insert(name).second);
    if (one.arguments.given("--context")) CHECK(one.arguments.integer("--context") >= 0);
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;  // NOLINT(google-build-using-namespace)
  const fuzz::MemoryFile file({reinterpret_cast<const std::byte*>(data), size});
  const std::vector<std::string> words = {"--models", file.path()};
  const auto arguments = parse_arguments(command(), words);
  CHECK(arguments);
  if (const auto all = wanted_models(*arguments))
    check(*all);
  else
    CHECK(!all.error().text.empty() && all.error().text.find('\n') == std::string::npos);
  return 0;
}
