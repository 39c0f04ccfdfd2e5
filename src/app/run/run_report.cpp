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
double answer_rate(const Answer& run) {
  return run.tokens.size() < 2 ? 0 : rate(run.tokens.size() - 1, run.answer_seconds);
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string draft_line(const Answer& run) {
  if (run.drafted == 0 && run.undrafted_steps == 0) return "";
  return cat("drafts  ", run.drafted, " tokens, ", run.accepted, " of them accepted, off for ", run.undrafted_steps,
             " steps\n");
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
  const Answer& run = reply.run;
  const std::optional<ExpertStats> experts = engine.expert_stats();
  const std::optional<DispatchCounts> dispatches = engine.dispatch_counts();
  return cat("prompt  ", run.prompt_tokens, " tokens, ", run.reused_tokens, " of them reused",
             run.restored_tokens == 0 ? "" : cat(" (", run.restored_tokens, " from the state directory)"), ", ",
             fixed(rate(run.computed_prompt_tokens, run.prompt_seconds), 1),
             run.tokens.empty() ? " tokens/s, no token after " : " tokens/s, first token after ",
             fixed(run.prompt_seconds, 3), " s\nanswer  ", run.tokens.size(), " tokens, ", fixed(answer_rate(run), 1),
             " tokens/s, ended by ", reply.finish(), "\n", draft_line(run), experts ? expert_text(*experts) : "",
             dispatches ? dispatch_line(*dispatches) : "", assumed_line(model.facts()),
             foreseen ? plan_line(*foreseen, answer_rate(run)) : "", "memory  at most ",
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
  const Answer& run = reply.run;
  return Json::Object{{"model", facts.model},
                      {"device", facts.device},
                      {"arithmetic", facts.arithmetic},
                      {"numerics", facts.numerics_id},
                      {"seed", static_cast<int64_t>(facts.seed)},
                      {"answer", reply.answer},
                      {"thinking", reply.thinking},
                      {"finish", reply.finish()},
                      {"prompt_tokens", int64_t{run.prompt_tokens}},
                      {"reused_tokens", int64_t{run.reused_tokens}},
                      {"restored_tokens", int64_t{run.restored_tokens}},
                      {"answer_tokens", static_cast<int64_t>(run.tokens.size())},
                      {"drafted_tokens", int64_t{run.drafted}},
                      {"accepted_tokens", int64_t{run.accepted}},
                      {"first_token_seconds", run.prompt_seconds},
                      {"answer_seconds", run.answer_seconds},
                      {"prompt_tokens_per_second", rate(run.computed_prompt_tokens, run.prompt_seconds)},
                      {"answer_tokens_per_second", answer_rate(run)},
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
