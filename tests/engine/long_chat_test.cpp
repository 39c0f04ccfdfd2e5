// The rows that a long conversation computes, with each kind of state: keys and values behind a window, recurrent
// slots, latent pages. A continued conversation computes only the rows behind the last snapshot that it shares.
#include <array>
#include <random>

#include "engine/history.h"
#include "tests/engine/real_engine.h"

namespace sluice {
namespace {

constexpr uint32_t kPrompt = 4000;
constexpr std::array<uint32_t, 3> kMessageEnds = {300, 1000, 2500};

class LongChat : public testing::TestWithParam<const char*> {
 protected:
  static EngineOptions options() {
    EngineOptions options;
    options.context = 8192;
    return options;
  }
  RealEngine engine() const { return {GetParam(), "cpu", options()}; }

  std::vector<int32_t> tokens(size_t count, uint32_t seed) const {
    std::mt19937 random(seed);
    const uint32_t vocabulary = real_model(GetParam()).facts().vocabulary;
    std::vector<int32_t> made;
    made.reserve(count);
    for (size_t i = 0; i < count; ++i) made.push_back(static_cast<int32_t>(random() % vocabulary));
    return made;
  }
  static Request kept(std::vector<int32_t> prompt, uint32_t max_tokens, SequenceId sequence = kNewSequence) {
    Request request;
    request.sequence = sequence;
    request.keep_sequence = true;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    return request;
  }
  // A first turn of several messages.
  Request first_turn() const {
    Request request = kept(tokens(kPrompt, 1), 70);
    request.message_ends.assign(kMessageEnds.begin(), kMessageEnds.end());
    return request;
  }
  // The history of a sequence as a prompt, the way a client without state sends it.
  static std::vector<int32_t> as_prompt(const RealEngine& engine, SequenceId sequence, size_t length) {
    const History history = *engine.engine->history(sequence);
    std::vector<int32_t> prompt;
    prompt.reserve(length);
    for (size_t i = 0; i < length; ++i) prompt.push_back(history[i].token);
    return prompt;
  }
  // Computed rows of the prompt of an answer of one token.
  static uint32_t computed(RealEngine& engine, const Request& request) {
    const uint64_t before = engine.engine->stats().prompt_rows;
    const Progress progress = engine.answer(request);
    EXPECT_EQ(progress.finish, Finish::length);
    EXPECT_EQ(progress.computed_prompt_tokens, engine.engine->stats().prompt_rows - before);
    return progress.computed_prompt_tokens;
  }
};

TEST_P(LongChat, ASecondTurnComputesItsNewTokens) {
  RealEngine chat = engine();
  const SequenceId sequence = chat.answer(first_turn()).sequence;
  EXPECT_EQ(chat.engine->stats().prompt_rows, kPrompt);
  const std::vector<int32_t> so_far = as_prompt(chat, sequence, kPrompt + 70);
  EXPECT_EQ(computed(chat, kept(tokens(50, 2), 1, sequence)), 50u + 1) << "the answer's last token was not computed";
  std::vector<int32_t> whole = so_far;
  for (const int32_t token : tokens(50, 3)) whole.push_back(token);
  EXPECT_EQ(computed(chat, kept(whole, 1)), whole.size() - cut_below(so_far.size() - 1)) << "sent as a whole";
}

TEST_P(LongChat, AnEditedMessageGoesOnFromTheOneBefore) {
  RealEngine chat = engine();
  chat.answer(first_turn());
  for (const uint32_t end : kMessageEnds) {
    std::vector<int32_t> edited = tokens(kPrompt, 1);
    edited.resize(end);
    for (const int32_t token : tokens(40, end)) edited.push_back(token);
    Request request = kept(edited, 1);
    request.keep_sequence = false;
    EXPECT_EQ(computed(chat, request), edited.size() - cut_below(end)) << "after message end " << end;
  }
}

TEST_P(LongChat, UndoGoesOnFromTheLastSnapshot) {
  RealEngine chat = engine();
  const SequenceId sequence = chat.answer(first_turn()).sequence;
  const size_t first = chat.engine->history(sequence)->size();
  chat.answer(kept(tokens(300, 2), 40, sequence));
  ASSERT_TRUE(chat.engine->truncate(sequence, first));
  EXPECT_LE(computed(chat, kept(tokens(50, 3), 1, sequence)), 50u + first - cut_below(first - 1));
  ASSERT_TRUE(chat.engine->truncate(sequence, kPrompt));  // the answer goes, too
  EXPECT_LE(computed(chat, kept(tokens(50, 4), 1, sequence)), 50u + kPrompt - cut_below(kPrompt));
  ASSERT_TRUE(chat.engine->truncate(sequence, 1000));
  EXPECT_LE(computed(chat, kept(tokens(50, 5), 1, sequence)), 50u + 1000 - cut_below(1000));
}

TEST_P(LongChat, ForksAndBranchesComputeOnlyTheirOwnTokens) {
  RealEngine chat = engine();
  const SequenceId sequence = chat.answer(first_turn()).sequence;
  const SequenceId other = *chat.engine->fork(sequence);
  EXPECT_EQ(computed(chat, kept(tokens(50, 2), 1, other)), 50u + 1);
  EXPECT_EQ(computed(chat, kept(tokens(50, 3), 1, sequence)), 50u + 1);
  std::vector<int32_t> branch = tokens(kPrompt, 1);
  for (const int32_t token : tokens(50, 4)) branch.push_back(token);
  EXPECT_EQ(computed(chat, kept(branch, 1)), branch.size() - cut_below(kPrompt));
}

INSTANTIATE_TEST_SUITE_P(Families, LongChat, testing::ValuesIn(kEveryStateKind), real_model_name);

}  // namespace
}  // namespace sluice
