// versus LIBRARIES MODEL.gguf [THREADS [PROMPT [ANSWER [ROUNDS]]]]: one file in Sluice and in llama.cpp, turn by turn
// in one process: reads a prompt, then decodes, with both; prints tokens/s and the ratio of every round, and at the end
// the median ratios with their spread.
//
// The peer is the library inside the npm package (tests/peer/library.h), called through its C interface, with its own
// best settings: flash attention, its weights repacked, as many threads. Both compute f16 caches. Every round has other
// tokens, so that no cache of a prompt helps anybody. Pin the process (taskset) for steady numbers.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/random.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/cpu.h"
#include "engine/session.h"
#include "model/model.h"
#include "tests/peer/library.h"

namespace sluice {
namespace {

struct Lengths {
  uint32_t prompt = 512, answer = 64;
};
struct Speeds {
  double prompt = 0, answer = 0;  // tokens/s
};

class Watch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

// llama_context_params, as far as it is set here.
struct ContextParams {
  uint32_t n_ctx, n_batch, n_ubatch, n_seq_max, n_rs_seq, n_outputs_max, n_outputs_max_per_seq;
  int32_t n_threads, n_threads_batch;
  int32_t ctx_type, rope_scaling_type, pooling_type, attention_type, flash_attn_type;
  float rope_freq_base, rope_freq_scale, yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
  uint32_t yarn_orig_ctx;
  float defrag_thold;
  void *cb_eval, *cb_eval_user_data;
  int32_t type_k, type_v;
  void *abort_callback, *abort_callback_data;
  bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
  void* samplers;
  size_t n_samplers;
  void* ctx_other;
};
static_assert(sizeof(ContextParams) == 160);

// llama_batch
struct Batch {
  int32_t n_tokens;
  int32_t* token;
  float* embd;
  int32_t *pos, *n_seq_id;
  int32_t** seq_id;
  int8_t* logits;
};

class Peer {
 public:
  Peer(const std::string& folder, const std::string& model, int32_t threads, uint32_t context)
      : base_(folder + "/libggml.v0.5.0.so"), library_(folder + "/libllama.v0.5.0.so") {
    library_.get<void(void (*)(int, const char*, void*), void*)>("llama_log_set")([](int, const char*, void*) {},
                                                                                  nullptr);
    base_.get<void(const char*)>("ggml_backend_load_all_from_path")(folder.c_str());
    const auto params = library_.get<peer::ModelParams()>("llama_model_default_params")();
    void* loaded =
        library_.get<void*(const char*, peer::ModelParams)>("llama_model_load_from_file")(model.c_str(), params);
    if (loaded == nullptr) return;
    auto settings = library_.get<ContextParams()>("llama_context_default_params")();
    settings.n_ctx = context;
    settings.n_threads = settings.n_threads_batch = threads;
    settings.flash_attn_type = 1;  // enabled
    context_ = library_.get<void*(void*, ContextParams)>("llama_init_from_model")(loaded, settings);
  }
  bool ok() const { return context_ != nullptr; }

  Speeds run(std::vector<int32_t> tokens, const Lengths& lengths) const {
    library_.get<void(void*, bool)>("llama_memory_clear")(library_.get<void*(void*)>("llama_get_memory")(context_),
                                                          true);
    Speeds speeds;
    const Watch prompt;
    decode(tokens.data(), static_cast<int32_t>(lengths.prompt));
    speeds.prompt = lengths.prompt / prompt.seconds();
    const Watch answer;
    for (uint32_t i = 0; i < lengths.answer; ++i) decode(tokens.data() + lengths.prompt + i, 1);
    speeds.answer = lengths.answer / answer.seconds();
    return speeds;
  }

 private:
  void decode(int32_t* tokens, int32_t count) const {
    const Batch batch = library_.get<Batch(int32_t*, int32_t)>("llama_batch_get_one")(tokens, count);
    const int32_t status = library_.get<int32_t(void*, Batch)>("llama_decode")(context_, batch);
    library_.get<void(void*)>("llama_synchronize")(context_);
    if (status == 0) return;
    std::fprintf(stderr, "the peer's llama_decode failed: %d\n", status);
    std::exit(1);
  }

  peer::Library base_, library_;
  void* context_ = nullptr;
};

Result<Speeds> run(Engine& engine, const std::vector<int32_t>& tokens, const Lengths& lengths) {
  Session session(engine);
  Request request;
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

Status compare(const std::string& libraries, const std::string& path, int32_t threads, const Lengths& lengths,
               uint32_t rounds) {
  const uint32_t context = (lengths.prompt + lengths.answer + 64) / 64 * 64;
  const Peer peer(libraries, path, threads, context);
  if (!peer.ok()) return error(ErrorKind::invalid, path, ": llama.cpp does not open it");
  TRY(Checkpoint checkpoint, open_checkpoint(path));
  TRY(const Model model, resolve(std::make_shared<const Checkpoint>(std::move(checkpoint))));
  ThreadPool pool(static_cast<uint32_t>(threads));
  const std::unique_ptr<Device> device = make_cpu_device({.pool = &pool});
  Budget budget;
  TRY(const std::unique_ptr<Engine> engine, Engine::create(model, *device, budget, {.context = context}));
  std::vector<double> prompt, answer;
  for (uint32_t round = 0; round <= rounds; ++round) {  // the first warms up
    const auto tokens = random_tokens(lengths.prompt + lengths.answer, model.facts().vocabulary, round);
    TRY(const Speeds ours, run(*engine, tokens, lengths));
    const Speeds theirs = peer.run(tokens, lengths);
    std::printf("%s prompt %8.1f against %8.1f tokens/s, answer %7.2f against %7.2f\n",
                round == 0 ? "warm-up" : "round  ", ours.prompt, theirs.prompt, ours.answer, theirs.answer);
    if (round == 0) continue;
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
  if (argc < 3 || argc > 7) {
    std::fprintf(stderr, "versus LIBRARIES MODEL.gguf [THREADS [PROMPT [ANSWER [ROUNDS]]]]\n");
    return 2;
  }
  const auto number = [&](int i, int otherwise) { return argc > i ? std::max(1, std::atoi(argv[i])) : otherwise; };
  const sluice::Lengths lengths{static_cast<uint32_t>(number(4, 512)), static_cast<uint32_t>(number(5, 64))};
  const sluice::Status status =
      sluice::compare(argv[1], argv[2], number(3, 2), lengths, static_cast<uint32_t>(number(6, 5)));
  if (!status) {
    std::fprintf(stderr, "%s\n", status.error().text.c_str());
    return 1;
  }
  return 0;
}
