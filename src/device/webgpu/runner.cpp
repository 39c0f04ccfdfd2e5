#include "device/webgpu/runner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>

#include "device/embedding_adapter.h"
#include "device/placing.h"
#include "graph/op_check.h"
#include "graph/operands.h"

namespace sluice::webgpu {
namespace {

// Bytes of an input that are compared with those on the GPU. Uploading a picture's patches is faster than comparing.
constexpr size_t kMostCompared = size_t{1} << 20;
// A thread decodes some 500 numbers of a table a microsecond.
constexpr size_t kManyEmbedded = size_t{64} << 10;
constexpr uint32_t kMostThreads = 8;
constexpr uint64_t kStepBytes = uint64_t{32} << 20;  // of weights, between two looks at the GPU

}  // namespace

WebGpuRunner::WebGpuRunner(std::unique_ptr<WebGpuPlan> plan, std::vector<TensorSource> weights,
                           std::vector<Reservation> reservations, std::shared_ptr<PlanObjects> placed)
    : reservations_(std::move(reservations)),
      plan_(std::move(plan)),
      weights_(std::move(weights)),
      placed_(std::move(placed)),
      stretches_(plan_->program(), plan_->layout().slots().buffers() == 0 ? 0 : plan_->layout().slots().count, *this) {}

Ticket WebGpuRunner::start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) {
  const Ticket ticket = ++last_ticket_;
  if (placed_->has_weights() && !placed_->full())
    waiting_ = Waiting{.ticket = ticket, .step = &step, .reads = {reads.begin(), reads.end()}, .options = options};
  else
    begin(ticket, step, reads, options);
  return ticket;
}

// True when nothing waits for weights any more.
bool WebGpuRunner::upload_weights() {
  if (!waiting_) return true;
  Host& host = placed_->host();
  if (waiting_->upload) {
    std::optional<Status> arrived = host.poll(*waiting_->upload);
    if (!arrived) return false;
    waiting_->upload.reset();
    if (!*arrived) {
      ready_.push_back({.ticket = waiting_->ticket, .status = *std::move(arrived)});
      waiting_.reset();
      return true;
    }
  }
  if (placed_->full()) {
    const Waiting step = std::move(*waiting_);
    waiting_.reset();
    begin(step.ticket, *step.step, step.reads, step.options);
    return true;
  }
  const uint64_t before = placed_->filled_bytes();
  while (!placed_->full() && placed_->filled_bytes() - before < kStepBytes) placed_->fill(kPieceBytes);
  const HostRead read{placed_->memory(), 0, std::as_writable_bytes(std::span(&arrived_, 1))};
  waiting_->upload = host.submit({}, {&read, 1});
  return false;
}

void WebGpuRunner::begin(Ticket ticket, const StepBuffer& step, std::span<const ReadRequest> reads,
                         const StartOptions& options) {
  upload_step(step);
  upload_embedded(step);
  commands_.clear();
  flight_ = Flight{.end = {.ticket = ticket}, .step = &step, .add_gradients = options.add_gradients};
  Flight& flight = *flight_;
  for (const int32_t position : step.positions())
    flight.last_position = std::max(flight.last_position, static_cast<uint32_t>(position));
  flight.ahead = positions_ahead(step);
  flight.reads.reserve(reads.size() + 1);
  for (const ReadRequest& read : reads) {
    CHECK(may_read(plan_->request(), read.value));
    flight.reads.push_back({placed_->memory(), uint64_t{plan_->layout().at(read.value)} * 4, read.into});
  }
  flight.variant = &placed_->variant(step.token_class());
  if (options.find_non_finite) {
    flight.end.flags.assign(program().ops.size(), ~uint32_t{0});
    flight.end.looked_at = &step;
    placed_->host().upload(placed_->flags(), 0, std::as_bytes(std::span(flight.end.flags)));
    // The host has failed, too, so the ticket ends with the failure whatever is played.
    if (const Result<const Variant*> looking = placed_->looking_variant(step.token_class()); looking)
      flight.variant = *looking;
    flight.reads.push_back({placed_->flags(), 0, std::as_writable_bytes(std::span(flight.end.flags))});
  }
  stretches_.start(ticket, step);
}

