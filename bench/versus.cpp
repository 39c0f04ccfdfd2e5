// versus LIBRARIES MODEL.gguf [THREADS [PROMPT [ANSWER [ROUNDS [never | WEBGPU]]]]] [--adapter FILE.gguf]: one file in
// Sluice and in llama.cpp, turn by turn in one process: reads a prompt, then decodes, with both; prints tokens/s and
// the ratio of every round, how long each took from opening the file to the first token, and at the end the median
// ratios with their spread. never: Sluice repacks no weights. WEBGPU: the library through which it computes on the GPU,
// where LIBRARIES are the peer's for Vulkan. --adapter: both add this adapter to the model.
//
// The peer is the library inside the npm package (tests/peer/library.h), called through its C interface, with its own
// best settings: flash attention, its weights repacked, as many threads. Both compute f16 caches. Every round has other
// tokens, so that no cache of a prompt helps anybody. Pin the process (taskset) for steady numbers.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/random.h"
#include "base/threads.h"
#include "bench/peer_engine.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/cpu.h"
#include "device/webgpu/webgpu.h"
#include "engine/plan/memory_plan.h"
#include "engine/session.h"
#include "model/model.h"

namespace sluice {
namespace {

Result<Speeds> run(Engine& engine, const std::vector<int32_t>& tokens, const Lengths& lengths,
                   const AdapterSum& adapters) {
  Session session(engine);
  Request request;
  request.adapters = adapters;
  request.prompt.assign(tokens.begin(), tokens.begin() + lengths.prompt);
  request.max_tokens = lengths.answer + 1;  // the first comes with the prompt
  request.sampling.temperature = 0;
  TRY(const Answer answer, session.run(std::move(request)));
  return Speeds{lengths.prompt / answer.prompt_seconds, lengths.answer / answer.answer_seconds};
}

std::vector<int32_t> random_tokens(size_t count, uint32_t vocabulary, uint32_t seed) {
  std::vector<int32_t> tokens(count);
  for (uint32_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>(philox4x32({i}, {seed})[0] % vocabulary);
  return tokens;
}

void print_spread(const char* what, std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  std::printf("%s: Sluice at %.2f times llama.cpp's speed (%.2f to %.2f over %zu rounds)\n", what,
              ratios[ratios.size() / 2], ratios.front(), ratios.back(), ratios.size());
}

struct Setting {
  int32_t threads = 2;
  Lengths lengths{};
  uint32_t rounds = 5;
  Repack repack = Repack::first;
  std::string webgpu{};   // its library; empty: the processor computes
  std::string adapter{};  // empty: none
};

Result<std::unique_ptr<Device>> make_device(const Setting& setting, ThreadPool& pool) {
  if (!setting.webgpu.empty()) {
    TRY(std::unique_ptr<WebGpuDevice> gpu, make_webgpu_device({.libraries = {setting.webgpu}}));
    return std::unique_ptr<Device>(std::move(gpu));
  }
  return std::unique_ptr<Device>(make_cpu_device({.pool = &pool}));
}

Status compare(const std::string& libraries, const std::string& path, const Setting& setting) {
  const Lengths& lengths = setting.lengths;
  const uint32_t context = (lengths.prompt + lengths.answer + 64) / 64 * 64;
  const Watch opening_theirs;
  Peer peer(libraries, path, setting.threads, context);
  if (!peer.ok()) return error(ErrorKind::invalid, path, ": llama.cpp does not open it");
  if (!setting.adapter.empty() && !peer.add_adapter(setting.adapter))
    return error(ErrorKind::invalid, setting.adapter, ": llama.cpp does not open it");
  const double opened_theirs = opening_theirs.seconds();
  const Watch opening;
  TRY(Checkpoint checkpoint, open_checkpoint(path));
  TRY(const Model model, resolve(std::make_shared<const Checkpoint>(std::move(checkpoint))));
  ThreadPool pool(static_cast<uint32_t>(setting.threads));
  TRY(const std::unique_ptr<Device> device, make_device(setting, pool));
  Budget budget;
  EngineOptions options{.repack = setting.repack, .context = context};
  TRY(const Program program, model.record_text());
  options.prompt_chunk = suited_chunk(device->info(), program);
  AdapterSum adapters;
  if (!setting.adapter.empty()) {
    TRY(std::shared_ptr<const Adapter> adapter, Adapter::open(model, setting.adapter));
    adapters.push_back({.adapter = std::move(adapter)});
    options.adapters = {adapters};
  }
  TRY(const std::unique_ptr<Engine> engine, Engine::create(model, *device, budget, std::move(options)));
  const double opened = opening.seconds();
  std::vector<double> prompt, answer;
  for (uint32_t round = 0; round <= setting.rounds; ++round) {  // the first warms up
    const auto tokens = random_tokens(lengths.prompt + lengths.answer, model.facts().vocabulary, round);
    TRY(const Speeds ours, run(*engine, tokens, lengths, adapters));
    const Speeds theirs = peer.run(tokens, lengths);
    std::printf("%s prompt %8.1f against %8.1f tokens/s, answer %7.2f against %7.2f\n",
                round == 0 ? "warm-up" : "round  ", ours.prompt, theirs.prompt, ours.answer, theirs.answer);
    if (round == 0) {
      std::printf("first token of %u after %.2f s against %.2f\n", lengths.prompt,
                  opened + lengths.prompt / ours.prompt, opened_theirs + lengths.prompt / theirs.prompt);
      continue;
    }
    prompt.push_back(ours.prompt / theirs.prompt);
    answer.push_back(ours.answer / theirs.answer);
  }
  print_spread("prompt", prompt);
  print_spread("answer", answer);
  return {};
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  std::string adapter;
  if (argc > 3 && std::string(argv[argc - 2]) == "--adapter") {
    adapter = argv[argc - 1];
    argc -= 2;
  }
  if (argc < 3 || argc > 8) {
    std::fprintf(stderr,
                 "versus LIBRARIES MODEL.gguf [THREADS [PROMPT [ANSWER [ROUNDS [never | WEBGPU]]]]] "
                 "[--adapter FILE.gguf]\n");
    return 2;
  }
  const auto number = [&](int i, int otherwise) { return argc > i ? std::max(1, std::atoi(argv[i])) : otherwise; };
  const std::string last = argc == 8 ? argv[7] : "";
  const sluice::Setting setting{
      .threads = number(3, 2),
      .lengths = {static_cast<uint32_t>(number(4, 512)), static_cast<uint32_t>(number(5, 64))},
      .rounds = static_cast<uint32_t>(number(6, 5)),
      .repack = last == "never" ? sluice::Repack::never : sluice::Repack::first,
      .webgpu = last == "never" ? "" : last,
      .adapter = adapter};
  const sluice::Status status = sluice::compare(argv[1], argv[2], setting);
  if (!status) {
    std::fprintf(stderr, "%s\n", status.error().text.c_str());
    return 1;
  }
  return 0;
}
