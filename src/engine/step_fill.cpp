#include "engine/step_fill.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace sluice {
namespace {

// The place of the next part's rows in the step.
struct Cursor : PartPlace {
  uint32_t wanted = 0;
  uint32_t adjustment = 0;
  uint32_t mask = 0;
};

uint32_t media_of(const StepPart& part) {
  return static_cast<uint32_t>(part.media.size() - std::count(part.media.begin(), part.media.end(), nullptr));
}

// The rows of pictures and sounds go side by side into the step; the others are -1.
void fill_media(StepBuffer& step, const TextPorts& ports, const StepPart& part, const PartPlace& at) {
  const std::span<int32_t> index = step.input_i32(*ports.media);
  const std::span<float> rows = step.input_f32(*ports.media_rows);
  uint32_t next = at.media;
  for (uint32_t i = 0; i < part.end - part.begin; ++i) {
    const float* const row = i < part.media.size() ? part.media[i] : nullptr;
    index[at.row + i] = row == nullptr ? -1 : static_cast<int32_t>(next);
    if (row != nullptr) std::copy_n(row, ports.media_columns, rows.data() + size_t{next++} * ports.media_columns);
  }
}

// A row sees itself, or, in a picture that sees ahead, the picture's last row.
void fill_last(std::span<int32_t> last, const StepPart& part) {
  const History& history = part.sequence->history;
  for (uint32_t position = part.end; position-- > part.begin;) {
    int32_t& seen = last[position - part.begin];
    seen = static_cast<int32_t>(position);
    const bool goes_on = position + 1 < part.end && is_inside_media(history, position + 1);
    if (goes_on && history[position].media.shape.sees_ahead != 0) seen = last[position + 1 - part.begin];
  }
}

// Time, height and width of each row; drafts go on as text.
void fill_places(std::span<int32_t> places, const StepPart& part) {
  const GridRuns& grids = part.sequence->grids;
  CHECK(grids.length() == part.sequence->history.size());
  fill_coordinates(grids.list(), part.begin, part.end, places.first(size_t{part.end - part.begin} * kCoordinates));
}

void fill_adapters(StepBuffer& step, const TextPorts& ports, const StepPart& part, uint32_t first) {
  std::ranges::fill(step.input_i32(*ports.adapter_slots).subspan(first, part.end - part.begin), part.adapter.slot);
  std::ranges::fill(step.input_f32(*ports.adapter_scales).subspan(first, part.end - part.begin), part.adapter.scale);
}

// The slot provided for the state after `end` positions, or -1.
int32_t slot_after(const CachedHistory& history, uint32_t group, uint32_t end) {
  const PageTable& next = history.slots[group].next;
  const uint32_t behind = history.provided - end;
  return behind < next.end() ? static_cast<int32_t>(next.page(next.end() - 1 - behind)) : -1;
}

void fill_slots(std::span<int32_t> entries, uint32_t group, const StepPart& part) {
  const PageTable& now = part.sequence->slots[group].now;
  entries[kSlotRead] = part.sequence->cached == 0 ? -1 : static_cast<int32_t>(now.page(now.first()));
  entries[kSlotWritten] = slot_after(*part.sequence, group, part.end);
  for (uint32_t row = 0; kSlotEntries + row < entries.size(); ++row) {
    const uint32_t end = part.begin + row + 1;
    entries[kSlotEntries + row] = end < part.end ? slot_after(*part.sequence, group, end) : -1;
  }
}

void fill_pages(StepBuffer& step, uint32_t sequence, const StepPart& part) {
  const CachedHistory& history = *part.sequence;
  for (uint32_t g = 0; g < history.tables.size(); ++g) {
    const PageTable& table = history.tables[g];
    const std::span<int32_t> pages = step.pages(g, sequence);
    if (step.program().groups[g].kind == StateKind::slots) {
      fill_slots(pages, g, part);
      continue;
    }
    CHECK(table.end() - table.first() <= pages.size());
    step.first_page(g, sequence) = static_cast<int32_t>(table.first());
    for (uint32_t i = table.first(); i < table.end(); ++i)
      pages[i - table.first()] = static_cast<int32_t>(table.page(i));
  }
}

uint32_t masks_of(const StepPart& part) {
  const auto is_masked = [](const RowSampling& sampling) { return !sampling.mask.empty(); };
  return static_cast<uint32_t>(std::ranges::count_if(part.sampling, is_masked));
}

uint32_t adjustments_of(const StepPart& part) {
  size_t count = 0;
  for (const RowSampling& sampling : part.sampling) count += sampling.adjustments.size();
  return static_cast<uint32_t>(count);
}

void fill_wanted(StepBuffer& step, uint32_t wanted_port, const StepPart& part, const Cursor& at) {
  const std::span<int32_t> wanted = step.input_i32(wanted_port);
  for (uint32_t i = 0; i < part.wanted.size(); ++i)
    wanted[at.wanted + i] = static_cast<int32_t>(at.row + part.wanted[i] - part.begin);
  uint32_t adjustment = at.adjustment, mask = at.mask;
  auto row =
      step.sample_rows().begin() + at.wanted + static_cast<std::ptrdiff_t>(part.wanted.size() - part.sampling.size());
  for (const RowSampling& sampling : part.sampling) {
    const auto count = static_cast<uint32_t>(sampling.adjustments.size());
    *row = sampling.row;
    row->first_adjustment = adjustment;
    row->adjustments = count;
    std::copy(sampling.adjustments.begin(), sampling.adjustments.end(), step.adjustments().begin() + adjustment);
    adjustment += count;
    if (!sampling.mask.empty()) {
      row->mask = ++mask;
      const std::span<uint32_t> into = step.mask(mask);
      // Rows of the head that the tokenizer has no token for are forbidden.
      const size_t words = std::min(into.size(), sampling.mask.size());
      std::ranges::copy(sampling.mask.first(words), into.begin());
      std::ranges::fill(into.subspan(words), 0u);
    }
    ++row;
  }
}

}  // namespace

