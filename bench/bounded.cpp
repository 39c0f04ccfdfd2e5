// bounded LIBRARIES MODEL.gguf BYTES [THREADS [ANSWER [ROUNDS]]]: a model larger than memory in Sluice, which reads
// experts as they are chosen, and in llama.cpp, which maps the file: each in a process of its own, in turns, in one
// control group (version 1) of so many bytes. Both decode the same tokens, which Sluice samples; the first answer of a
// process warms up and does not count.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/random.h"
#include "base/text.h"
#include "base/threads.h"
#include "bench/peer_engine.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/cpu.h"
#include "engine/plan/memory_plan.h"
#include "engine/session.h"
#include "model/model.h"

namespace sluice {
namespace {

constexpr uint64_t kReserve =
    150'000'000;  // of the bound, for all that is not planned, the page cache's needs among it
constexpr uint32_t kPrompt = 16;

struct Setting {
  std::string libraries, path, group;
  uint64_t bytes = 0;
  uint32_t threads = 2, answer = 48, rounds = 3;
  uint32_t context() const { return (kPrompt + answer + 64) / 64 * 64; }
};

// What a process says of the answer that counts.
struct Report {
  double tokens_per_second = 0;
  std::vector<int32_t> tokens[2];  // of both answers, prompts included
};

std::vector<int32_t> prompt_of(uint32_t vocabulary, uint32_t seed) {
  std::vector<int32_t> tokens(kPrompt);
  for (uint32_t i = 0; i < kPrompt; ++i) tokens[i] = static_cast<int32_t>(philox4x32({i}, {seed})[0] % vocabulary);
  return tokens;
}

Result<Report> run_ours(const Setting& setting, uint32_t round) {
  TRY(Checkpoint checkpoint, open_checkpoint(setting.path));
  TRY(const Model model, resolve(std::make_shared<const Checkpoint>(std::move(checkpoint))));
  ThreadPool pool(setting.threads);
  const std::unique_ptr<Device> device = make_cpu_device({.pool = &pool});
  Budget budget;
  budget.set_limit(Domain::host, setting.bytes);
  budget.count_mapped(Domain::host, true);
  budget.set_reserve(Domain::host, kReserve);
  EngineOptions options{.repack = Repack::first, .context = setting.context(), .lease_rows = true};
  TRY(const MemoryPlan plan, plan_memory(model, weight_files(model), *device, budget, setting.bytes, options));
  TRY_STATUS(check_floor(plan));
  options.prompt_chunk = plan.prompt_chunk;
  options.experts.bytes = plan.slot_memory();
  TRY(const std::unique_ptr<Engine> engine, Engine::create(model, *device, budget, options));
  Report report;
  for (uint32_t i = 0; i < 2; ++i) {
    Request request;
    request.prompt = report.tokens[i] = prompt_of(model.facts().vocabulary, 2 * round + i);
    request.max_tokens = setting.answer + 1;  // the first comes with the prompt
    request.sampling.temperature = 1;
    request.sampling.seed = round;
    const std::optional<ExpertStats> before = engine->expert_stats();
    Session session(*engine);
    TRY(const Answer answer, session.run(std::move(request)));
    for (const SampleResult& token : answer.tokens) report.tokens[i].push_back(token.token);
    report.tokens_per_second = (static_cast<double>(answer.tokens.size()) - 1) / answer.answer_seconds;
    const std::optional<ExpertStats> after = engine->expert_stats();
    if (i == 0 || !after) continue;
    const double uses = static_cast<double>(after->uses - before->uses);
    const double seconds = answer.prompt_seconds + answer.answer_seconds;
    std::printf("  Sluice: %.1f %% of %.0f uses in %llu slots for %llu experts, %.2f GB/s read, waited %.0f %%\n",
                100 - 100 * static_cast<double>(after->misses - before->misses) / uses, uses,
                static_cast<unsigned long long>(after->slots), static_cast<unsigned long long>(after->experts),
                static_cast<double>(after->read_bytes - before->read_bytes) / seconds / 1e9,
                100 * (after->waited_seconds - before->waited_seconds) / seconds);
  }
  return report;
}

Result<Report> run_theirs(const Setting& setting, const Report& ours) {
  const Peer peer(setting.libraries, setting.path, static_cast<int32_t>(setting.threads), setting.context(),
                  /*repack=*/false);
  if (!peer.ok()) return error(ErrorKind::invalid, setting.path, ": llama.cpp does not open it");
  Report report;
  for (const std::vector<int32_t>& tokens : ours.tokens) {
    const auto answer = static_cast<uint32_t>(tokens.size()) - kPrompt - 1;
    report.tokens_per_second = peer.run(tokens, {.prompt = kPrompt, .answer = answer}).answer;
  }
  return report;
}

// Pages that another group brought into the page cache would not count in ours.
void drop_pages(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0)
    std::fprintf(stderr, "bounded: %s stays in the page cache\n", path.c_str());
  close(file);
}

// Runs `work` in a process in the group, and gives what it reports.
template <class Work>
Report in_group(const Setting& setting, const Work& work) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  drop_pages(setting.path);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    std::ofstream(setting.group + "/cgroup.procs") << getpid() << std::flush;
    const Result<Report> report = work();
    if (!report) {
      std::fprintf(stderr, "%s\n", report.error().text.c_str());
      std::_Exit(1);
    }
    FILE* const to = fdopen(ends[1], "w");
    std::fprintf(to, "%.6f", report->tokens_per_second);
    for (const std::vector<int32_t>& tokens : report->tokens) {
      std::fprintf(to, " %zu", tokens.size());
      for (const int32_t token : tokens) std::fprintf(to, " %d", token);
    }
    std::fclose(to);
    std::fflush(stdout);
    std::_Exit(0);
  }
  close(ends[1]);
  FILE* const from = fdopen(ends[0], "r");
  Report report;
  bool whole = std::fscanf(from, "%lf", &report.tokens_per_second) == 1;
  for (std::vector<int32_t>& tokens : report.tokens) {
    size_t count = 0;
    whole = whole && std::fscanf(from, "%zu", &count) == 1;
    tokens.resize(count);
    for (int32_t& token : tokens) whole = whole && std::fscanf(from, "%d", &token) == 1;
  }
  std::fclose(from);
  int status = 0;
  waitpid(child, &status, 0);
  if (!whole || status != 0) {
    std::fprintf(stderr, "bounded: a process ended with status %d\n", status);
    rmdir(setting.group.c_str());
    std::exit(1);
  }
  return report;
}

