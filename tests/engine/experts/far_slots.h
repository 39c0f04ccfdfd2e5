// A device as the one below it but for where its experts lie: out of the host's reach, as on a GPU, so that they are
// read elsewhere, packed by threads and then taken in.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/device.h"
#include "device/forwarding_runner.h"

namespace sluice {

class FarSlots final : public ExpertMemory {
 public:
  // All outlive it.
  FarSlots(ExpertMemory& near, const Program& program, const WeightSource& weights)
      : near_(near), program_(program), weights_(weights) {}

  std::span<std::byte> slot_memory(uint32_t /*slot*/) override { return {}; }
  uint64_t packed_bytes() const override { return near_.slot_memory(0).size(); }
  void pack(ExpertId expert, uint32_t part, std::span<const std::byte* const> pieces,
            std::span<std::byte> into) const override {
    size_t at = 0, next = 0;
    for_each_piece(expert.op, [&](uint32_t of, uint64_t bytes) {
      if (of == part) std::memcpy(into.data() + at, pieces[next], static_cast<size_t>(bytes));
      at += static_cast<size_t>(bytes);
      ++next;
    });
  }
  Ticket fill(uint32_t slot, ExpertId expert, std::span<const std::byte* const> packed) override {
    std::byte* at = near_.slot_memory(slot).data();
    std::vector<const std::byte*> pieces;
    std::memcpy(at, packed[0], static_cast<size_t>(packed_bytes()));
    for_each_piece(expert.op, [&](uint32_t, uint64_t bytes) {
      pieces.push_back(at);
      at += bytes;
    });
    return near_.fill(slot, expert, pieces);
  }
  void release(uint32_t slot) override { near_.release(slot); }

 private:
  // f(part, bytes)
  template <class F>
  void for_each_piece(uint32_t op, F&& f) const {
    const auto& experts = std::get<Experts>(program_.ops[op]);
    const WeightId weights[kExpertParts] = {experts.gate, experts.up, experts.down};
    for (uint32_t part = 0; part < kExpertParts; ++part)
      for (const ExpertPiece& piece : expert_pieces(*weights_.find(program_.weights[weights[part]].name)))
        f(part, piece.bytes);
  }

  ExpertMemory& near_;
  const Program& program_;
  const WeightSource& weights_;
};

class FarRunner final : public ForwardingRunner {
 public:
  FarRunner(std::unique_ptr<Runner> near, const Program& program, const WeightSource& weights)
      : ForwardingRunner(std::move(near)), slots_(*runner().expert_memory(), program, weights) {}

  std::vector<std::span<std::byte>> page_memory(uint32_t, uint32_t) override { return {}; }
  ExpertMemory* expert_memory() override { return &slots_; }

 private:
  FarSlots slots_;
};

// Of one model, all of whose weights outlive its runner.
class FarDevice final : public Device {
 public:
  explicit FarDevice(Device& near) : near_(near) {}
  DeviceInfo info() const override { return near_.info(); }
  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override {
    program_ = request.program;
    return near_.plan(request);
  }
  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource& weights,
                                        Budget& budget) override {
    TRY(std::unique_ptr<Runner> runner, near_.place(std::move(plan), weights, budget));
    return std::unique_ptr<Runner>(std::make_unique<FarRunner>(std::move(runner), *program_, weights));
  }

 private:
  Device& near_;
  mutable const Program* program_ = nullptr;  // planned last
};

}  // namespace sluice
