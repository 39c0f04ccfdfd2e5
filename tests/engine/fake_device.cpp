#include "tests/engine/fake_device.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "device/reference/interpreter.h"

namespace sluice::fake {
namespace {

constexpr uint64_t kPoisoned = ~uint64_t{0};

uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15ull;
  return h ^ (h >> 29);
}

// What the tower makes of a row: 24 bits, so that a float holds them.
uint32_t tower_key(const MediaRow& media) {
  uint64_t key = mix(5, media.row);
  for (const uint8_t byte : media.content) key = mix(key, byte);
  return static_cast<uint32_t>(key >> 40);
}

// What stands in a row, and the last position that it sees.
uint64_t token_key(int32_t token) { return static_cast<uint64_t>(token); }
uint64_t media_key(uint32_t key, uint32_t last) { return mix(mix(9, key), last); }

// What goes into a row's cell besides the cells it sees.
uint64_t row_key(uint64_t content, TokenClass token_class, uint32_t position, uint32_t cut, bool any_class) {
  const uint64_t key = mix(mix(1, content), position);
  if (any_class) return key;
  return token_class == TokenClass::decode ? mix(key, 2) : mix(mix(key, 3), cut);
}

uint64_t see(uint64_t h, uint64_t cell) { return h == kPoisoned || cell == kPoisoned ? kPoisoned : mix(h, cell); }

// Behind `token`.
std::vector<float> logits_of(uint64_t h, int32_t token, bool repetitive) {
  std::vector<float> logits(kVocabulary);
  for (uint32_t v = 0; v < kVocabulary; ++v) {
    logits[v] = h == kPoisoned ? std::numeric_limits<float>::quiet_NaN()
                               : static_cast<float>(mix(h, v) >> 40) * (8.0f / (1 << 24)) - 4.0f;
  }
  if (repetitive && (h >> 17) % 8 != 0) logits[static_cast<size_t>(token * 5 + 1) % 48] += 20.0f;
  if (h != kPoisoned) logits[kPoison] = -100.0f;  // sampled only when it is asked for
  return logits;
}

class NoWeights : public WeightSource {
 public:
  Result<TensorSource> find(const std::string& name) const override {
    return error(ErrorKind::not_found, name, ": the fake has no weights");
  }
};

class FakePlan : public Plan {
 public:
  FakePlan(PlanRequest request, std::string numerics) : request_(std::move(request)), numerics_(std::move(numerics)) {}
  std::vector<MemoryLine> memory() const override {
    uint64_t pages = 0;
    for (const uint32_t count : request_.pages) pages += count;
    return {{Domain::host, Purpose::state, pages * kPageBytes}};
  }
  uint64_t page_bytes(uint32_t) const override { return kPageBytes; }
  std::string numerics_id() const override { return numerics_; }
  const PlanRequest& request() const { return request_; }

 private:
  PlanRequest request_;
  std::string numerics_;
};

class FakeRunner : public Runner {
 public:
  FakeRunner(const PlanRequest& request, Script& script, Reservation reservation)
      : script_(&script), program_(request.program), reservation_(std::move(reservation)) {
    for (const uint32_t count : request.pages) pages_.emplace_back(count, Page(64, 0xdeadull));
  }

  Ticket start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) override;
  Ticket copy_page(uint32_t group, uint32_t from, uint32_t to) override {
    ++script_->copies;
    pages_[group].at(to) = pages_[group].at(from);
    return done({});
  }
  Ticket read_page(uint32_t group, uint32_t page, std::span<std::byte> into) override {
    std::memcpy(into.data(), pages_[group].at(page).data(), kPageBytes);
    if (script_->reads++ == script_->fail_read) return done(error(ErrorKind::io, "fake: cannot read"));
    return done({});
  }
  Ticket write_page(uint32_t group, uint32_t page, std::span<const std::byte> from) override {
    std::memcpy(pages_[group].at(page).data(), from.data(), kPageBytes);
    return done({});
  }
  std::optional<Completion> poll() override {
    if (finished_.empty() || polls_++ < script_->polls_until_done) return std::nullopt;
    polls_ = 0;
    Completion first = std::move(finished_.front());
    finished_.pop_front();
    return first;
  }

 private:
  using Page = std::vector<uint64_t>;

