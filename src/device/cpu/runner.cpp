#include "device/cpu/runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/placing.h"
#include "graph/operands.h"

namespace sluice::cpu {
namespace {

// Each decode step packs this part of the bytes that a token reads. Steps take up to a quarter longer meanwhile.
constexpr uint64_t kPackingSteps = 16;

}  // namespace

Ticket CpuRunner::done() {
  finished_.push_back({.ticket = ++last_ticket_});
  return last_ticket_;
}

std::optional<Completion> CpuRunner::poll() {
  if (finished_.empty() && flight_ && flight_->pieces && !flight_->stopped) advance();
  if (finished_.empty()) return std::nullopt;
  Completion first = std::move(finished_.front());
  finished_.pop_front();
  return first;
}

Ticket CpuRunner::start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) {
  // A first token comes from a prompt step, so it does not wait for packing.
  if (step.token_class() == TokenClass::decode && !memory_.packed().done())
    memory_.packed().pack(plan_->packed_bytes_of_token() / kPackingSteps, pool_);
  executor_.begin(step);
  flight_ = Flight{.reads = {reads.begin(), reads.end()}, .options = options, .clock = op_clock()};
  flight_->found.ticket = ++last_ticket_;
  // The search names a single op, so blocks are not played as one.
  flight_->order = options.find_non_finite ? &plan_->single_ops() : &plan_->dispatches();
  if (options.in_pieces) {
    CostFacts facts{.program = &program()};
    for (const PlacedShape& weight : plan_->request().weights) facts.formats.push_back(weight.format);
    facts.state_bytes.resize(program().states.size());
    flight_->pieces = Pieces{.facts = std::move(facts), .work = StepWork::of(step)};
  } else {
    advance();
  }
  return last_ticket_;
}

void CpuRunner::resume(Ticket stopped) {
  CHECK(flight_ && flight_->found.ticket == stopped);
  flight_->stopped = false;
  if (!flight_->pieces) advance();
}

uint64_t CpuRunner::Pieces::flops(const Dispatch& dispatch) const {
  uint64_t sum = 0;
  for (uint32_t op = dispatch.first_op; op < dispatch.end_op; ++op) sum += op_cost(facts, op, work).flops;
  return sum;
}

void CpuRunner::advance() {
  Flight& flight = *flight_;
  const auto now = [&] { return flight.clock != nullptr ? flight.clock() : 0; };
  uint64_t played = 0;  // flops
  for (; flight.next < flight.order->size(); ++flight.next) {
    if (played > 0 && played >= piece_flops_) return;
    const Dispatch& dispatch = (*flight.order)[flight.next];
    const ExpertGuess* const guess = plan_->guess(dispatch.first_op);
    if (guess != nullptr && !flight.options.guess_experts) continue;
    const uint64_t before = now();
    const bool whole = play(dispatch);
    flight.nanoseconds += now() - before;
    if (flight.pieces) played += flight.pieces->flops(dispatch);
    if (!whole) return stop();
    if (flight.clock != nullptr)
      flight.op_times.push_back({dispatch.first_op, dispatch.end_op, std::exchange(flight.nanoseconds, uint64_t{0})});
    if (flight.options.find_non_finite && !flight.found.non_finite)
      flight.found.non_finite = find_non_finite(dispatch.first_op);
    if (guess != nullptr && dispatch.end_op == guess->end_op)
      flight.found.guessed = ExpertUse{
          .op = guess->experts, .experts = executor_.choice_of(std::get<Route>(program().ops[dispatch.first_op]))};
    const uint32_t experts = plan_->experts_of_route(dispatch.first_op);
    if (experts == kNone) continue;
    look_at_choice(experts);
    const std::optional<ExpertUse>& guessed = flight.found.guessed;
    const bool ahead = guessed && executor_.lacks_any(guessed->op, guessed->experts);
    if (executor_.missing_experts().empty() && !ahead) continue;
    ++flight.next;
    return stop();
  }
  for (const ReadRequest& request : flight.reads) read(request);
  flight.found.guessed.reset();
  if (flight.clock != nullptr) keep(flight.found.ticket, std::move(flight.op_times));
  finished_.push_back(std::move(flight.found));
  flight_.reset();
}

// False: the op lacks experts, and must be played again when some are in slots.
bool CpuRunner::play(const Dispatch& dispatch) {
  if (!is_streamed(dispatch.first_op)) {
    executor_.run(dispatch);
    return true;
  }
  if (executor_.chosen_for() != dispatch.first_op) look_at_choice(dispatch.first_op);
  return executor_.run_present(dispatch.first_op);
}

