#include "device/expert_stretches.h"

#include <algorithm>
#include <utility>

namespace sluice {

uint32_t route_of(const Program& program, const Experts& experts) {
  for (uint32_t op = 0; op < program.ops.size(); ++op) {
    const auto* route = std::get_if<Route>(&program.ops[op]);
    if (route != nullptr && route->index == experts.index) return op;
  }
  return kNone;
}

void SlotTable::fill(uint32_t slot, ExpertId expert) {
  CHECK(!held_[slot]);
  held_[slot] = expert;
  CHECK(slots_.try_emplace(expert, slot).second);
}

std::optional<ExpertId> SlotTable::release(uint32_t slot) {
  std::optional<ExpertId> held = std::exchange(held_[slot], std::nullopt);
  if (held) slots_.erase(*held);
  return held;
}

std::optional<uint32_t> SlotTable::slot_of(ExpertId expert) const {
  const auto found = slots_.find(expert);
  return found == slots_.end() ? std::nullopt : std::optional(found->second);
}

ExpertStretches::ExpertStretches(const Program& program, uint32_t slots, StretchPlayer& player)
    : program_(program), player_(player), slots_(slots) {
  for (uint32_t op = 0; slots > 0 && op < program.ops.size(); ++op)
    if (const auto* experts = std::get_if<Experts>(&program.ops[op]))
      streamed_.push_back({.op = op, .route = route_of(program, *experts)});
}

void ExpertStretches::start(Ticket ticket, const StepBuffer& step) {
  flight_ = Flight{.ticket = ticket, .step = &step};
  play_to_choice();
}

void ExpertStretches::play_to_choice() {
  Flight& flight = *flight_;
  if (flight.next == streamed_.size()) {
    player_.play_to(static_cast<uint32_t>(program_.ops.size()));
    player_.submit_end(std::move(flight.used));
    flight_.reset();
    return;
  }
  const Streamed& streamed = streamed_[flight.next];
  player_.play_to(streamed.route == kNone ? streamed.op : streamed.route + 1);
  const ValueId choice = experts(streamed.op).index;
  const ValueType& type = program_.values[choice].type;
  choice_.resize(static_cast<size_t>(flight.step->rows_of(type.extent) * type.columns()));
  player_.submit_choice(choice, choice_);
  if (player_.play_to(streamed.op)) player_.submit_stretch();
}

std::optional<Completion> ExpertStretches::chosen() {
  Flight& flight = *flight_;
  flight.wanted = choice_;
  std::ranges::sort(flight.wanted);
  flight.wanted.erase(std::unique(flight.wanted.begin(), flight.wanted.end()), flight.wanted.end());
  const uint32_t op = streamed_[flight.next].op;
  flight.used.push_back({.op = op, .experts = flight.wanted});
  const auto is_there = [&](uint32_t expert) { return slots_.slot_of({op, expert}).has_value(); };
  if (!std::ranges::all_of(flight.wanted, is_there)) return stop();
  return play_present();
}

std::optional<Completion> ExpertStretches::resume(Ticket stopped) {
  CHECK(flight_ && flight_->ticket == stopped);
  return play_present();
}

std::optional<Completion> ExpertStretches::play_present() {
  Flight& flight = *flight_;
  const uint32_t op = streamed_[flight.next].op;
  std::vector<uint32_t> table(program_.weights[experts(op).gate].shape.experts, kNone);
  const size_t present = std::erase_if(flight.wanted, [&](uint32_t expert) {
    const std::optional<uint32_t> slot = slots_.slot_of({op, expert});
    if (slot) table[expert] = *slot;
    return slot.has_value();
  });
  if (present > 0) player_.play_present(op, table);
  if (flight.wanted.empty()) {
    ++flight.next;
    play_to_choice();
    return std::nullopt;
  }
  player_.submit_stretch();
  return stop();
}

Completion ExpertStretches::stop() {
  Flight& flight = *flight_;
  Completion lacking{.ticket = flight.ticket, .stopped = true, .used = std::exchange(flight.used, {})};
  const uint32_t op = streamed_[flight.next].op;
  for (const uint32_t expert : flight.wanted)
    if (!slots_.slot_of({op, expert})) lacking.missing.push_back({op, expert});
  return lacking;
}

}  // namespace sluice