  Ticket done(Status status, std::optional<NonFinite> non_finite = {}) {
    finished_.push_back({.ticket = ++last_ticket_, .status = std::move(status), .non_finite = std::move(non_finite)});
    return last_ticket_;
  }
  uint64_t& cell(const StepBuffer& step, uint32_t group, uint32_t sequence, uint32_t position);
  uint64_t& written_slot(const StepBuffer& step, uint32_t sequence) {
    return pages_[2].at(static_cast<size_t>(step.pages(2, sequence)[kSlotWritten]))[0];
  }
  void begin_slot(const StepBuffer& step, uint32_t sequence);
  void keep_slot(const StepBuffer& step, uint32_t sequence, uint32_t row);
  uint64_t compute_row(const StepBuffer& step, uint32_t row, uint32_t cut);
  void log(const StepBuffer& step, bool diagnosing);
  Ticket start_tower(const StepBuffer& step, const ReadRequest& read);
  uint64_t content_of(const StepBuffer& step, uint32_t row) const;
  void answer(const StepBuffer& step, const std::vector<uint64_t>& rows, std::span<const ReadRequest> reads);

  Script* script_;
  const Program* program_;
  Reservation reservation_;
  std::vector<std::vector<Page>> pages_;  // by group
  std::deque<Completion> finished_;
  Ticket last_ticket_ = 0;
  uint32_t polls_ = 0;
};

uint64_t& FakeRunner::cell(const StepBuffer& step, uint32_t group, uint32_t sequence, uint32_t position) {
  const int32_t entry = static_cast<int32_t>(position / 64) - step.first_page(group, sequence);
  const std::span<const int32_t> table = step.pages(group, sequence);
  CHECK(entry >= 0 && static_cast<size_t>(entry) < table.size());
  return pages_[group].at(static_cast<size_t>(table[static_cast<size_t>(entry)])).at(position % 64);
}

void FakeRunner::begin_slot(const StepBuffer& step, uint32_t sequence) {
  const int32_t read = step.pages(2, sequence)[kSlotRead];
  CHECK(read != step.pages(2, sequence)[kSlotWritten]);
  written_slot(step, sequence) = read < 0 ? 1 : pages_[2].at(static_cast<size_t>(read))[0];
}

uint64_t FakeRunner::content_of(const StepBuffer& step, uint32_t row) const {
  const bool has_media = program_->inputs.size() > 2;
  const int32_t media = has_media ? step.input_i32(2)[row] : -1;
  if (media < 0) return token_key(step.input_i32(0)[row]);
  const float key = step.input_f32(3)[static_cast<size_t>(media)];
  return media_key(static_cast<uint32_t>(key), static_cast<uint32_t>(step.input_i32(4)[row]));
}

// Its rows are its input.
Ticket FakeRunner::start_tower(const StepBuffer& step, const ReadRequest& read) {
  if (script_->tower_starts++ == script_->fail_tower) return done(error(ErrorKind::io, "fake: the tower fell"));
  const std::span<const std::byte> rows = std::as_bytes(step.input_f32(0));
  CHECK(rows.size() == read.into.size());
  std::copy(rows.begin(), rows.end(), read.into.begin());
  return done({});
}

uint64_t FakeRunner::compute_row(const StepBuffer& step, uint32_t row, uint32_t cut) {
  const auto position = static_cast<uint32_t>(step.positions()[row]);
  const auto sequence = static_cast<uint32_t>(step.row_sequences()[row]);
  const int32_t token = step.input_i32(0)[row];
  uint64_t h = row_key(content_of(step, row), step.token_class(), position, cut, script_->classes_bit_equal);
  if (token == kPoison) h = kPoisoned;
  for (uint32_t j = 0; j < position; ++j) h = see(h, cell(step, 0, sequence, j));
  for (uint32_t j = position + 1 > kWindow ? position + 1 - kWindow : 0; j < position; ++j)
    h = see(h, cell(step, 1, sequence, j));
  if (script_->slots) {
    h = see(h, written_slot(step, sequence));
    written_slot(step, sequence) = see(h, 11);
  }
  cell(step, 0, sequence, position) = h;
  cell(step, 1, sequence, position) = see(h, 7);
  return h;
}

// The sequence's `row` was the last one computed.
void FakeRunner::keep_slot(const StepBuffer& step, uint32_t sequence, uint32_t row) {
  const std::span<const int32_t> entries = step.pages(2, sequence);
  if (kSlotEntries + row >= entries.size() || entries[kSlotEntries + row] < 0) return;
  CHECK(entries[kSlotEntries + row] != entries[kSlotRead] && entries[kSlotEntries + row] != entries[kSlotWritten]);
  pages_[2].at(static_cast<size_t>(entries[kSlotEntries + row]))[0] = written_slot(step, sequence);
}

