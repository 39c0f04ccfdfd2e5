// The peer's libraries, opened at run time: what of llama.cpp's C interface the comparisons call, as declared in its
// include/llama.h and ggml/include/ggml.h of v0.5.0, which package.json pins.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace sluice::peer {

class Library {
 public:
  // Ends the program when the file cannot be opened.
  explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    if (handle_ == nullptr) fail(dlerror());
  }
  // nullptr when there is no function of that name.
  template <class Function>
  Function* find(const std::string& name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name.c_str()));
  }
  template <class Function>
  Function* get(const std::string& name) const {
    Function* found = find<Function>(name);
    if (found == nullptr) fail(("the peer has no " + name).c_str());
    return found;
  }

 private:
  [[noreturn]] static void fail(const char* text) {
    std::fprintf(stderr, "%s\n", text);
    std::exit(1);
  }
  void* handle_;
};

// llama_model_params. Only vocab_only is set here; the rest keeps the library's defaults.
struct ModelParams {
  void* devices;
  const void* tensor_buft_overrides;
  int32_t n_gpu_layers, split_mode, load_mode, lazy_mode, main_gpu;
  const float* tensor_split;
  void* progress_callback;
  void* progress_callback_user_data;
  const void* kv_overrides;
  bool vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc, load_mtp;
};
static_assert(offsetof(ModelParams, tensor_split) == 40 && offsetof(ModelParams, vocab_only) == 72);

}  // namespace sluice::peer
