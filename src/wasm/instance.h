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
#include "device/device.h"
#include "engine/engine.h"
#include "engine/text_files.h"

namespace sluice::wasm {

class Instance {
 public:
  // As sluice_open takes them.
  static Result<std::unique_ptr<Instance>> open(const Json& options);

  Json describe() const;
  std::vector<int32_t> encode(std::string_view text) const { return text_.tokenizer.encode(text); }
  std::string decode(std::span<const int32_t> tokens) const { return text_.tokenizer.decode(tokens); }
  Result<std::string> render(const Json& chat) const;

  Status submit(const Json& request);
  void step() { engine_->step(); }
  Result<Json> collect();
  const std::vector<float>& logits() const { return logits_; }

 private:
  Instance(Model model, TextParts text) : model_(std::move(model)), text_(std::move(text)) {}

  Model model_;
  TextParts text_;
  Budget budget_;
  ThreadPool pool_{1};
  std::unique_ptr<Device> device_;
  std::unique_ptr<Engine> engine_;
  std::optional<RequestId> running_;
  std::vector<float> logits_;
};

}  // namespace sluice::wasm