void FakeRunner::log(const StepBuffer& step, bool diagnosing) {
  Script::Step seen{step.token_class(), step.rows(), step.wanted(), {}, diagnosing};
  seen.rows_of.resize(step.sequences());
  for (const int32_t sequence : step.row_sequences()) ++seen.rows_of[static_cast<size_t>(sequence)];
  script_->steps.push_back(seen);
}

Ticket FakeRunner::start(const StepBuffer& step, std::span<const ReadRequest> reads, const StartOptions& options) {
  if (program_->outputs[0].name == "rows") return start_tower(step, reads[0]);
  log(step, options.find_non_finite);
  if (script_->starts++ == script_->fail_step) {
    for (auto& group : pages_)
      for (Page& page : group) page.assign(64, 0xbadull);
    return done(error(ErrorKind::io, "fake: the device was lost"));
  }
  std::vector<uint64_t> rows;
  std::optional<NonFinite> found;
  uint32_t cut = 0, first_row = 0;
  for (uint32_t row = 0; row < step.rows(); ++row) {
    const auto position = static_cast<uint32_t>(step.positions()[row]);
    const auto sequence = static_cast<uint32_t>(step.row_sequences()[row]);
    const bool first = row == 0 || step.row_sequences()[row] != step.row_sequences()[row - 1];
    if (first) first_row = row;
    if (first && script_->slots) begin_slot(step, sequence);
    if (first || position % 64 == 0) cut = position;
    rows.push_back(compute_row(step, row, cut));
    if (script_->slots) keep_slot(step, sequence, row - first_row);
    if (rows.back() == kPoisoned && !found) found = NonFinite{.op = 5, .layer = 3, .row = row, .what = "rms_norm"};
  }
  answer(step, rows, reads);
  return done({}, options.find_non_finite ? found : std::nullopt);
}

void FakeRunner::answer(const StepBuffer& step, const std::vector<uint64_t>& rows, std::span<const ReadRequest> reads) {
  std::vector<float> logits;
  std::vector<SampleResult> results;
  const std::span<const int32_t> wanted = step.wanted_rows();
  for (size_t w = 0; w < wanted.size(); ++w) {
    const auto row = static_cast<size_t>(wanted[w]);
    const std::vector<float> values = logits_of(rows.at(row), step.input_i32(0)[row], script_->repetitive);
    const SampleRow& how = step.sample_rows()[w];
    results.push_back(reference::sample_row(values, how,
                                            step.adjustments().subspan(how.first_adjustment, how.adjustments),
                                            step.mask(how.mask), static_cast<uint32_t>(step.positions()[row])));
    logits.insert(logits.end(), values.begin(), values.end());
  }
  for (const ReadRequest& read : reads) {
    const bool is_logits = read.value == program_->outputs[0].value;
    const std::span<const std::byte> bytes =
        is_logits ? std::as_bytes(std::span(logits)) : std::as_bytes(std::span(results));
    CHECK(read.into.size() == bytes.size());
    std::copy(bytes.begin(), bytes.end(), read.into.begin());
  }
}

class FakeDevice : public Device {
 public:
  explicit FakeDevice(Script& script) : script_(&script) {}
  DeviceInfo info() const override {
    return {.name = "fake", .description = "cells", .classes_bit_equal = script_->classes_bit_equal};
  }
  Result<std::unique_ptr<Plan>> plan(const PlanRequest& request) const override {
    return std::unique_ptr<Plan>(std::make_unique<FakePlan>(request, script_->numerics));
  }
  Result<std::unique_ptr<Runner>> place(std::unique_ptr<Plan> plan, const WeightSource&, Budget& budget) override {
    const auto& own = static_cast<const FakePlan&>(*plan);
    TRY(Reservation held, budget.reserve(Domain::host, Purpose::state, own.memory()[0].bytes));
    return std::unique_ptr<Runner>(std::make_unique<FakeRunner>(own.request(), *script_, std::move(held)));
  }

 private:
  Script* script_;
};

}  // namespace

