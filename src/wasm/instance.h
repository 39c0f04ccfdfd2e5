// One model in a page: its device, the model that chat/ opened on it, and the page's conversation.
//
// Nothing waits here: the host steps an answer or a training and lets its GPU settle in between.
//
// The engine is closed while an adapter is trained, so that both need not have room at once, and opened again by the
// next load(). It is also opened again, with room, for adapters that fit none of its slots.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/json.h"
#include "base/threads.h"
#include "chat/adapter_shelf.h"
#include "chat/chat_session.h"
#include "chat/open_model.h"
#include "device/device.h"
#include "device/webgpu/webgpu.h"
#include "wasm/media_table.h"
#include "wasm/page_training.h"

namespace sluice::wasm {

// What the headers of a model's files say: {"name", "family", "parameters"}. Fails where they are no model's.
Result<Json> inspect(const Json& options);

class Instance {
 public:
  // As sluice_open takes them.
  static Result<std::unique_ptr<Instance>> open(const Json& options);
  ~Instance();

  // Opens the engine if it is closed. Uploads some more of the model to the GPU.
  Result<Json> load();
  Json describe() const;
  std::vector<int32_t> encode(std::string_view text) const { return chat_->text.tokenizer.encode(text); }
  std::string decode(std::span<const int32_t> tokens) const { return chat_->text.tokenizer.decode(tokens); }
  Result<std::string> render(const Json& chat) const;

  Result<Json> add_picture(const PagePixels& pixels, uint32_t max_rows) {
    return media_.add_picture(chat_->model, pixels, max_rows);
  }
  Result<Json> add_film(const PagePixels& pixels) { return media_.add_film(chat_->model, pixels); }
  Result<Json> add_sound(std::span<const float> samples, uint32_t rate) {
    return media_.add_sound(chat_->model, samples, rate);
  }
  void remove_media(uint32_t number) { media_.remove(number); }
  // As sluice_adapters takes it.
  Result<Json> change_adapters(const Json& change);

  // The page's conversation.
  Status begin(const Json& turn);
  // None: the device is still computing, and nothing is new.
  Result<std::optional<Json>> go_on();
  void cancel();
  SequenceId sequence() const { return session_ ? session_->sequence().sequence() : kNewSequence; }
  void adopt(SequenceId sequence) {
    if (session_) session_->sequence().adopt(sequence);
  }

  // The engine itself: tokens in, tokens and logits out.
  Status submit(const Json& request);
  StepState step() { return chat_->engine ? chat_->engine->step() : StepState::idle; }
  Result<Json> collect();
  const std::vector<float>& logits() const { return logits_; }

  // The contents of a state file; none while the GPU brings them.
  Result<std::optional<std::string>> save(SequenceId sequence);
  Result<Json> restore(std::span<const std::byte> state);
  Json stats() const;

  // As sluice_examples, sluice_train, sluice_train_on, sluice_trained and sluice_end_training have them.
  Result<Json> look_at_examples(const Json& options) const { return PageTraining::look_at(*chat_, options); }
  Result<Json> begin_training(const Json& options);
  Result<std::optional<Json>> train_on();
  void stop_training();
  Result<std::string> trained_file(std::string_view name) const;
  void end_training() { training_.reset(); }

 private:
  Instance() = default;
  Status make_device(const std::string& name, std::unique_ptr<webgpu::HostFactory> page_gpu);
  MemoryBounds bounds(uint64_t memory) const;
  Status open_engine();
  void close_engine();
  Status check_open() const;
  Status check_ready() const;
  Status check_idle() const;
  Status check_files();
  Status give_media(const Json& json, Request& request);
  Status use_adapters(AdapterShelf shelf);
  Status make_room(const AdapterSum& sum);
  Result<AdapterSum> adapters_of(const Json& request) const;

  Budget budget_;
  ThreadPool pool_{available_processors()};
  std::unique_ptr<Device> device_;
  WebGpuDevice* gpu_ = nullptr;  // device_, where it is one
  bool loaded_ = true;
  EngineOptions options_;
  MemoryBounds bounds_;
  std::unique_ptr<ChatModel> chat_;
  std::unique_ptr<ChatSession> session_;  // null while the engine is closed
  std::optional<RequestId> running_;      // of submit()
  MediaTable media_;
  AdapterShelf adapters_;
  std::unique_ptr<PageTraining> training_;  // null: none
  bool saving_ = false;                     // the GPU brings a state
  std::vector<float> logits_;
};

}  // namespace sluice::wasm