// The most positions behind its own that a row sees, from the inputs `last` of the attention ops.
uint32_t WebGpuRunner::positions_ahead(const StepBuffer& step) const {
  int32_t most = 0;
  for (const Op& op : program().ops) {
    const auto* attention = std::get_if<Attention>(&op);
    if (attention == nullptr || attention->last == kNone || !attention->has_cache()) continue;
    const Extent& extent = program().values[attention->q].type.extent;
    const std::span<const int32_t> last = step.input_i32(static_cast<uint32_t>(input_of(program(), attention->last)));
    for (size_t row = 0; row < last.size(); ++row)
      most = std::max(most, last[row] - step.positions()[step.step_row(extent, row)]);
  }
  return static_cast<uint32_t>(most);
}

void WebGpuRunner::play(size_t end) {
  Flight& flight = *flight_;
  const uint32_t most = placed_->host().adapter().workgroups;
  for (; flight.next < end; ++flight.next) {
    const BoundDispatch& dispatch = flight.variant->list[flight.next];
    const uint64_t rows = flight.step->rows_of(dispatch.extent);
    const uint64_t count = dispatch.grid.of_sequences ? flight.step->sequences() : rows;
    const FoldedGrid grid = fold(dispatch.grid.workgroups(count, flight.last_position, flight.ahead), most);
    if (grid.x > 0) commands_.dispatch(dispatch.pipeline, dispatch.binding, dispatch.uniform_offset, grid.x, grid.y);
  }
}

bool WebGpuRunner::play_to(uint32_t end) {
  const std::vector<BoundDispatch>& list = flight_->variant->list;
  const auto is_behind = [&](const BoundDispatch& dispatch) { return dispatch.op >= end; };
  const size_t first = flight_->next;
  play(static_cast<size_t>(std::find_if(list.begin() + static_cast<ptrdiff_t>(first), list.end(), is_behind) -
                           list.begin()));
  return flight_->next > first;
}

void WebGpuRunner::play_present(uint32_t op, std::span<const uint32_t> slots) {
  const Variant& variant = *flight_->variant;
  const auto streamed = std::ranges::find(variant.streamed, op, &StreamedExperts::op);
  placed_->host().upload(placed_->memory(), uint64_t{streamed->table} * 4, std::as_bytes(slots));
  flight_->next = static_cast<size_t>(std::ranges::find(variant.list, op, &BoundDispatch::op) - variant.list.begin());
  size_t end = flight_->next;
  while (variant.list[end].of_present) ++end;
  play(end);
}

void WebGpuRunner::submit_choice(ValueId choice, std::span<uint32_t> into) {
  const HostRead read{placed_->memory(), uint64_t{plan_->layout().at(choice)} * 4, std::as_writable_bytes(into)};
  submit({.ticket = flight_->end.ticket, .brings = Brings::choice}, {&read, 1});
}

void WebGpuRunner::submit_stretch() { submit({.brings = Brings::nothing}, {}); }

void WebGpuRunner::submit_end(std::vector<ExpertUse> used) {
  flight_->end.used = std::move(used);
  if (flight_->add_gradients) {
    play_trained(has_gradients_ ? TrainedWork::add_gradients : TrainedWork::first_gradients);
    has_gradients_ = true;
  }
  submit(std::move(flight_->end), flight_->reads);
  expect_next();
  flight_.reset();
}

void WebGpuRunner::play_trained(TrainedWork work) {
  const uint32_t most = placed_->host().adapter().workgroups;
  for (const BoundDispatch& dispatch : placed_->trained(work).list) {
    const FoldedGrid grid = fold(dispatch.grid.workgroups(1, 0), most);
    commands_.dispatch(dispatch.pipeline, dispatch.binding, dispatch.uniform_offset, grid.x, grid.y);
  }
}