TextModel model(uint32_t context, bool slots) {
  static const NoWeights no_weights;
  const ValueType rows_i32{.extent = {Symbol::rows, 1}, .heads = 1, .width = 1, .element = Element::i32};
  const ValueType wanted_i32{.extent = {Symbol::wanted, 1}, .heads = 1, .width = 1, .element = Element::i32};
  const ValueType logits{.extent = {Symbol::wanted, 1}, .heads = 1, .width = kVocabulary};
  const ValueType sample{.extent = {Symbol::wanted, 1}, .heads = 1, .width = kSampleWords, .element = Element::i32};
  TextModel model;
  model.program.values = {{rows_i32, 0}, {wanted_i32, 1}, {logits, 2}, {sample, 3}};
  model.program.inputs = {{"tokens", 0}, {"wanted", 1}};
  model.program.symbols = {Symbol::rows, Symbol::wanted};
  model.program.outputs = {{"logits", 2}, {"sample", 3}};
  model.program.ops.emplace_back(Sample{.logits = 2, .out = 3});  // says how long a mask is
  model.program.groups = {{0}, {kWindow}};
  if (slots) model.program.groups.push_back({.kind = StateKind::slots});
  model.weights = &no_weights;
  model.vocabulary = kVocabulary;
  model.context = context;
  model.digest = [] { return std::string("fake model"); };
  return model;
}

TextModel media_model() {
  TextModel text = model();
  const ValueType rows_i32 = text.program.values[0].type;
  const ValueType media_f32{.extent = {Symbol::media_rows, 1}, .heads = 1, .width = 1};
  text.program.values.insert(text.program.values.end(), {{rows_i32, 4}, {media_f32, 5}, {rows_i32, 6}});
  text.program.inputs.insert(text.program.inputs.end(), {{"media", 4}, {"media_rows", 5}, {"last", 6}});
  text.program.symbols.push_back(Symbol::media_rows);
  TowerModel tower{.kind = ProgramKind::vision, .program = {}, .weights = text.weights};
  tower.program.values = {{media_f32, 0}};
  tower.program.inputs = {{"keys", 0}};
  tower.program.outputs = {{"rows", 0}};
  tower.program.symbols = {Symbol::media_rows};
  text.towers.push_back(std::move(tower));
  text.uncut_rows = 200;
  return text;
}

MediaDigest picture_digest(uint8_t name) {
  MediaDigest digest{};
  digest[15] = name;
  return digest;
}

MediaInput picture(uint8_t name, uint32_t rows) {
  auto inputs = std::make_shared<TowerInputs>();
  inputs->rows = rows;
  TowerInput& keys = inputs->inputs.emplace_back(TowerInput{.name = "keys", .words = {}});
  for (uint32_t row = 0; row < rows; ++row)
    keys.words.push_back(std::bit_cast<uint32_t>(static_cast<float>(tower_key({picture_digest(name), row}))));
  return {.content = picture_digest(name), .tower = ProgramKind::vision, .inputs = std::move(inputs)};
}

std::unique_ptr<Device> make_device(Script& script) { return std::make_unique<FakeDevice>(script); }

void Oracle::push(const HistoryToken& token, uint32_t ahead) {
  const auto p = static_cast<uint32_t>(history_.size());
  if (p % 64 == 0 || token.token_class != history_.back().token_class) cut_ = p;
  const uint64_t content = token.is_media() ? media_key(tower_key(token.media), p + ahead) : token_key(token.token);
  uint64_t h = row_key(content, token.token_class, p, cut_, any_class_);
  if (token.token == kPoison) h = kPoisoned;
  for (uint32_t j = 0; j < p; ++j) h = see(h, cells_[j]);
  for (uint32_t j = p + 1 > kWindow ? p + 1 - kWindow : 0; j < p; ++j) h = see(h, see(cells_[j], 7));
  if (slots_) {
    h = see(h, state_);
    state_ = see(h, 11);
  }
  cells_.push_back(h);
  history_.push_back(token);
}

std::vector<float> Oracle::logits() const { return logits_of(cells_.back(), history_.back().token, repetitive_); }

int32_t Oracle::next(const SamplingSettings& settings, uint32_t choice) const {
  const std::vector<Adjustment> adjustments = sample_adjustments(settings, history_, {});
  SampleRow row = sample_row(settings, choice);
  row.adjustments = static_cast<uint32_t>(adjustments.size());
  return reference::sample_row(logits(), row, adjustments, {}, static_cast<uint32_t>(history_.size() - 1)).token;
}

std::vector<float> oracle(const History& history, bool any_class) {
  Oracle oracle(any_class);
  for (const HistoryToken& token : history) oracle.push(token);
  return oracle.logits();
}

}  // namespace sluice::fake
