// peer_greedy MODEL GOLDEN.json [ADAPTER]: the greedy tokens Sluice goes on with after every text and chat prompt of a
// golden, as `sluice run` would compute them: {"case": [ids]}. For models.mjs.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/args.h"
#include "app/cli/console.h"
#include "app/open/open.h"
#include "app/verify/golden.h"
#include "app/verify/verify_case.h"

namespace sluice {
namespace {

Result<Json> greedy_tokens(const std::string& path, const std::string& golden_path, const char* adapter_path) {
  TRY(const Golden golden, Golden::open(golden_path));
  const CommandSpec command{.name = "peer_greedy", .summary = "", .options = device_options()};
  TRY(const Arguments arguments, parse_arguments(command, {}));
  TRY(Machine machine, open_machine(arguments));
  TRY(const Model model, open_model(path));
  Console console;
  EngineOptions options;
  options.arithmetic = Arithmetic::fast;
  AdapterSum adapters;
  if (adapter_path != nullptr) {
    TRY(std::shared_ptr<const Adapter> adapter, Adapter::open(model, adapter_path));
    adapters.push_back({.adapter = std::move(adapter)});
    options.adapters = {adapters};
  }
  TRY(const std::unique_ptr<Engine> engine, open_engine(model, *machine.device, machine, options, console));
  Json out = Json::Object{};
  for (const GoldenCase& one : golden.cases()) {
    if (reason_not_run(one.kind) || one.greedy.empty()) continue;
    GoldenCase prompt = one;
    prompt.perplexity.reset();  // no logits are wanted
    prompt.positions.clear();
    TRY(const GoldenRun run, run_case(*engine, prompt, {}, adapters, model.facts().vocabulary));
    Json::Array tokens;
    for (const int32_t token : run.greedy) tokens.emplace_back(int64_t{token});
    out.add(one.name, std::move(tokens));
  }
  return out;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "peer_greedy MODEL GOLDEN.json [ADAPTER]\n");
    return 2;
  }
  const auto tokens = sluice::greedy_tokens(argv[1], argv[2], argv[3]);
  if (!tokens) {
    std::fprintf(stderr, "%s\n", tokens.error().text.c_str());
    return 1;
  }
  std::printf("%s\n", sluice::write_json(*tokens).c_str());
  return 0;
}