Ticket WebGpuRunner::sum_squares(std::span<float> sums) {
  CHECK(has_gradients_ && sums.size() == this->sums());
  commands_.clear();
  play_trained(TrainedWork::sum_squares);
  const HostRead read{placed_->trained_sums(), 0, std::as_writable_bytes(sums)};
  return submit({&read, 1});
}

Ticket WebGpuRunner::update(const FactorUpdate& update) {
  CHECK(has_gradients_);
  const std::array<float, kTrainedStepNames.size()> numbers = {update.clip, update.beta1, update.beta2, update.decay,
                                                               update.rate, update.root,  update.eps};
  placed_->upload_trained_step(numbers);
  commands_.clear();
  play_trained(TrainedWork::update);
  return submit({});
}

template <class F>
void WebGpuRunner::each_trained(TrainedTable table, F&& f) const {
  for (const TrainedPiece& piece : plan_->trained().pieces)
    f(piece, placed_->trained_buffer(piece.buffer), piece.table(table) * 4);
}

Ticket WebGpuRunner::read(TrainedTable table, std::span<const std::span<float>> into) {
  std::vector<HostRead> reads;
  each_trained(table, [&](const TrainedPiece& piece, BufferId buffer, uint64_t offset) {
    reads.push_back({buffer, offset, std::as_writable_bytes(into[piece.factor].subspan(piece.first, piece.count))});
  });
  commands_.clear();
  return submit(reads);
}

void WebGpuRunner::write(TrainedTable table, std::span<const std::span<const float>> from) {
  each_trained(table, [&](const TrainedPiece& piece, BufferId buffer, uint64_t offset) {
    placed_->host().upload(buffer, offset, std::as_bytes(from[piece.factor].subspan(piece.first, piece.count)));
  });
}

// The step after a decode step is likely the same, one position further.
void WebGpuRunner::expect_next() {
  Flight& flight = *flight_;
  if (flight.step->token_class() != TokenClass::decode || !flight.variant->streamed.empty()) return;
  ++flight.last_position;
  flight.next = 0;
  play(flight.variant->list.size());
  placed_->host().expect(commands_, flight.reads);
  commands_.clear();
}

void WebGpuRunner::resume(Ticket stopped) {
  if (std::optional<Completion> stops = stretches_.resume(stopped)) ready_.push_back(*std::move(stops));
}

void WebGpuRunner::pack(ExpertId expert, uint32_t part, std::span<const std::byte* const> pieces,
                        std::span<std::byte> into) const {
  placed_->pack_part(std::get<Experts>(program().ops[expert.op]), expert.expert, part, pieces, into);
}

Ticket WebGpuRunner::fill(uint32_t slot, ExpertId expert, std::span<const std::byte* const> pieces) {
  stretches_.slots().fill(slot, expert);
  if (!pieces.empty()) placed_->fill_slot(slot, pieces.front());
  ready_.push_back({.ticket = ++last_ticket_});
  return last_ticket_;
}

void WebGpuRunner::release(uint32_t slot) { stretches_.slots().release(slot); }