bool CpuRunner::is_streamed(uint32_t op) const {
  const auto* experts = std::get_if<Experts>(&program().ops[op]);
  return experts != nullptr && plan_->is_streamed(experts->gate);
}

void CpuRunner::look_at_choice(uint32_t op) {
  flight_->found.used.push_back({.op = op, .experts = executor_.choose_experts(op)});
}

void CpuRunner::stop() {
  flight_->stopped = true;
  Completion lacking{.ticket = flight_->found.ticket, .stopped = true};
  lacking.used = std::exchange(flight_->found.used, {});
  lacking.guessed = std::exchange(flight_->found.guessed, std::nullopt);
  for (const uint32_t expert : executor_.missing_experts())
    lacking.missing.push_back({.op = executor_.chosen_for(), .expert = expert});
  finished_.push_back(std::move(lacking));
}

Ticket CpuRunner::fill(uint32_t slot, ExpertId expert, std::span<const std::byte* const> pieces) {
  const auto& op = std::get<Experts>(program().ops[expert.op]);
  slots_.fill(slot, expert);
  for (const WeightId weight : {op.gate, op.up, op.down}) {
    const size_t count = memory_.pieces(weight).size();
    memory_.place_expert(weight, expert.expert, pieces.first(count));
    pieces = pieces.subspan(count);
  }
  return done();
}

void CpuRunner::release(uint32_t slot) {
  const std::optional<ExpertId> held = slots_.release(slot);
  if (!held) return;
  const auto& op = std::get<Experts>(program().ops[held->op]);
  for (const WeightId weight : {op.gate, op.up, op.down}) memory_.forget_expert(weight, held->expert);
}

std::optional<NonFinite> CpuRunner::find_non_finite(uint32_t op) const {
  std::optional<NonFinite> found;
  for_each_output(program().ops[op], [&](ValueId id) {
    const ValueType& type = program().values[id].type;
    if (found || type.element != Element::f32) return;
    const float* begin = memory_.read<float>(id);
    const float* end = begin + executor_.rows(id) * type.columns();
    const float* at = std::find_if_not(begin, end, [](float x) { return std::isfinite(x); });
    if (at == end) return;
    const uint64_t row = static_cast<uint64_t>(at - begin) / type.columns();
    found = NonFinite{.op = op,
                      .layer = program().layers[op],
                      .row = static_cast<uint32_t>(executor_.step_row(id, row)),
                      .what = std::string(op_name(program().ops[op]))};
  });
  return found;
}

void CpuRunner::read(const ReadRequest& request) const {
  CHECK(may_read(plan_->request(), request.value));
  const uint64_t bytes = executor_.rows(request.value) * program().values[request.value].type.columns() * 4;
  CHECK(request.into.size() == bytes);
  if (bytes > 0) std::memcpy(request.into.data(), memory_.read<std::byte>(request.value), bytes);
}

std::vector<std::span<std::byte>> CpuRunner::page_memory(uint32_t group, uint32_t page) {
  std::vector<std::span<std::byte>> pieces;
  memory_.for_each_piece(group, page, [&](std::span<std::byte> piece) { pieces.push_back(piece); });
  return pieces;
}

Ticket CpuRunner::copy_page(uint32_t group, uint32_t from, uint32_t to) {
  const std::vector<std::span<std::byte>> source = page_memory(group, from);
  size_t next = 0;
  memory_.for_each_piece(
      group, to, [&](std::span<std::byte> piece) { std::memmove(piece.data(), source[next++].data(), piece.size()); });
  return done();
}

Ticket CpuRunner::read_page(uint32_t group, uint32_t page, std::span<std::byte> into) {
  CHECK(into.size() == plan_->page_bytes(group));
  memory_.for_each_piece(group, page, [&](std::span<std::byte> piece) {
    std::memcpy(into.data(), piece.data(), piece.size());
    into = into.subspan(piece.size());
  });
  return done();
}

Ticket CpuRunner::write_page(uint32_t group, uint32_t page, std::span<const std::byte> from) {
  CHECK(from.size() == plan_->page_bytes(group));
  memory_.for_each_piece(group, page, [&](std::span<std::byte> piece) {
    std::memcpy(piece.data(), from.data(), piece.size());
    from = from.subspan(piece.size());
  });
  return done();
}

}  // namespace sluice::cpu