Status check_tokens(std::string_view where, std::span<const int32_t> tokens, uint32_t vocabulary) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && static_cast<uint32_t>(tokens[i]) < vocabulary) continue;
    return error(ErrorKind::invalid, where, ": token ", i, " is ", tokens[i], ": want 0 to ", vocabulary - 1);
  }
  return {};
}

std::vector<int32_t> input_tokens(const Program& program, const StepPart& part) {
  const auto& [placeholders, read_as] = program.placeholders;
  const History& history = part.sequence->history;
  std::vector<int32_t> tokens;
  tokens.reserve(part.end - part.begin);
  for (uint32_t position = part.begin; position < part.end; ++position) {
    const int32_t token = position < history.size() ? history[position].token : part.drafts[position - history.size()];
    const bool stands_in = std::find(placeholders.begin(), placeholders.end(), token) != placeholders.end();
    tokens.push_back(stands_in ? read_as : token);
  }
  return tokens;
}

std::vector<RowSampling> row_samplings(const SamplingSettings& settings, uint32_t choice, const History& history,
                                       std::span<const int32_t> guesses, std::span<const int32_t> suppressed) {
  const auto sampling = [&](const History& before) {
    return RowSampling{.row = sample_row(settings, choice),
                       .adjustments = sample_adjustments(settings, before, suppressed)};
  };
  std::vector<RowSampling> rows{sampling(history)};
  if (guesses.empty()) return rows;
  const size_t kept = std::min<size_t>(history.size(), kMaxPenaltyWindow);  // no adjustment depends on older tokens
  History recent(history.end() - static_cast<std::ptrdiff_t>(kept), history.end());
  for (const int32_t guess : guesses) {
    recent.push_back({guess, TokenClass::decode});
    rows.push_back(sampling(recent));
  }
  return rows;
}

void fill_rows(StepBuffer& step, const TextPorts& ports, uint32_t sequence, const StepPart& part, const PartPlace& at) {
  uint32_t row = at.row;
  const std::vector<int32_t> tokens = input_tokens(step.program(), part);
  std::copy(tokens.begin(), tokens.end(), step.input_i32(ports.tokens).begin() + row);
  if (ports.media) fill_media(step, ports, part, at);
  if (ports.adapter_slots) fill_adapters(step, ports, part, row);
  if (ports.last) fill_last(step.input_i32(*ports.last).subspan(row), part);
  if (ports.coordinates) fill_places(step.input_i32(*ports.coordinates).subspan(size_t{row} * kCoordinates), part);
  for (uint32_t position = part.begin; position < part.end; ++position, ++row) {
    step.positions()[row] = static_cast<int32_t>(position);
    step.row_sequences()[row] = static_cast<int32_t>(sequence);
  }
}

void fill_step(StepBuffer& step, const TextPorts& ports, TokenClass token_class, std::span<const StepPart> parts) {
  Cursor total;
  for (const StepPart& part : parts) {
    total.row += part.end - part.begin;
    total.wanted += static_cast<uint32_t>(part.wanted.size());
    total.adjustment += adjustments_of(part);
    total.mask += masks_of(part);
    total.media += media_of(part);
  }
  SymbolCounts counts = text_counts(total.row, total.wanted);
  counts[Symbol::media_rows] = total.media;
  step.reset(token_class, counts, static_cast<uint32_t>(parts.size()), total.adjustment, total.mask);
  Cursor at;
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const StepPart& part = parts[i];
    CHECK(!part.wanted.empty() && part.wanted.back() == part.end - 1);
    fill_rows(step, ports, i, part, at);
    fill_pages(step, i, part);
    fill_wanted(step, ports.wanted, part, at);
    at.row += part.end - part.begin;
    at.wanted += static_cast<uint32_t>(part.wanted.size());
    at.adjustment += adjustments_of(part);
    at.mask += masks_of(part);
    at.media += media_of(part);
  }
  step.fill_ropes();
}

void fill_alone(StepBuffer& step, const TextPorts& ports, TokenClass token_class, uint32_t rows, uint32_t end,
                uint32_t vocabulary) {
  step.reset(token_class, text_counts(rows, 1), 1, 0);
  for (uint32_t row = 0; row < rows; ++row) {
    step.positions()[row] = static_cast<int32_t>(end - rows + row);
    step.input_i32(ports.tokens)[row] = static_cast<int32_t>(philox4x32({row, 0, 0, 0}, {})[0] % vocabulary);
  }
  step.input_i32(ports.wanted)[0] = static_cast<int32_t>(rows - 1);
  if (ports.media) std::ranges::fill(step.input_i32(*ports.media), -1);
  if (ports.adapter_slots) std::ranges::fill(step.input_i32(*ports.adapter_slots), 0);
  if (ports.adapter_scales) std::ranges::fill(step.input_f32(*ports.adapter_scales), 0.0f);
  if (ports.last) std::ranges::copy(step.positions(), step.input_i32(*ports.last).begin());
  if (ports.coordinates) fill_coordinates({}, end - rows, end, step.input_i32(*ports.coordinates));
  for (uint32_t group = 0; group < step.program().groups.size(); ++group) {
    const std::span<int32_t> pages = step.pages(group, 0);
    std::iota(pages.begin(), pages.end(), 0);
  }
  step.sample_rows()[0] = {};
  step.fill_ropes();
}

}  // namespace sluice