void WebGpuRunner::count_adapters(const StepBuffer& step, StepCounts& counts) const {
  const auto input_named = [&](std::string_view name) {
    const auto& inputs = program().inputs;
    return static_cast<uint32_t>(std::ranges::find(inputs, name, &NamedValue::name) - inputs.begin());
  };
  const uint32_t slots_input = input_named("adapter_slots"), scales_input = input_named("adapter_scales");
  if (slots_input == program().inputs.size() || scales_input == program().inputs.size()) return;
  const std::span<const int32_t> slots = step.input_i32(slots_input);
  const std::span<const float> scales = step.input_f32(scales_input);
  const auto slot_of = [&](size_t row) { return scales[row] == 0 ? 0u : static_cast<uint32_t>(slots[row]); };
  const auto scale_of = [&](size_t row) { return slot_of(row) == 0 ? 0.0f : scales[row]; };
  std::set<uint32_t> used;
  for (size_t row = 0; row < slots.size(); ++row) {
    if (slot_of(row) > 0) used.insert(slot_of(row));
    if (slot_of(row) != slot_of(0) || scale_of(row) != scale_of(0)) counts.one_adapter = 0;
  }
  if (used.empty()) return;
  counts.adapter_scale = scale_of(0);
  counts.slots_are_range = used.size() > counts.slots.size();
  counts.slot_count =
      counts.slots_are_range == 1 ? *used.rbegin() + 1 - *used.begin() : static_cast<uint32_t>(used.size());
  std::copy_n(used.begin(), std::min(used.size(), counts.slots.size()), counts.slots.begin());
}

// Uploads the filled part of each section of the step, if it changed or is long.
void WebGpuRunner::upload_step(const StepBuffer& step) {
  Host& host = placed_->host();
  const StepLayout& at = plan_->layout().step();
  uploaded_.resize(step.words().size_bytes(), std::byte{0});
  const auto upload = [&](uint32_t word, auto span) {
    const auto bytes = std::as_bytes(span);
    if (bytes.empty()) return;
    const bool is_long = bytes.size() > kMostCompared;
    const bool is_known = !not_in_uploaded_.contains(word);
    if (is_long) {
      not_in_uploaded_.insert(word);
    } else {
      const auto held = std::span(uploaded_).subspan(uint64_t{word} * 4, bytes.size());
      if (is_known && std::memcmp(bytes.data(), held.data(), bytes.size()) == 0) return;
      std::ranges::copy(bytes, held.begin());
      not_in_uploaded_.erase(word);
    }
    host.upload(placed_->memory(), uint64_t{word} * 4, bytes);
  };
  StepCounts counts{.rows = step.counts().all(), .sequences = step.sequences()};
  counts.rows[static_cast<size_t>(Symbol::one)] = 1;
  count_adapters(step, counts);
  host.upload(placed_->counts(), 0, std::as_bytes(std::span(&counts, 1)));
  upload(at.positions, step.positions());
  upload(at.row_sequences, step.row_sequences());
  for (uint32_t i = 0; i < program().inputs.size(); ++i) {
    if (plan_->layout().is_for_host(i)) continue;
    if (program().values[program().inputs[i].value].type.element == Element::i32)
      upload(at.inputs[i], step.input_i32(i));
    else
      upload(at.inputs[i], step.input_f32(i));
  }
  for (RopeId rope = 0; rope < program().ropes.size(); ++rope) {
    upload(at.cosines[rope], step.cosines(rope));
    upload(at.sines[rope], step.sines(rope));
  }
  for (uint32_t group = 0; group < program().groups.size() && step.sequences() > 0; ++group) {
    const std::span<const int32_t> first = step.pages(group, 0);
    upload(at.pages[group], std::span(first.data(), first.size() * step.sequences()));
    const std::span<const int32_t> words =
        std::span(std::bit_cast<const int32_t*>(step.words().data()), step.words().size());
    upload(at.first_pages[group], words.subspan(at.first_pages[group] - Layout::kStep, step.sequences()));
  }
  upload(at.sample_rows, step.sample_rows());
  upload(at.adjustments, step.adjustments());
  upload(at.masks, step.masks());
}

void WebGpuRunner::upload_embedded(const StepBuffer& step) {
  for (const HostEmbed& op : plan_->layout().host_embeds()) {
    embed(op, step);
    placed_->host().upload(placed_->memory(), uint64_t{plan_->layout().at(op.embed->out)} * 4,
                           std::as_bytes(std::span(embedded_)));
  }
}

