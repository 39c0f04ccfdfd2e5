#include "engine/trace.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/text.h"
#include "base/threads.h"
#include "engine/draft/draft_head.h"
#include "engine/media/tower.h"
#include "engine/plan/layout.h"
#include "engine/state/pages.h"
#include "engine/step_fill.h"

namespace sluice {
namespace {

Status wait(Runner& runner, Ticket ticket) {
  for (;;) {
    const std::optional<Completion> completion = runner.poll();
    if (completion && completion->ticket == ticket) return completion->status;
    if (!completion) wait_a_moment();
  }
}

// A plan for one step of `rows` rows, all wanted.
PlanRequest traced_plan(const Program& program, Arithmetic arithmetic, uint32_t rows, bool traced) {
  PlanRequest request{.program = &program, .arithmetic = arithmetic, .maxima = {}, .pages = {}};
  request.traced = traced;
  request.maxima = {.counts = text_counts(rows, rows), .sequences = 1, .pages_per_sequence = {}};
  if (has_symbol(program, Symbol::media_rows)) request.maxima.counts[Symbol::media_rows] = rows;
  for (const PageGroup& group : program.groups) {
    const uint32_t pages = group.kind == StateKind::slots ? kSlotEntries : pages_for(rows);
    request.maxima.pages_per_sequence.push_back(pages);
    request.pages.push_back(pages);
  }
  return request;
}

TracedValue room_for(const Program& program, const NamedValue& named, const StepBuffer& step) {
  const ValueType& type = program.values[named.value].type;
  TracedValue value{.name = named.name,
                    .rows = static_cast<size_t>(step.rows_of(type.extent)),
                    .columns = static_cast<size_t>(type.columns()),
                    .floats = {},
                    .integers = {}};
  const size_t elements = value.rows * value.columns;
  type.element == Element::f32 ? value.floats.resize(elements) : value.integers.resize(elements);
  return value;
}

std::span<std::byte> bytes_of(TracedValue& value) {
  return value.floats.empty() ? std::as_writable_bytes(std::span(value.integers))
                              : std::as_writable_bytes(std::span(value.floats));
}

// Puts heads into the order of NamedValue::heads.
void order_heads(TracedValue& value, const ValueType& type, const std::vector<uint32_t>& heads) {
  if (heads.empty() || type.element != Element::f32) return;
  std::vector<float> ordered;
  ordered.reserve(value.rows * heads.size() * type.width);
  for (size_t row = 0; row < value.rows; ++row) {
    for (const uint32_t head : heads) {
      const auto begin = value.floats.begin() + static_cast<std::ptrdiff_t>(row * value.columns + head * type.width);
      ordered.insert(ordered.end(), begin, begin + type.width);
    }
  }
  value.floats = std::move(ordered);
  value.columns = heads.size() * type.width;
}

std::vector<NamedValue> names_and(const Program& program, const char* output) {
  std::vector<NamedValue> named = program.names;
  named.push_back(*std::ranges::find(program.outputs, output, &NamedValue::name));
  return named;
}

Result<Trace> run_step(Runner& runner, const StepBuffer& step, const std::vector<NamedValue>& named) {
  Trace values;
  values.reserve(named.size());  // the reads point into them
  std::vector<ReadRequest> reads;
  for (const NamedValue& one : named) {
    values.push_back(room_for(step.program(), one, step));
    reads.push_back({one.value, bytes_of(values.back())});
  }
  TRY_STATUS(wait(runner, runner.start(step, reads)));
  for (size_t i = 0; i < named.size(); ++i)
    order_heads(values[i], step.program().values[named[i].value].type, named[i].heads);
  return values;
}

// Rows that a tower made, in the place of tokens.
struct ShownRows {
  MediaSpan span;
  std::vector<float> rows;
};

Result<std::vector<float>> rows_of(const TowerModel& model, const TowerInputs& inputs, Device& device, Budget& budget,
                                   Arithmetic arithmetic) {
  TRY(const std::unique_ptr<Tower> tower, Tower::create(model, device, budget, arithmetic, inputs.rows));
  TRY(const ValueId value, tower_rows(model.program));
  std::vector<float> rows(inputs.rows * static_cast<size_t>(model.program.values[value].type.columns()));
  TRY_STATUS(tower->start(inputs, rows));
  for (;;) {
    if (const std::optional<Status> ended = tower->poll()) {
      TRY_STATUS(*ended);
      return rows;
    }
    if (!tower->computes_in_poll()) wait_a_moment();
  }
}

Result<std::vector<ShownRows>> shown_rows(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic,
                                          const TracedPrompt& prompt) {
  std::vector<ShownRows> shown;
  for (const MediaSpan& span : prompt.spans) {
    const auto input = std::ranges::find(prompt.media, span.content, &MediaInput::content);
    CHECK(input != prompt.media.end());
    TRY(Program program, model.record(input->tower));
    const TowerModel tower{input->tower, std::move(program), &model.weights_of(input->tower)};
    TRY(std::vector<float> rows, rows_of(tower, *input->inputs, device, budget, arithmetic));
    shown.push_back({span, std::move(rows)});
  }
  return shown;
}

// The rows of all pictures, one after another, as goldens have them; those of sounds likewise.
void add_soft_tokens(const TracedPrompt& prompt, const std::vector<ShownRows>& shown, Trace& traced) {
  for (const auto& [kind, name] :
       {std::pair(ProgramKind::vision, "vision.soft_tokens"), std::pair(ProgramKind::audio, "audio.soft_tokens")}) {
    TracedValue all{.name = name, .rows = 0, .columns = 0, .floats = {}, .integers = {}};
    for (const ShownRows& one : shown) {
      if (std::ranges::find(prompt.media, one.span.content, &MediaInput::content)->tower != kind) continue;
      all.rows += one.span.rows;
      all.floats.insert(all.floats.end(), one.rows.begin(), one.rows.end());
    }
    if (all.rows == 0) continue;
    size_t number = 0;  // goldens also have them one by one
    for (const ShownRows& one : shown) {
      if (std::ranges::find(prompt.media, one.span.content, &MediaInput::content)->tower != kind) continue;
      traced.push_back({.name = cat(name, ".", number++),
                        .rows = one.span.rows,
                        .columns = one.rows.size() / one.span.rows,
                        .floats = one.rows,
                        .integers = {}});
    }
    all.columns = all.floats.size() / all.rows;
    traced.insert(traced.begin(), std::move(all));
  }
}

// The values to read, of all rows or with wanted rows of the last alone.
struct Wanted {
  std::vector<NamedValue> values;
  bool last_alone = false;
};
Wanted all_named(const Program& program) { return {.values = names_and(program, "logits")}; }

Result<Trace> trace_shown(const Program& program, const WeightSource& weights, Device& device, Budget& budget,
                          Arithmetic arithmetic, std::span<const int32_t> tokens, const std::vector<ShownRows>& shown,
                          const Wanted& wanted, const AdapterRow& adapter = {}) {
  if (tokens.empty()) return error(ErrorKind::invalid, "trace: has no tokens: want some");
  const auto rows = static_cast<uint32_t>(tokens.size());
  TRY(const TextPorts ports, find_ports(program));
  const uint64_t vocabulary = program.values[ports.logits].type.columns();
  TRY_STATUS(check_tokens("trace", tokens, static_cast<uint32_t>(vocabulary)));
  PlanRequest request = traced_plan(program, arithmetic, rows, !wanted.last_alone);
  TRY(request.weights, placed_shapes(program, weights));
  TRY(std::unique_ptr<Plan> plan, device.plan(request));
  TRY(const std::unique_ptr<Runner> runner, device.place(std::move(plan), weights, budget));

  Cache cache(program.groups, request.pages, false);
  CachedHistory text = cache.empty();
  for (const int32_t token : tokens) text.history.push_back({token, TokenClass::prompt});
  std::vector<const float*> media(tokens.size());
  for (const ShownRows& one : shown) {
    for (uint32_t row = 0; row < one.span.rows; ++row) {
      text.history[one.span.at + row].media = {one.span.content, row, one.span.shape};
      media[one.span.at + row] = one.rows.data() + row * (one.rows.size() / one.span.rows);
    }
  }
  text.grids.extend(text.history);
  std::vector<PageCopy> copies;
  CHECK(cache.provide(text, rows, 1, copies));
  StepPart part{.sequence = &text, .begin = 0, .end = rows};
  if (ports.media) part.media = std::move(media);
  part.adapter = adapter;
  part.wanted.resize(wanted.last_alone ? 1 : rows);
  std::iota(part.wanted.begin(), part.wanted.end(), wanted.last_alone ? rows - 1 : 0u);
  StepBuffer step(program, request.maxima);
  fill_step(step, ports, TokenClass::prompt, std::span(&part, 1));
  return run_step(*runner, step, wanted.values);
}

}  // namespace

Result<Trace> trace(const Program& program, const WeightSource& weights, Device& device, Budget& budget,
                    Arithmetic arithmetic, std::span<const int32_t> tokens) {
  return trace_shown(program, weights, device, budget, arithmetic, tokens, {}, all_named(program));
}

Result<Trace> trace(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic,
                    const TracedPrompt& prompt) {
  std::vector<AdapterSum> sums;
  if (const AdapterSum some = acting(prompt.adapters); !some.empty()) sums.push_back(some);
  TRY(const Program program, model.record_text({.all_named = true, .adapters = AdapterSlots::options(sums)}));
  TRY(const std::unique_ptr<AdapterSlots> slots, AdapterSlots::plan(program, model.weights(), sums));
  AdapterRow adapter;
  Reservation reservation;
  if (slots) {
    TRY_ASSIGN(reservation, budget.reserve(Domain::host, Purpose::adapters, slots->bytes()));
    slots->take();
    TRY_ASSIGN(adapter, slots->row_of(prompt.adapters));
  }
  const WeightSource& weights = slots ? static_cast<const WeightSource&>(*slots) : model.weights();
  TRY(const std::vector<ShownRows> shown, shown_rows(model, device, budget, arithmetic, prompt));
  TRY(Trace traced,
      trace_shown(program, weights, device, budget, arithmetic, prompt.tokens, shown, all_named(program), adapter));
  add_soft_tokens(prompt, shown, traced);
  return traced;
}

namespace {

// A draft head behind a prompt, and the tokens from which it guesses.
class TracedHead {
 public:
  TracedHead(const Model& model, std::span<const int32_t> prompt, std::span<const int32_t> tokens)
      : model_(model), prompt_(prompt), tokens_(tokens) {}

