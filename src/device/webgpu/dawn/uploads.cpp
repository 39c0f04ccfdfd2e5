#include "device/webgpu/dawn/uploads.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace sluice::webgpu {
namespace {

constexpr uint64_t kMostInFlight = uint64_t{32} << 20;
constexpr uint64_t kRelayBytes = uint64_t{4} << 20, kLeastRelayed = uint64_t{64} << 10;
constexpr size_t kMostRelays = 8;

}  // namespace

Uploads::~Uploads() {
  for (const auto& one : relays_)
    if (one->buffer != nullptr) gpu_.api().release_buffer(one->buffer);
}

bool Uploads::under_way() const {
  return std::any_of(relays_.begin(), relays_.end(), [](const auto& one) { return one->under_way; });
}

void Uploads::add(dawn::Buffer to, uint64_t offset, std::span<const std::byte> bytes) {
  if (gpu_.failure || bytes.empty()) return;
  CHECK(offset % 4 == 0 && bytes.size() % 4 == 0);
  while (bytes.size() >= kLeastRelayed || (filled_.relay != nullptr && !bytes.empty())) {
    if (filled_.relay == nullptr) {
      filled_ = {.relay = take_relay()};
      if (filled_.relay == nullptr) break;
      filled_.encoder = gpu_.api().create_encoder(gpu_.device, nullptr);
    }
    const std::span<const std::byte> part = bytes.first(std::min<size_t>(bytes.size(), kRelayBytes - filled_.bytes));
    copies_.copy({.from = part.data(), .to = filled_.relay->memory + filled_.bytes, .bytes = part.size()});
    gpu_.api().copy(filled_.encoder, filled_.relay->buffer, filled_.bytes, to, offset, part.size());
    filled_.bytes += part.size();
    if (filled_.bytes == kRelayBytes) send();
    offset += part.size();
    bytes = bytes.subspan(part.size());
  }
  if (gpu_.failure || bytes.empty()) return;
  gpu_.api().write_buffer(gpu_.queue, to, offset, bytes.data(), bytes.size());
  in_flight_ += bytes.size();
  if (in_flight_ <= kMostInFlight) return;
  gpu_.flush();
  note_arrived();
}

Uploads::Relay* Uploads::mapped_relay() {
  const auto found =
      std::find_if(relays_.begin(), relays_.end(), [](const auto& one) { return one->memory != nullptr; });
  return found == relays_.end() ? nullptr : found->get();
}

// A relay that may be written to. May wait for the GPU. Null after a failure, or if there is no memory for one.
Uploads::Relay* Uploads::take_relay() {
  if (Relay* const mapped = mapped_relay()) return mapped;
  gpu_.api().process_events(gpu_.connection->instance);
  if (Relay* const mapped = mapped_relay()) return mapped;
  if (relays_.size() < kMostRelays) {
    auto made = std::make_unique<Relay>(Relay{.uploads = this});
    const dawn::BufferDescriptor descriptor{
        .usage = dawn::kMapWrite | dawn::kCopySource, .bytes = kRelayBytes, .mapped = 1};
    made->buffer = gpu_.api().create_buffer(gpu_.device, &descriptor);
    if (made->buffer == nullptr) return nullptr;
    made->memory = static_cast<std::byte*>(gpu_.api().writable_range(made->buffer, 0, kRelayBytes));
    if (made->memory == nullptr) {
      gpu_.api().release_buffer(made->buffer);
      return nullptr;
    }
    relays_.push_back(std::move(made));
    return mapped_relay();
  }
  gpu_.wait_until([&] { return mapped_relay() != nullptr || gpu_.failure; });
  return mapped_relay();
}

void Uploads::send() {
  if (filled_.relay == nullptr) return;
  Relay& through = *filled_.relay;
  through.memory = nullptr;
  through.under_way = true;
  gpu_.api().unmap(through.buffer);
  gpu_.submit(gpu_.finished(filled_.encoder));
  filled_ = {};
  gpu_.api().map(through.buffer, dawn::kMapModeWrite, 0, kRelayBytes,
                 {.callback =
                      [](uint32_t status, dawn::StringView message, void* which, void*) {
                        auto& relay = *static_cast<Relay*>(which);
                        relay.under_way = false;
                        if (status == dawn::kSuccess)
                          relay.memory = static_cast<std::byte*>(
                              relay.uploads->gpu_.api().writable_range(relay.buffer, 0, kRelayBytes));
                        else if (!relay.uploads->gpu_.gone)
                          relay.uploads->gpu_.fail(ErrorKind::io,
                                                   cat("webgpu: an upload did not end well (", sentence(message), ")"));
                      },
                  .first = &through});
}

}  // namespace sluice::webgpu