void WebGpuRunner::embed(const HostEmbed& op, const StepBuffer& step) {
  const auto input = [&](ValueId value) { return static_cast<uint32_t>(input_of(program(), value)); };
  const std::span<const int32_t> ids = step.input_i32(input(op.embed->ids));
  const TensorSource& table = weights_[op.embed->weight];
  const uint32_t columns = table.shape.columns;
  embedded_.resize(ids.size() * columns);
  std::span<const int32_t> index;
  std::span<const float> rows;
  if (op.scatter != nullptr) {
    index = step.input_i32(input(op.scatter->index));
    rows = step.input_f32(input(op.scatter->rows));
  }
  const auto embed_row = [&](size_t row) {
    float* const to = embedded_.data() + row * columns;
    if (row < index.size() && index[row] >= 0) {
      const size_t from = static_cast<size_t>(index[row]) * columns;
      CHECK(from + columns <= rows.size());
      std::ranges::copy(rows.subspan(from, columns), to);
    } else if (placed_->has_weights()) {
      CHECK(ids[row] >= 0 && static_cast<uint32_t>(ids[row]) < table.shape.rows);
      decode_weight_row(table, 0, static_cast<uint32_t>(ids[row]), to);
      for (uint32_t i = 0; i < columns; ++i) to[i] *= op.embed->scale;
      if (op.embed->adapter) add_adapter(*op.embed, step, row, {to, columns});
    }
  };
  const auto embed_rows = [&](const Share& share) {
    for (size_t row = share.first; row < share.last; ++row) embed_row(row);
  };
  if (embedded_.size() < kManyEmbedded) return embed_rows({.first = 0, .last = ids.size()});
  if (!pool_) pool_ = std::make_unique<ThreadPool>(std::min(available_processors(), kMostThreads));
  pool_->parallel(ids.size(), 0, embed_rows);
}

void WebGpuRunner::add_adapter(const Embed& op, const StepBuffer& step, size_t row, std::span<float> to) const {
  const auto input = [&](ValueId value) { return static_cast<uint32_t>(input_of(program(), value)); };
  const int32_t slot = step.input_i32(input(op.adapter.slots))[row];
  const int32_t token = step.input_i32(input(op.adapter_tokens))[row];
  const float scale = step.input_f32(input(op.adapter.scales))[row];
  CHECK(slot >= 0 && token >= 0);
  if (slot == 0 || scale == 0.0f) return;
  add_embedding_adapter(weights_[op.adapter.a], weights_[op.adapter.b], static_cast<uint32_t>(slot - 1),
                        static_cast<uint32_t>(token), op.scale * scale, to);
}

void WebGpuRunner::submit(Started started, std::span<const HostRead> reads) {
  started.host = placed_->host().submit(commands_, reads);
  commands_.clear();
  started_.push_back(std::move(started));
}

Ticket WebGpuRunner::submit(std::span<const HostRead> reads) {
  submit({.ticket = ++last_ticket_}, reads);
  return last_ticket_;
}

template <class F>
void WebGpuRunner::each_state(uint32_t group, uint32_t page, F&& f) const {
  for (uint32_t i = 0; i < program().states.size(); ++i) {
    if (program().states[i].group != group) continue;
    const uint64_t bytes = plan_->layout().state(i).page_words * 4;
    f(i, page * bytes, bytes);
  }
}

// A buffer cannot be copied within itself.
Ticket WebGpuRunner::copy_page(uint32_t group, uint32_t from, uint32_t to) {
  commands_.clear();
  each_state(group, from, [&](uint32_t state, uint64_t offset, uint64_t bytes) {
    commands_.copy({placed_->state(state), offset, bytes}, placed_->bounce(), 0);
    commands_.copy({placed_->bounce(), 0, bytes}, placed_->state(state), to * bytes);
  });
  return submit({});
}