  Status place(Program head, Device& device, Budget& budget, Arithmetic arithmetic) {
    head_ = std::move(head);
    const auto rows = static_cast<uint32_t>(prompt_.size() + tokens_.size());
    PlanRequest request = traced_plan(head_, arithmetic, rows, /*traced=*/true);
    const WeightSource& weights = model_.weights_of(ProgramKind::draft_head);
    TRY(request.weights, placed_shapes(head_, weights));
    TRY(std::unique_ptr<Plan> plan, device.plan(request));
    TRY(runner_, device.place(std::move(plan), weights, budget));
    step_.emplace(head_, request.maxima);
    named_ = names_and(head_, "hidden");
    named_.push_back(*std::ranges::find(head_.outputs, "logits", &NamedValue::name));
    return {};
  }

  // The guess behind tokens [0, guess]. `hidden`: what it takes for the text's hidden rows.
  Result<Trace> guess(size_t guess, const Trace& text, const std::vector<float>& hidden) {
    const size_t begin = in_place() || guess == 0 ? 0 : prompt_.size() - 1 + guess;
    const auto rows = static_cast<uint32_t>(begin == 0 ? prompt_.size() : 1);
    step_->reset(guess == 0 ? TokenClass::prompt : TokenClass::decode, text_counts(rows, 1), 1, 0);
    fill_places(begin);
    fill_integers(guess, begin);
    for (const DraftHead::Carried& carried : DraftHead::carried_by(head_)) {
      const auto given = std::ranges::find(text, carried.name, &TracedValue::name);
      std::ranges::copy(carried.name == "hidden" && guess > 0 ? hidden : given->floats,
                        step_->input_f32(carried.input).begin());
    }
    step_->fill_ropes();
    return run_step(*runner_, *step_, named_);
  }

