#include "app/plan/plan_report.h"

#include <cstdio>

#include "base/text.h"

namespace sluice {
namespace {

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

// "  state                 1.2 GB  keys, values"
std::string line(const std::string& what, uint64_t bytes, const std::string& note) {
  std::string text = cat("  ", what);
  text.resize(std::max<size_t>(text.size() + 1, 20), ' ');
  const std::string amount = format_bytes(bytes);
  text += std::string(12 - std::min<size_t>(12, amount.size()), ' ') + amount;
  return note.empty() ? text + '\n' : cat(text, "  ", note, '\n');
}

std::string note_of(const MemoryLine& one, const MemoryPlan& plan) {
  if (one.domain != plan.domain) return one.purpose == Purpose::weights ? "rows of tables that were read last" : "";
  switch (one.purpose) {
    case Purpose::mapped_weights: return "pages of the file that every token reads";
    case Purpose::activations: return cat("with prompts read in chunks of ", plan.prompt_chunk, " tokens");
    case Purpose::state: return cat("of ", plan.context, " tokens, and snapshots");
    default: return "";
  }
}

std::string experts_note(const MemoryPlan& plan) {
  if (!plan.streams()) return plan.domain == Domain::host ? "all of them, pages of the file" : "all of them";
  return cat(plan.slots(), " of ", plan.experts.count(), ", the others read as they are chosen");
}

std::string tables_note(const MemoryPlan& plan) {
  return plan.rows ? "stay in the file, of which tokens read rows: those read last are counted as weights"
                   : "stay in the file, of which tokens read rows: not counted";
}

uint64_t expert_memory(const MemoryPlan& plan) {
  return plan.streams() ? plan.slots() * plan.experts.slot_bytes : plan.experts.bytes;
}

constexpr const char* kReserveNote = "the program, its texts and tables, measured";

std::string lines_in(Domain domain, const MemoryPlan& plan) {
  std::string text;
  for (const MemoryLine& one : plan.lines)
    if (one.domain == domain) text += line(purpose_name(one.purpose), one.bytes, note_of(one, plan));
  return text;
}

// Beside the sum, because towers are placed when a picture or sound comes, one at a time.
std::string tower_lines(Domain domain, const PlanReport& report) {
  std::string text;
  for (const TowerRoom& tower : report.towers) {
    const char* const what = tower.kind == ProgramKind::vision ? "picture" : "sound";
    text +=
        line(program_name(tower.kind), tower.bytes(domain), cat("when a ", what, " comes, of ", tower.rows, " tokens"));
  }
  return text;
}

// For a GPU with memory of its own: the lines in the host's memory.
std::string host_table(const PlanReport& report) {
  uint64_t bytes = report.host_held;
  for (const MemoryLine& one : report.plan->lines) bytes += one.domain == Domain::host ? one.bytes : 0;
  return cat("of the host's memory\n", line("reserve", report.host_held, kReserveNote),
             lines_in(Domain::host, *report.plan), line("in all", bytes, ""), tower_lines(Domain::host, report));
}

std::string table(const PlanReport& report) {
  const MemoryPlan& plan = *report.plan;
  const bool on_host = plan.domain == Domain::host;
  std::string text = on_host ? line("reserve", plan.held, kReserveNote) : "";
  text += lines_in(plan.domain, plan);
  if (plan.experts.layers != 0) text += line("experts", expert_memory(plan), experts_note(plan));
  text += line("in all", plan.dense() + expert_memory(plan), "");
  text += tower_lines(plan.domain, report);
  if (!on_host) text += host_table(report);
  if (plan.tables != 0) text += line("tables", plan.tables, tables_note(plan));
  return text;
}

std::string bandwidth_text(double bandwidth) {
  return bandwidth > 0 ? cat(fixed(bandwidth / 1e9, 2), " GB/s") : "not measured";
}

std::string limit_text(const PlanReport& report) {
  const MemoryPlan& plan = *report.plan;
  if (plan.domain == Domain::host)
    return cat(format_bytes(plan.limit), report.bounded ? " by --memory" : " of this machine's");
  if (report.bounded) return cat(format_bytes(plan.limit), " of the GPU's, by --device-memory");
  if (report.device_bytes == 0) return "what the GPU gives, which does not say how much that is";
  return cat(format_bytes(plan.limit), " of the GPU's ", format_bytes(report.device_bytes));
}

// For a GPU: the times of steps that were played there.
std::string step_times_text(const StepTimes& played) {
  std::string text = cat("a step      ", fixed(played.step_seconds * 1e3, 2), " ms for ", played.dispatches,
                         " dispatches, played here without weights\n");
  if (played.reads)
    text += cat("a miss      ", fixed(played.first_seconds * 1e3, 2), " ms, each more of a layer ",
                fixed(played.next_seconds * 1e3, 2), " ms, likewise\n");
  return text;
}

std::string speed_text(const PlanReport& report) {
  const Forecast& foreseen = report.forecast;
  if (!foreseen.unknown.empty()) return cat("not foreseen: ", foreseen.unknown);
  if (foreseen.tokens_per_second <= 0) return "not foreseen: want --disk, since there is no file to measure with";
  if (foreseen.cached_tokens_per_second > 0) {
    return cat(fixed(foreseen.tokens_per_second, 1), " to ", fixed(foreseen.cached_tokens_per_second, 1),
               " tokens/s foreseen: all that a token reads fits into the processor's cache, so that other work on the ",
               "machine decides; want sluice bench");
  }
  return cat(fixed(foreseen.tokens_per_second, 1), " tokens/s foreseen",
             foreseen.routing.empty()
                 ? ""
                 : cat(", ", fixed(foreseen.cold_tokens_per_second, 1), " in the first ", kColdTokens, " tokens"));
}

}  // namespace

std::string plan_text(const PlanReport& report) {
  const MemoryPlan& plan = *report.plan;
  const Forecast& foreseen = report.forecast;
  std::string text =
      cat("model       ", printable(report.model), report.header_only ? " (its header alone), " : ", ", report.format,
          ": ", fixed(static_cast<double>(report.parameters) / 1e9, 3), " B parameters\ndevice      ", report.device,
          "\nmemory      ", limit_text(report), "\n\n", table(report), "\nfloor       ", format_bytes(plan.floor),
          "\nrecommended ", format_bytes(plan.recommended()), '\n');
  if (!foreseen.routing.empty()) {
    text += cat("experts     ", fixed(100 * foreseen.hit_rate, 1), " % of the chosen lie in memory, ",
                fixed(100 * foreseen.cold_hit_rate, 1), " % in the first ", kColdTokens,
                " tokens, which begin with none (", foreseen.routing, ")\n");
  }
  return cat(text, "a token     reads ", format_bytes(static_cast<uint64_t>(foreseen.memory_bytes)), " in memory, ",
             format_bytes(static_cast<uint64_t>(foreseen.disk_bytes)), " of the disk\nbandwidth   memory ",
             bandwidth_text(foreseen.bandwidths.memory), plan.domain == Domain::host ? "" : " copied, read and written",
             ", disk ", bandwidth_text(foreseen.bandwidths.disk), "\n",
             foreseen.step_times ? step_times_text(*foreseen.step_times) : "", "speed       ", speed_text(report),
             '\n');
}

Json plan_json(const PlanReport& report) {
  const MemoryPlan& plan = *report.plan;
  const Forecast& foreseen = report.forecast;
  const StepTimes played = foreseen.step_times.value_or(StepTimes{});
  Json::Array memory;
  memory.reserve(plan.lines.size());
  for (const MemoryLine& one : plan.lines) {
    memory.emplace_back(Json::Object{{"domain", domain_name(one.domain)},
                                     {"purpose", purpose_name(one.purpose)},
                                     {"bytes", static_cast<int64_t>(one.bytes)}});
  }
  Json::Array towers;
  for (const TowerRoom& tower : report.towers) {
    towers.emplace_back(Json::Object{{"tower", program_name(tower.kind)},
                                     {"tokens", int64_t{tower.rows}},
                                     {"bytes", static_cast<int64_t>(tower.bytes(plan.domain))}});
  }
  return Json::Object{{"model", report.model},
                      {"header_only", report.header_only},
                      {"format", report.format},
                      {"device", report.device},
                      {"limit_bytes", static_cast<int64_t>(std::min<uint64_t>(plan.limit, INT64_MAX))},
                      {"reserve_bytes", static_cast<int64_t>(plan.held)},
                      {"memory", std::move(memory)},
                      {"towers", std::move(towers)},
                      {"table_bytes", static_cast<int64_t>(plan.tables)},
                      {"context", int64_t{plan.context}},
                      {"floor_bytes", static_cast<int64_t>(plan.floor)},
                      {"recommended_bytes", static_cast<int64_t>(plan.recommended())},
                      {"experts", Json::Object{{"count", static_cast<int64_t>(plan.experts.count())},
                                               {"bytes", static_cast<int64_t>(plan.experts.bytes)},
                                               {"streamed", plan.streams()},
                                               {"slots", static_cast<int64_t>(plan.slots())},
                                               {"slot_bytes", static_cast<int64_t>(plan.experts.slot_bytes)}}},
                      {"hit_rate", foreseen.hit_rate},
                      {"cold_hit_rate", foreseen.cold_hit_rate},
                      {"routing", foreseen.routing},
                      {"memory_bytes_per_token", foreseen.memory_bytes},
                      {"disk_bytes_per_token", foreseen.disk_bytes},
                      {"memory_bandwidth", foreseen.bandwidths.memory},
                      {"disk_bandwidth", foreseen.bandwidths.disk},
                      {"step_seconds", played.step_seconds},
                      {"dispatches_per_token", int64_t{played.dispatches}},
                      {"misses_played", played.reads},
                      {"first_miss_seconds", played.first_seconds},
                      {"next_miss_seconds", played.next_seconds},
                      {"tokens_per_second", foreseen.tokens_per_second},
                      {"cached_tokens_per_second", foreseen.cached_tokens_per_second},
                      {"cold_tokens_per_second", foreseen.cold_tokens_per_second}};
}

std::vector<JsonField> plan_fields() {
  return {
      {"model", "string", "the file"},
      {"header_only", "boolean", "whether tensors lie beyond the file's end, as in a header alone"},
      {"format", "string", "the weight format of the whole model"},
      {"device", "string", "processor, instruction set, threads"},
      {"limit_bytes", "integer", "the limit on memory"},
      {"reserve_bytes", "integer", "the part kept for the program itself, measured"},
      {"memory[].domain", "string", "`host`, or `device` for a GPU's own"},
      {"memory[].purpose", "string", "as in run's table; all but the experts"},
      {"memory[].bytes", "integer", ""},
      {"towers[].tower", "string", "`vision tower` or `audio tower`"},
      {"towers[].tokens", "integer", "of the largest picture by --image-tokens, or of the longest sound"},
      {"towers[].bytes", "integer", "the memory it takes when a picture or sound of that size comes; not in memory[]"},
      {"table_bytes", "integer", "of tables whose rows tokens read; they stay in the file and do not count"},
      {"context", "integer", "longest conversation in tokens"},
      {"floor_bytes", "integer", "the amount below which the model is refused"},
      {"recommended_bytes", "integer", "the amount with which every expert lies in memory"},
      {"experts.count", "integer", "of all layers"},
      {"experts.bytes", "integer", "of all of them"},
      {"experts.streamed", "boolean", "whether they are read as they are chosen"},
      {"experts.slots", "integer", "experts that find room"},
      {"experts.slot_bytes", "integer", "of one expert that is read; 0 if experts lie in no file"},
      {"hit_rate", "number", "expected share of chosen experts that lie in memory, once all slots are full"},
      {"cold_hit_rate", "number", "the same for the first 32 tokens, when slots begin empty"},
      {"routing", "string", "the basis of that; empty if no expert is read"},
      {"memory_bytes_per_token", "number", ""},
      {"disk_bytes_per_token", "number", ""},
      {"memory_bandwidth", "number",
       "bytes a second, measured; for a GPU those copied in its memory, read and written"},
      {"disk_bandwidth", "number", "the same for direct reads; 0 without a file to measure with"},
      {"step_seconds", "number", "time of a decode step, timed on a GPU without weights; 0 on the processor"},
      {"dispatches_per_token", "integer", "of that step"},
      {"misses_played", "boolean", "whether some of those steps lacked experts and read them"},
      {"first_miss_seconds", "number",
       "that a layer waits on a GPU for one expert that it lacks, played with reads of the file, or of zeros as fast "
       "as --disk says"},
      {"next_miss_seconds", "number", "the same for each further one"},
      {"tokens_per_second", "number", "forecast for decoding at hit_rate; 0 if unknown"},
      {"cached_tokens_per_second", "number",
       "the same out of the processor's cache; 0 if that does not hold all that a token reads"},
      {"cold_tokens_per_second", "number", "the same at cold_hit_rate"},
  };
}

}  // namespace sluice
