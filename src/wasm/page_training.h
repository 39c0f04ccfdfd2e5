// An adapter that a page teaches its model. Nothing waits: the page calls go_on() until it says that training has
// finished, and lets its GPU settle in between.
//
// The adapter is that of src/train, written to the module's own files. It is there after every step, so a page may stop
// at any time and keep what was learnt.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/json.h"
#include "base/result.h"
#include "chat/open_model.h"
#include "chat/training_data.h"
#include "device/device.h"
#include "train/trainer.h"

namespace sluice::wasm {

class PageTraining {
 public:
  // What sluice_examples replies.
  static Result<Json> look_at(const ChatModel& chat, const Json& options);
  // Reads options as sluice_train takes them, and takes little memory. `chat` outlives it.
  static Result<std::unique_ptr<PageTraining>> prepare(const ChatModel& chat, const Json& options);
  ~PageTraining();

  // Takes the memory of training. Device, pool and budget outlive it.
  Status begin(Device& device, ThreadPool& pool, Budget& budget);
  Json describe() const;  // what sluice_train replies
  // What sluice_train_on replies; none: there is more to compute of a step.
  Result<std::optional<Json>> go_on();
  // The step at hand is given up.
  void stop();

  // The adapter as it is now: "adapter_config.json" or "adapter_model.safetensors" of PEFT, or "adapter.gguf" of
  // llama.cpp.
  Result<std::string> file(std::string_view name) const;

 private:
  explicit PageTraining(const ChatModel& chat) : chat_(&chat) {}
  Status read_options(const Json& options);
  Status make_adapter(const Json& options);
  Json news(const char* finish) const;

  const ChatModel* chat_;
  TrainingData data_;
  TrainerOptions options_;
  Json config_;
  std::shared_ptr<const Adapter> adapter_;  // that training begins with
  std::unique_ptr<TrainedFactors> factors_;
  std::unique_ptr<Trainer> trainer_;
  size_t examples_ = 0;
  StepReport last_;
  bool stops_ = false;
};

}  // namespace sluice::wasm