void compare(const Setting& setting) {
  std::vector<double> ratios;
  for (uint32_t round = 0; round < setting.rounds; ++round) {
    const Report ours = in_group(setting, [&] { return run_ours(setting, round); });
    const Report theirs = in_group(setting, [&] { return run_theirs(setting, ours); });
    ratios.push_back(ours.tokens_per_second / theirs.tokens_per_second);
    std::printf("round %u: %.2f against %.2f tokens/s, %.2f times\n", round, ours.tokens_per_second,
                theirs.tokens_per_second, ratios.back());
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("Sluice at %.2f times llama.cpp's speed (%.2f to %.2f over %zu rounds)\n", ratios[ratios.size() / 2],
              ratios.front(), ratios.back(), ratios.size());
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc < 4 || argc > 7) {
    std::fprintf(stderr, "bounded LIBRARIES MODEL.gguf BYTES [THREADS [ANSWER [ROUNDS]]]\n");
    return 2;
  }
  const auto number = [&](int i, int otherwise) {
    return static_cast<uint32_t>(argc > i ? std::max(1, std::atoi(argv[i])) : otherwise);
  };
  const sluice::Setting setting{.libraries = argv[1],
                                .path = argv[2],
                                .group = sluice::cat("/sys/fs/cgroup/memory/sluice_bounded_", getpid()),
                                .bytes = std::strtoull(argv[3], nullptr, 10),
                                .threads = number(4, 2),
                                .answer = number(5, 48),
                                .rounds = number(6, 3)};
  if (mkdir(setting.group.c_str(), 0755) != 0 ||
      !(std::ofstream(setting.group + "/memory.limit_in_bytes") << setting.bytes << std::flush)) {
    std::fprintf(stderr, "bounded: %s: no control group (version 1) for memory\n", setting.group.c_str());
    return 1;
  }
  sluice::compare(setting);
  rmdir(setting.group.c_str());
  return 0;
}
