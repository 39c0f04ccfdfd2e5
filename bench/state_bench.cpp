// state_bench MODEL FOLDER [TOKENS [ROUNDS [THREADS]]]: what states on disk cost and give.
//
// First a prompt of TOKENS is computed and kept in FOLDER, and read back by an engine that was never there: the times
// to the first token. Then, in turns, the saving and loading of its state beside what the same bytes take otherwise: a
// copy in memory, a plain write with its sync, a plain read from the page cache and one from the disk. Medians of
// ROUNDS.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/cpu.h"
#include "engine/session.h"
#include "engine/state/state_store.h"
#include "model/model.h"

namespace sluice {
namespace {

constexpr size_t kPiece = size_t{1} << 20;

struct Setting {
  std::string model, folder;
  uint32_t tokens = 4000, rounds = 5, threads = 1;
};

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Run {
  Run(const Model& model, const Setting& setting, StateStore* states) : pool(setting.threads) {
    device = make_cpu_device({.pool = &pool});
    EngineOptions options;
    options.context = setting.tokens + 128;
    options.cache_positions = uint64_t{3} * options.context;  // a loaded state beside the first
    options.states = states;
    auto made = Engine::create(model, *device, budget, options);
    CHECK(made);
    engine = *std::move(made);
  }
  Budget budget;
  ThreadPool pool;
  std::unique_ptr<Device> device;
  std::unique_ptr<Engine> engine;
};

Request prompt_of(const Model& model, uint32_t tokens) {
  Request request;
  for (uint32_t i = 0; i < tokens; ++i)
    request.prompt.push_back(static_cast<int32_t>((uint64_t{i} * i + 7 * i) % model.facts().vocabulary));
  request.max_tokens = 1;
  request.sampling.temperature = 0;
  request.keep_sequence = true;
  return request;
}

// Seconds to the first token; the state is kept afterwards.
double first_token(const Model& model, const Setting& setting) {
  StateStore states(join_path(setting.folder, "states"), uint64_t{1} << 40);
  Run run(model, setting, &states);
  Session session(*run.engine);
  const Result<Answer> answer = session.run(prompt_of(model, setting.tokens));
  CHECK(answer);
  std::printf("%u tokens, %u of them from the folder: first token after %.4f s\n", answer->prompt_tokens,
              answer->restored_tokens, answer->prompt_seconds);
  for (const std::string& note : states.take_notes()) std::printf("%s\n", note.c_str());
  return answer->prompt_seconds;
}

// Bytes in memory, written and read plainly.
class Plain {
 public:
  Plain(const std::string& path, size_t bytes) : path_(path), bytes_(bytes, std::byte{1}), copy_(bytes, std::byte{2}) {}
  ~Plain() { std::remove(path_.c_str()); }
  void copy() { std::memcpy(copy_.data(), bytes_.data(), bytes_.size()); }
  void write() const {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (size_t at = 0; at < bytes_.size(); at += kPiece) {
      const size_t count = std::min(kPiece, bytes_.size() - at);
      CHECK(::write(file, bytes_.data() + at, count) == static_cast<ssize_t>(count));
    }
    CHECK(::fsync(file) == 0 && ::close(file) == 0);
  }
  void read() {
    const int file = ::open(path_.c_str(), O_RDONLY);
    for (size_t at = 0; at < bytes_.size(); at += kPiece) {
      const size_t count = std::min(kPiece, bytes_.size() - at);
      CHECK(::pread(file, copy_.data() + at, count, static_cast<off_t>(at)) == static_cast<ssize_t>(count));
    }
    ::close(file);
  }

 private:
  std::string path_;
  std::vector<std::byte> bytes_, copy_;
};

// The next reader takes it from the disk.
void drop_from_cache(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  CHECK(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
  ::close(file);
}

void compare_rates(const Model& model, const Setting& setting) {
  Run run(model, setting, nullptr);
  const RequestId id = *run.engine->submit(prompt_of(model, setting.tokens));
  while (run.engine->step() != StepState::idle) {
  }
  const SequenceId sequence = run.engine->collect(id)->sequence;
  const std::string saved = join_path(setting.folder, "saved.state"), plain_path = join_path(setting.folder, "plain");
  CHECK(run.engine->save(sequence, saved));
  const auto bytes = static_cast<size_t>(std::filesystem::file_size(saved));
  Plain plain(plain_path, bytes);
  const auto load = [&] {
    std::string note;
    const Result<SequenceId> loaded = run.engine->load(saved, &note);
    CHECK(loaded && note.empty());
    CHECK(run.engine->close(*loaded));
  };
  std::vector<double> copy, write, save, read, load_warm, read_cold, load_cold;
  for (uint32_t i = 0; i < setting.rounds; ++i) {
    copy.push_back(seconds_of([&] { plain.copy(); }));
    write.push_back(seconds_of([&] { plain.write(); }));
    save.push_back(seconds_of([&] { CHECK(run.engine->save(sequence, saved)); }));
    CHECK(std::filesystem::file_size(saved) == bytes);
    read.push_back(seconds_of([&] { plain.read(); }));
    load_warm.push_back(seconds_of(load));
    drop_from_cache(plain_path);
    drop_from_cache(saved);
    read_cold.push_back(seconds_of([&] { plain.read(); }));
    load_cold.push_back(seconds_of(load));
  }
  std::remove(saved.c_str());
  const auto rate = [&](const std::vector<double>& seconds) {
    return static_cast<double>(bytes) / median(seconds) / 1e9;
  };
  std::printf("state of %.1f MB; GB/s, medians of %u rounds\n", static_cast<double>(bytes) / 1e6, setting.rounds);
  std::printf("copy in memory   %6.2f\n", rate(copy));
  std::printf("write and sync   %6.2f   save %6.2f   ratio %.2f\n", rate(write), rate(save), rate(save) / rate(write));
  std::printf("read from cache  %6.2f   load %6.2f   ratio %.2f, to the copy %.2f\n", rate(read), rate(load_warm),
              rate(load_warm) / rate(read), rate(load_warm) / rate(copy));
  std::printf("read from disk   %6.2f   load %6.2f   ratio %.2f\n", rate(read_cold), rate(load_cold),
              rate(load_cold) / rate(read_cold));
}

int bench(const Setting& setting) {
  Result<Checkpoint> checkpoint = open_checkpoint(setting.model);
  if (!checkpoint) {
    std::fprintf(stderr, "state_bench: %s\n", checkpoint.error().text.c_str());
    return 1;
  }
  const Result<Model> model = resolve(std::make_shared<const Checkpoint>(*std::move(checkpoint)));
  CHECK(model);
  std::filesystem::create_directories(setting.folder);
  std::filesystem::remove_all(join_path(setting.folder, "states"));
  const double computed = first_token(*model, setting);
  std::vector<double> again;
  for (uint32_t i = 0; i < setting.rounds; ++i) again.push_back(first_token(*model, setting));
  const double restored = median(again);
  std::printf("restored / computed: %.4f\n", restored / computed);
  compare_rates(*model, setting);
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int count, char** words) {
  if (count < 3) {
    std::fprintf(stderr, "usage: state_bench MODEL FOLDER [TOKENS [ROUNDS [THREADS]]]\n");
    return 2;
  }
  const auto number = [&](int at, uint32_t without) {
    return count > at ? static_cast<uint32_t>(std::strtoul(words[at], nullptr, 10)) : without;
  };
  return sluice::bench({.model = words[1],
                        .folder = words[2],
                        .tokens = number(3, 4000),
                        .rounds = std::max(1u, number(4, 5)),
                        .threads = std::max(1u, number(5, 1))});
}
