// llama.cpp's library as an engine to measure beside ours.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/peer/library.h"

namespace sluice {

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

// The file in a folder whose name begins and ends so; builds for other devices have the device's name between.
inline std::string library_in(const std::string& folder, const std::string& begin) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(begin) && name.ends_with("v0.5.0.so")) return entry.path();
  }
  return folder + "/" + begin + "v0.5.0.so";
}

class Peer {
 public:
  // `repack`: its weights, into memory of its own; else they stay where the file is mapped. A build for GPUs has all
  // layers there.
  Peer(const std::string& folder, const std::string& model, int32_t threads, uint32_t context, bool repack = true)
      : base_(library_in(folder, "libggml.")), library_(library_in(folder, "libllama.")) {
    library_.get<void(void (*)(int, const char*, void*), void*)>("llama_log_set")([](int, const char*, void*) {},
                                                                                  nullptr);
    base_.get<void(const char*)>("ggml_backend_load_all_from_path")(folder.c_str());
    auto params = library_.get<peer::ModelParams()>("llama_model_default_params")();
    params.use_extra_bufts = repack;
    void* loaded =
        library_.get<void*(const char*, peer::ModelParams)>("llama_model_load_from_file")(model.c_str(), params);
    if (loaded == nullptr) return;
    auto settings = library_.get<ContextParams()>("llama_context_default_params")();
    settings.n_ctx = context;
    settings.n_batch = context;  // or llama_decode() aborts on a prompt that is longer
    settings.n_threads = settings.n_threads_batch = threads;
    settings.flash_attn_type = 1;  // enabled
    context_ = library_.get<void*(void*, ContextParams)>("llama_init_from_model")(loaded, settings);
    model_ = loaded;
  }
  // Adds an adapter in llama.cpp's format to all that follows. Whether it could.
  bool add_adapter(const std::string& path) {
    void* adapter = library_.get<void*(void*, const char*)>("llama_adapter_lora_init")(model_, path.c_str());
    float scale = 1;
    using Set = int32_t(void*, void**, size_t, float*);
    return adapter != nullptr && library_.get<Set>("llama_set_adapters_lora")(context_, &adapter, 1, &scale) == 0;
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
  void *model_ = nullptr, *context_ = nullptr;
};

}  // namespace sluice
