#include "engine/step_fill.h"

#include <algorithm>

namespace sluice {
namespace {

// Where the next part's rows go.
struct Cursor {
  uint32_t row = 0;
  uint32_t wanted = 0;
  uint32_t adjustment = 0;
};

void fill_rows(StepBuffer& step, uint32_t tokens_port, uint32_t sequence, const StepPart& part, uint32_t row) {
  const std::span<int32_t> tokens = step.input_i32(tokens_port);
  const Placeholders& placeholders = step.program().placeholders;
  for (uint32_t position = part.begin; position < part.end; ++position, ++row) {
    const int32_t token = part.sequence->history[position].token;
    const bool stands_in =
        std::find(placeholders.tokens.begin(), placeholders.tokens.end(), token) != placeholders.tokens.end();
    tokens[row] = stands_in ? placeholders.read_as : token;
    step.positions()[row] = static_cast<int32_t>(position);
    step.row_sequences()[row] = static_cast<int32_t>(sequence);
  }
}

void fill_pages(StepBuffer& step, uint32_t sequence, const CachedHistory& history) {
  for (uint32_t g = 0; g < history.tables.size(); ++g) {
    const PageTable& table = history.tables[g];
    const std::span<int32_t> pages = step.pages(g, sequence);
    if (step.program().groups[g].kind == StateKind::slots) {
      const auto& [now, next] = history.slots[g];
      pages[kSlotRead] = history.cached == 0 ? -1 : static_cast<int32_t>(now.page(now.first()));
      pages[kSlotWritten] = static_cast<int32_t>(next.page(next.first()));
      continue;
    }
    CHECK(table.end() - table.first() <= pages.size());
    step.first_page(g, sequence) = static_cast<int32_t>(table.first());
    for (uint32_t i = table.first(); i < table.end(); ++i) {
      pages[i - table.first()] = static_cast<int32_t>(table.page(i));
    }
  }
}

void fill_wanted(StepBuffer& step, uint32_t wanted_port, const StepPart& part, const Cursor& at) {
  const std::span<int32_t> wanted = step.input_i32(wanted_port);
  for (uint32_t i = 0; i < part.wanted.size(); ++i) {
    wanted[at.wanted + i] = static_cast<int32_t>(at.row + part.wanted[i] - part.begin);
  }
  const auto count = static_cast<uint32_t>(part.adjustments.size());
  SampleRow& row = step.sample_rows()[at.wanted + part.wanted.size() - 1];
  row = part.sampling;
  row.first_adjustment = at.adjustment;
  row.adjustments = count;
  std::copy(part.adjustments.begin(), part.adjustments.end(), step.adjustments().begin() + at.adjustment);
}

}  // namespace

Status check_tokens(std::string_view where, std::span<const int32_t> tokens, uint32_t vocabulary) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && static_cast<uint32_t>(tokens[i]) < vocabulary) continue;
    return error(ErrorKind::invalid, where, ": token ", i, " is ", tokens[i], ": want 0 to ", vocabulary - 1);
  }
  return {};
}

void fill_step(StepBuffer& step, const TextPorts& ports, TokenClass token_class, std::span<const StepPart> parts) {
  Cursor total;
  for (const StepPart& part : parts) {
    total.row += part.end - part.begin;
    total.wanted += static_cast<uint32_t>(part.wanted.size());
    total.adjustment += static_cast<uint32_t>(part.adjustments.size());
  }
  step.reset(token_class, total.row, total.wanted, static_cast<uint32_t>(parts.size()), total.adjustment);
  Cursor at;
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const StepPart& part = parts[i];
    CHECK(!part.wanted.empty() && part.wanted.back() == part.end - 1);
    fill_rows(step, ports.tokens, i, part, at.row);
    fill_pages(step, i, *part.sequence);
    fill_wanted(step, ports.wanted, part, at);
    at.row += part.end - part.begin;
    at.wanted += static_cast<uint32_t>(part.wanted.size());
    at.adjustment += static_cast<uint32_t>(part.adjustments.size());
  }
  step.fill_ropes();
}

}  // namespace sluice