 private:
  // Whether all guesses are made at the prompt's last row.
  bool in_place() const {
    const auto tokens = std::ranges::find(head_.inputs, "tokens", &NamedValue::name);
    return head_.values[tokens->value].type.extent.symbol == Symbol::wanted;
  }

  void fill_places(size_t begin) {
    std::iota(step_->positions().begin(), step_->positions().end(), static_cast<int32_t>(begin));
    std::ranges::fill(step_->row_sequences(), 0);
    for (uint32_t group = 0; group < head_.groups.size(); ++group) {
      step_->first_page(group, 0) = 0;
      std::iota(step_->pages(group, 0).begin(), step_->pages(group, 0).end(), 0);
    }
  }

  void fill_integers(size_t guess, size_t begin) {
    for (uint32_t input = 0; input < head_.inputs.size(); ++input) {
      const std::string& name = head_.inputs[input].name;
      if (name == "wanted") step_->input_i32(input)[0] = static_cast<int32_t>(step_->rows() - 1);
      if (name == "tokens" && in_place()) step_->input_i32(input)[0] = tokens_[guess];
      for (size_t row = 0; row < step_->rows(); ++row) {
        if (name == "tokens" && !in_place()) step_->input_i32(input)[row] = token_at(begin + row + 1);
        if (name == "positions") step_->input_i32(input)[row] = static_cast<int32_t>(begin + row + 1);
      }
    }
  }

