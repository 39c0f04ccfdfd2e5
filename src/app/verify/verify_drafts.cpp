#include "app/verify/verify_drafts.h"

#include <algorithm>
#include <span>
#include <utility>

#include "app/verify/compare.h"

namespace sluice {
namespace {

// The golden's names of what the text program gives to the head.
constexpr std::pair<const char*, const char*> kOfText[] = {{"hidden", "target_hidden"},
                                                           {"sliding.k", "shared_k.sliding_attention"},
                                                           {"sliding.v", "shared_v.sliding_attention"},
                                                           {"full.k", "shared_k.full_attention"},
                                                           {"full.v", "shared_v.full_attention"}};

}  // namespace

Result<DraftRun> run_drafts(const Model& model, Device& device, Budget& budget, Arithmetic arithmetic,
                            const GoldenCase& golden_case) {
  std::vector<int32_t> tokens{golden_case.first_token};
  tokens.insert(tokens.end(), golden_case.greedy.begin(), golden_case.greedy.end() - 1);
  TRY(DraftTrace traced, trace_drafts(model, device, budget, arithmetic, golden_case.input_ids, tokens));
  DraftRun run;
  for (const auto& [name, of_golden] : kOfText) {
    const auto found = std::ranges::find(traced.text, name, &TracedValue::name);
    if (found == traced.text.end()) continue;
    found->name = of_golden;
    run.values.push_back(std::move(*found));
  }
  for (TracedValue& value : traced.drafts) {
    if (value.name == "hidden") value.name = "next_hidden";
    if (value.name == "logits") run.guesses.rows = value.floats;
    run.values.push_back(std::move(value));
  }
  const size_t vocabulary = model.facts().vocabulary;
  for (size_t row = 0; row < tokens.size(); ++row)
    run.guesses.greedy.push_back(arg_max(std::span(run.guesses.rows).subspan(row * vocabulary, vocabulary)));
  return run;
}

namespace {

// Which tokens a head looked at: all but those with the row's smallest logit, if half of the row has it.
std::vector<bool> looked_at(std::span<const float> row) {
  const float least = *std::ranges::min_element(row);
  const bool of_clusters = 2 * static_cast<size_t>(std::ranges::count(row, least)) >= row.size();
  std::vector<bool> tokens;
  for (const float logit : row) tokens.push_back(!of_clusters || logit > least);
  return tokens;
}

}  // namespace

void leave_out_other_clusters(std::vector<float>& ours, std::span<const float> judge, size_t vocabulary) {
  for (size_t begin = 0; begin + vocabulary <= std::min(ours.size(), judge.size()); begin += vocabulary) {
    const std::span row = std::span(ours).subspan(begin, vocabulary);
    const std::vector<bool> of_row = looked_at(row), of_judge = looked_at(judge.subspan(begin, vocabulary));
    if (of_row == of_judge) continue;
    for (size_t token = 0; token < vocabulary; ++token)
      if (!of_row[token] || !of_judge[token]) row[token] = judge[begin + token];
  }
}

Judgement judge_by(DraftRun run, uint32_t vocabulary) {
  Judgement judgement{
      .rows = std::move(run.guesses.rows), .greedy = run.guesses.greedy, .margins = {}, .perplexity = {}};
  for (size_t row = 0; row < judgement.greedy.size(); ++row)
    judgement.margins.push_back(best_margin(std::span(judgement.rows).subspan(row * vocabulary, vocabulary)));
  return judgement;
}

}  // namespace sluice
