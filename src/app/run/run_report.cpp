#include "app/run/run_report.h"

#include <cstdio>
#include <utility>

#include "app/open/machine_memory.h"
#include "app/run/expert_report.h"
#include "base/text.h"
#include "model/facts.h"

namespace sluice {
namespace {

double rate(size_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

// The first token comes with the prompt; the others take the answer's time.
double answer_rate(const Usage& usage) {
  return usage.answer_tokens < 2 ? 0 : rate(usage.answer_tokens - 1, usage.answer_seconds);
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

const char* end_name(TurnEnd end) {
  static constexpr const char* kNames[] = {"stop", "length", "interrupted"};
  return kNames[static_cast<size_t>(end)];
}

std::string draft_line(const Usage& usage) {
  if (usage.drafted == 0 && usage.undrafted_steps == 0) return "";
  return cat("drafts  ", usage.drafted, " tokens, ", usage.accepted, " of them accepted; left out in ",
             usage.undrafted_steps, " steps that they would have slowed\n");
}

std::string dispatch_line(const DispatchCounts& counts) {
  return cat("kernels ", counts.token, " dispatches a token, ", fixed(rate(counts.in_layers, counts.layers), 1),
             " a layer; ", counts.pipelines, " pipelines\n");
}

std::string assumed_line(const ModelFacts& facts) {
  std::string lines;
  for (const auto& [name, text] : facts.details)
    if (name == kAssumed) lines += cat(kAssumed, " ", text, "\n");
  return lines;
}

}  // namespace

std::string plan_line(const Forecast& foreseen, double seen) {
  if (foreseen.tokens_per_second <= 0 || seen <= 0) return "";
  return cat("plan    ", fixed(foreseen.tokens_per_second, 1), " tokens/s foreseen, ",
             fixed(seen / foreseen.tokens_per_second, 2), " times that seen",
             foreseen.routing.empty() ? "" : cat("; ", fixed(100 * foreseen.hit_rate, 1), " % of experts in memory"),
             "\n");
}

void say_notes(StateStore* states, Console& console) {
  if (states == nullptr) return;
  for (const std::string& note : states->take_notes()) console.err(cat("sluice: ", note, '\n'));
}

std::string stats_text(const Reply& reply, const Budget& budget, const Engine& engine, const Model& model,
                       const std::optional<Forecast>& foreseen) {
  const Usage& usage = reply.usage;
  const std::optional<ExpertStats> experts = engine.expert_stats();
  const std::optional<DispatchCounts> dispatches = engine.dispatch_counts();
  return cat("prompt  ", usage.prompt_tokens, " tokens, ", usage.reused_tokens, " of them reused",
             usage.restored_tokens == 0 ? "" : cat(" (", usage.restored_tokens, " from the state directory)"), ", ",
             fixed(rate(usage.computed_tokens, usage.prompt_seconds), 1),
             usage.answer_tokens == 0 ? " tokens/s, no token after " : " tokens/s, first token after ",
             fixed(usage.prompt_seconds, 3), " s\nanswer  ", usage.answer_tokens, " tokens, ",
             fixed(answer_rate(usage), 1), " tokens/s, ended by ", end_name(reply.end), "\n", draft_line(usage),
             experts ? expert_text(*experts) : "", dispatches ? dispatch_line(*dispatches) : "",
             assumed_line(model.facts()), foreseen ? plan_line(*foreseen, answer_rate(usage)) : "", "memory  at most ",
             format_bytes(peak_memory_bytes()), "\n", budget.table());
}

Json reply_json(const RunFacts& facts, const Reply& reply, const Budget& budget) {
  Json::Array memory;
  for (const BudgetLine& line : budget.lines()) {
    memory.emplace_back(Json::Object{{"domain", domain_name(line.domain)},
                                     {"purpose", purpose_name(line.purpose)},
                                     {"bytes", static_cast<int64_t>(line.bytes)},
                                     {"peak_bytes", static_cast<int64_t>(line.peak)}});
  }
  Json::Array calls;
  for (const ToolCall& call : reply.calls)
    calls.emplace_back(Json::Object{{"name", call.name}, {"arguments", call.arguments}});
  const Usage& usage = reply.usage;
  return Json::Object{{"model", facts.model},
                      {"device", facts.device},
                      {"arithmetic", facts.arithmetic},
                      {"numerics", facts.numerics_id},
                      {"seed", static_cast<int64_t>(facts.seed)},
                      {"answer", reply.answer},
                      {"thinking", reply.thinking},
                      {"calls", std::move(calls)},
                      {"finish", end_name(reply.end)},
                      {"prompt_tokens", int64_t{usage.prompt_tokens}},
                      {"reused_tokens", int64_t{usage.reused_tokens}},
                      {"restored_tokens", int64_t{usage.restored_tokens}},
                      {"answer_tokens", int64_t{usage.answer_tokens}},
                      {"drafted_tokens", int64_t{usage.drafted}},
                      {"accepted_tokens", int64_t{usage.accepted}},
                      {"first_token_seconds", usage.prompt_seconds},
                      {"answer_seconds", usage.answer_seconds},
                      {"prompt_tokens_per_second", rate(usage.computed_tokens, usage.prompt_seconds)},
                      {"answer_tokens_per_second", answer_rate(usage)},
                      {"peak_memory_bytes", static_cast<int64_t>(peak_memory_bytes())},
                      {"memory", std::move(memory)}};
}

std::vector<JsonField> reply_fields() {
  return {
      {"model", "string", "the model file"},
      {"device", "string", "processor, instruction set, threads"},
      {"arithmetic", "string", "`exact` or `fast`"},
      {"numerics", "string", "the numerics id: equal ids give equal answers"},
      {"seed", "integer", "of the random numbers"},
      {"answer", "string", "without thinking"},
      {"thinking", "string", "what came in the thinking channel; empty without any"},
      {"calls[].name", "string", "of a tool of --tools that the model calls"},
      {"calls[].arguments.*", "string, number, boolean, null or object", "as the tool's schema names them"},
      {"finish", "string", "`stop`, `length` or `interrupted`"},
      {"prompt_tokens", "integer", "of the whole prompt"},
      {"reused_tokens", "integer", "how many of them were not computed again"},
      {"restored_tokens", "integer", "how many of those were read from --state-dir"},
      {"answer_tokens", "integer", "generated, thinking and the end token included"},
      {"drafted_tokens", "integer", "guessed by --draft"},
      {"accepted_tokens", "integer", "how many of them the model chose, too"},
      {"first_token_seconds", "number", "from the request to the first token, or to the end where none came"},
      {"answer_seconds", "number", "from the first token to the last"},
      {"prompt_tokens_per_second", "number", "computed tokens over the time to the first token"},
      {"answer_tokens_per_second", "number", "tokens after the first over answer_seconds; 0 for a single one"},
      {"peak_memory_bytes", "integer",
       "the most of the whole process that lay in memory at once, pages of mapped files included"},
      {"memory[].domain", "string", "`host`, ..."},
      {"memory[].purpose", "string", "`weights`, `state`, `activations`, ..."},
      {"memory[].bytes", "integer", "held now"},
      {"memory[].peak_bytes", "integer", "the most that was held"},
  };
}

}  // namespace sluice
