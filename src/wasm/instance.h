// One model in a page: its device, its engine, its text, and the answer that is being made.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/json.h"
#include "base/threads.h"
#include "chat/text_parts.h"
#include "device/device.h"
#include "device/webgpu/webgpu.h"
#include "engine/engine.h"
#include "wasm/answer_reader.h"

namespace sluice::wasm {

class Instance {
 public:
  // As sluice_open takes them.
  static Result<std::unique_ptr<Instance>> open(const Json& options);

  // Uploads some more of the model to the GPU.
  Result<Json> load();
  Json describe() const;
  std::vector<int32_t> encode(std::string_view text) const { return text_.tokenizer.encode(text); }
  std::string decode(std::span<const int32_t> tokens) const { return text_.tokenizer.decode(tokens); }
  Result<std::string> render(const Json& chat) const;
  Result<std::vector<int32_t>> read_answer(const Json& reading);
  Result<Json> read_tokens(std::span<const int32_t> tokens);

  Status submit(const Json& request);
  StepState step() { return engine_->step(); }
  void cancel();
  Result<Json> collect();
  const std::vector<float>& logits() const { return logits_; }

  Status truncate(SequenceId sequence, size_t tokens) { return engine_->truncate(sequence, tokens); }
  Status forget(SequenceId sequence) { return engine_->close(sequence); }
  // As a file has it; none while the GPU brings it.
  Result<std::optional<std::string>> save(SequenceId sequence);
  Result<Json> restore(std::span<const std::byte> state);
  Json stats() const;

 private:
  Status make_device(const std::string& name, std::unique_ptr<webgpu::HostFactory> page_gpu);
  Status fit_memory(uint64_t memory, EngineOptions& options);
  Instance(Model model, TextParts text) : model_(std::move(model)), text_(std::move(text)) {}

  Model model_;
  TextParts text_;
  std::unique_ptr<AnswerReader> reader_;
  Budget budget_;
  ThreadPool pool_{1};
  std::unique_ptr<Device> device_;
  WebGpuDevice* gpu_ = nullptr;  // device_, where it is one
  bool loaded_ = true;
  std::unique_ptr<Engine> engine_;
  std::optional<RequestId> running_;
  bool saving_ = false;  // the GPU brings a state
  std::vector<float> logits_;
};

}  // namespace sluice::wasm