Ticket WebGpuRunner::read_page(uint32_t group, uint32_t page, std::span<std::byte> into) {
  CHECK(into.size() == plan_->page_bytes(group));
  commands_.clear();
  std::vector<HostRead> reads;
  each_state(group, page, [&](uint32_t state, uint64_t offset, uint64_t bytes) {
    reads.push_back({placed_->state(state), offset, into.first(bytes)});
    into = into.subspan(bytes);
  });
  return submit(reads);
}

Ticket WebGpuRunner::write_page(uint32_t group, uint32_t page, std::span<const std::byte> from) {
  CHECK(from.size() == plan_->page_bytes(group));
  commands_.clear();
  each_state(group, page, [&](uint32_t state, uint64_t offset, uint64_t bytes) {
    placed_->host().upload(placed_->state(state), offset, from.first(bytes));
    from = from.subspan(bytes);
  });
  return submit({});
}

std::optional<DispatchCounts> WebGpuRunner::dispatch_counts() const {
  const std::vector<Dispatch>& played = plan_->dispatches(TokenClass::decode).list;
  const std::vector<int32_t>& layers = program().layers;  // by op
  const auto of_one_row = [](const Dispatch& dispatch) { return dispatch.grid.is_of_one_row(); };
  const auto in_layer = [&](const Dispatch& dispatch) { return of_one_row(dispatch) && layers[dispatch.op] >= 0; };
  return DispatchCounts{
      .token = static_cast<uint32_t>(std::count_if(played.begin(), played.end(), of_one_row)),
      .in_layers = static_cast<uint32_t>(std::count_if(played.begin(), played.end(), in_layer)),
      .layers = layers.empty() ? 0 : static_cast<uint32_t>(*std::max_element(layers.begin(), layers.end()) + 1),
      .pipelines = placed_->host().pipelines()};
}

std::optional<Completion> WebGpuRunner::poll() {
  if (!upload_weights()) return std::nullopt;
  while (ready_.empty() && !started_.empty()) {
    std::optional<Status> ended = placed_->host().poll(started_.front().host);
    if (!ended) return std::nullopt;
    Started first = std::move(started_.front());
    started_.pop_front();
    if (first.brings == Brings::nothing) continue;
    if (first.brings == Brings::choice && *ended) {
      if (std::optional<Completion> stops = stretches_.chosen()) ready_.push_back(*std::move(stops));
      continue;
    }
    if (first.brings == Brings::choice) {
      stretches_.drop();
      flight_.reset();
    }
    Completion& completion = ready_.emplace_back(Completion{.ticket = first.ticket, .status = *std::move(ended)});
    completion.used = std::move(first.used);
    if (completion.status && first.looked_at != nullptr) completion.non_finite = find_non_finite(first);
  }
  if (ready_.empty()) return std::nullopt;
  Completion first = std::move(ready_.front());
  ready_.pop_front();
  return first;
}

std::optional<NonFinite> WebGpuRunner::find_non_finite(const Started& started) const {
  const auto found = std::find_if(started.flags.begin(), started.flags.end(), [](uint32_t row) { return ~row != 0; });
  if (found == started.flags.end()) return std::nullopt;
  const auto op = static_cast<uint32_t>(found - started.flags.begin());
  const LookedAt looked_at = LookedAt::of(*found);
  uint32_t row = looked_at.row, result = 0;
  const auto to_step_row = [&](ValueId id) {
    const ValueType& type = program().values[id].type;
    if (result++ != looked_at.result) return;
    row /= type.extent.ratio;
    if (type.extent.symbol != Symbol::wanted) return;
    // A number that a GPU wrote is not trusted as an index.
    const std::span<const int32_t> wanted = started.looked_at->wanted_rows();
    if (row < wanted.size()) row = static_cast<uint32_t>(wanted[row]);
  };
  for_each_output(program().ops[op], to_step_row);
  return NonFinite{
      .op = op, .layer = program().layers[op], .row = row, .what = std::string(op_name(program().ops[op]))};
}

}  // namespace sluice::webgpu