  int32_t token_at(size_t position) const {
    return position < prompt_.size() ? prompt_[position] : tokens_[position - prompt_.size()];
  }

  const Model& model_;
  std::span<const int32_t> prompt_, tokens_;
  Program head_;
  std::unique_ptr<Runner> runner_;
  std::optional<StepBuffer> step_;
  std::vector<NamedValue> named_;
};

}  // namespace

Result<DraftTrace> trace_drafts(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic,
                                std::span<const int32_t> prompt, std::span<const int32_t> tokens) {
  TRY(Program head, model.record(ProgramKind::draft_head));
  TRY_STATUS(check_tokens("trace", tokens, model.facts().vocabulary));
  TRY(const Program text, model.record_text({.hidden = true}));
  Wanted wanted{.values = {}, .last_alone = true};
  for (const DraftHead::Carried& carried : DraftHead::carried_by(head)) {
    const auto found = std::ranges::find(text.outputs, carried.name, &NamedValue::name);
    if (found == text.outputs.end())
      return error(ErrorKind::unsupported, "text program: has no value ", carried.name, ": want it to draft");
    wanted.values.push_back(*found);
  }
  DraftTrace traced;
  TRY(traced.text, trace_shown(text, model.weights(), device, budget, arithmetic, prompt, {}, wanted));
  TracedHead traced_head(model, prompt, tokens);
  TRY_STATUS(traced_head.place(std::move(head), device, budget, arithmetic));
  std::vector<float> hidden;
  for (size_t guess = 0; guess < tokens.size(); ++guess) {
    TRY(Trace one, traced_head.guess(guess, traced.text, hidden));
    hidden = std::ranges::find(one, "hidden", &TracedValue::name)->floats;
    if (guess == 0) {
      traced.drafts = std::move(one);
      continue;
    }
    for (size_t i = 0; i < one.size(); ++i) {
      traced.drafts[i].rows += one[i].rows;
      traced.drafts[i].floats.insert(traced.drafts[i].floats.end(), one[i].floats.begin(), one[i].floats.end());
    }
  }
  return traced;
}

}  // namespace sluice
