// Random conversations on one engine, each compared with an oracle that computes its history alone.
#include <unistd.h>

#include <cstdio>
#include <map>
#include <random>

#include "tests/engine/engine_run.h"

namespace sluice {
namespace {

struct Setting {
  bool any_class = false;
  uint64_t cache_positions = 0;
  uint32_t polls_until_done = 0;
  uint32_t chunk = 64;
  bool slots = false;
  uint32_t drafts = 0;  // of repetitive texts
};

class RandomOperations {
 public:
  RandomOperations(const Setting& setting, uint32_t seed)
      : fake_(options(setting), script(setting)),
        any_class_(setting.any_class),
        slots_(setting.slots),
        repetitive_(setting.drafts > 0),
        random_(seed) {}

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFailure(); ++i) operate();
    fake_.run();
    collect();
    EXPECT_TRUE(under_way_.empty());
    for (const auto& [id, history] : idle_) {
      EXPECT_EQ(*fake_.engine->history(id), history);
      EXPECT_TRUE(fake_.engine->close(id));
    }
    EXPECT_EQ(fake_.held_pages(), 0u) << "pages leaked";
    const EngineStats stats = fake_.engine->stats();
    EXPECT_EQ(stats.accepted > 100 && stats.drafted > stats.accepted, repetitive_)
        << stats.accepted << " of " << stats.drafted;
    std::remove(path_.c_str());
  }

 private:
  static EngineOptions options(const Setting& setting) {
    EngineOptions options;
    options.sequences = 3;
    options.prompt_chunk = setting.chunk;
    options.context = 384;
    options.logits_rows = 2;
    options.cache_positions = setting.cache_positions;
    if (setting.drafts > 0) options.draft = {.kind = DraftKind::ngram, .tokens = setting.drafts, .always = true};
    return options;
  }
  static fake::Script script(const Setting& setting) {
    fake::Script script;
    script.classes_bit_equal = setting.any_class;
    script.polls_until_done = setting.polls_until_done;
    script.slots = setting.slots;
    script.repetitive = setting.drafts > 0;
    return script;
  }

  size_t below(size_t n) { return random_() % n; }

  void operate() {
    switch (below(16)) {
      case 0:
      case 1:
      case 2:
      case 3: return submit();
      case 4: return cancel();
      case 5: return fork();
      case 6: return truncate();
      case 7: return close();
      case 8: return save_and_load();
      default:
        for (size_t steps = below(12); steps > 0; --steps) fake_.engine->step();
        return collect();
    }
  }

  // An idle sequence, or kNewSequence when there is none.
  SequenceId any_idle() {
    if (idle_.empty()) return kNewSequence;
    return std::next(idle_.begin(), static_cast<std::ptrdiff_t>(below(idle_.size())))->first;
  }

  void submit() {
    if (under_way_.size() > 5) return;
    Started started;
    Request& request = started.request;
    if (below(2) == 0) request.sequence = any_idle();
    if (request.sequence != kNewSequence) started.before = idle_[request.sequence];
    // Few beginnings, so that prompts share prefixes.
    request.prompt = prompt_of(1 + below(below(4) == 0 ? 250 : 40), static_cast<int32_t>(below(3)));
    if (below(20) == 0) request.prompt[below(request.prompt.size())] = fake::kPoison;
    request.max_tokens = static_cast<uint32_t>(below(repetitive_ ? 90 : 30));
    request.keep_sequence = below(3) != 0;
    request.sampling.temperature = below(2) == 0 ? 0.0f : 0.8f;
    request.sampling.seed = below(5);
    request.sampling.repeat_penalty = below(2) == 0 ? 1.0f : 1.3f;
    request.choice = static_cast<uint32_t>(below(2));
    for (uint32_t i = 0; i < request.prompt.size() && below(3) == 0; i += 1 + static_cast<uint32_t>(below(9)))
      request.logits_at.push_back(i);
    const size_t total = started.before.size() + request.prompt.size() + (request.max_tokens > 0 ? 1 : 0);
    const Result<RequestId> id = fake_.engine->submit(request);
    ASSERT_EQ(id.ok(), total <= fake_.engine->context());
    if (!id) return;
    idle_.erase(request.sequence);
    under_way_.emplace(*id, std::move(started));
  }

  void cancel() {
    if (under_way_.empty()) return;
    fake_.engine->cancel(std::next(under_way_.begin(), static_cast<std::ptrdiff_t>(below(under_way_.size())))->first);
  }

  void fork() {
    const SequenceId from = any_idle();
    if (from == kNewSequence || idle_.size() > 6) return;
    const Result<SequenceId> copy = fake_.engine->fork(from);
    ASSERT_TRUE(copy);
    idle_[*copy] = idle_[from];
  }

  void truncate() {
    const SequenceId sequence = any_idle();
    if (sequence == kNewSequence) return;
    History& history = idle_[sequence];
    history.resize(below(history.size() + 1));
    ASSERT_TRUE(fake_.engine->truncate(sequence, history.size()));
  }

  void close() {
    const SequenceId sequence = any_idle();
    if (sequence == kNewSequence) return;
    ASSERT_TRUE(fake_.engine->close(sequence));
    idle_.erase(sequence);
  }

  void save_and_load() {
    const SequenceId sequence = any_idle();
    if (sequence == kNewSequence) return;
    ASSERT_TRUE(fake_.engine->save(sequence, path_));
    std::string note;
    const Result<SequenceId> loaded = fake_.engine->load(path_, &note);
    ASSERT_TRUE(loaded) << loaded.error().text;
    idle_[*loaded] = idle_[sequence];
  }

  void collect() {
    for (auto it = under_way_.begin(); it != under_way_.end();) {
      const Progress progress = fake_.collect(it->first);
      Started& started = it->second;
      started.tokens.insert(started.tokens.end(), progress.tokens.begin(), progress.tokens.end());
      started.logits.insert(started.logits.end(), progress.logits.begin(), progress.logits.end());
      if (progress.finish == Finish::running) {
        ++it;
        continue;
      }
      check(started, progress);
      it = under_way_.erase(it);
    }
  }

  struct Started {
    Request request;
    History before;
    std::vector<SampleResult> tokens;
    std::vector<float> logits;
  };

  static bool poisoned(const Started& started) {
    const std::vector<int32_t>& prompt = started.request.prompt;
    return std::find(prompt.begin(), prompt.end(), fake::kPoison) != prompt.end() ||
           std::any_of(started.before.begin(), started.before.end(),
                       [](const HistoryToken& token) { return token.token == fake::kPoison; });
  }

  void check(const Started& started, const Progress& progress) {
    History history = started.before;
    if (progress.finish == Finish::failed) {
      EXPECT_NE(progress.failure->text.find("layer 3, rms_norm: result is not finite"), std::string::npos);
      EXPECT_TRUE(poisoned(started)) << "a cancelled request's prompt stands";
    } else {
      fake::Oracle oracle(any_class_, slots_, repetitive_);
      for (const HistoryToken& token : history) oracle.push(token);
      check_prompt(started, oracle);
      for (const SampleResult& result : started.tokens) {
        ASSERT_EQ(result.token, oracle.next(started.request.sampling, started.request.choice));
        oracle.push({result.token, TokenClass::decode});
      }
      history = oracle.history();
      const size_t room = fake_.engine->context() - (history.size() - started.tokens.size());
      if (progress.finish == Finish::length)
        EXPECT_EQ(started.tokens.size(), std::min<size_t>(started.request.max_tokens, room));
    }
    if (started.request.keep_sequence) idle_[progress.sequence] = history;
  }

  void check_prompt(const Started& started, fake::Oracle& oracle) {
    size_t given = 0;
    const std::vector<uint32_t>& at = started.request.logits_at;
    for (uint32_t i = 0; i < started.request.prompt.size(); ++i) {
      oracle.push({started.request.prompt[i], TokenClass::prompt});
      if (given == at.size() || at[given] != i || started.logits.size() <= given * fake::kVocabulary) continue;
      const auto begin = started.logits.begin() + static_cast<std::ptrdiff_t>(given * fake::kVocabulary);
      ASSERT_EQ(std::vector<float>(begin, begin + fake::kVocabulary), oracle.logits()) << "position " << i;
      ++given;
    }
    EXPECT_EQ(given * fake::kVocabulary, started.logits.size());
  }

  FakeEngine fake_;
  bool any_class_, slots_, repetitive_;
  std::mt19937 random_;
  std::map<SequenceId, History> idle_;  // kept, and what they must hold
  std::map<RequestId, Started> under_way_;
  const std::string path_ = cat(testing::TempDir(), ::getpid(), "_random_operations_test.state");
};

class RandomOperationsTest : public testing::TestWithParam<Setting> {};

TEST_P(RandomOperationsTest, EveryAnswerIsThatOfItsHistoryAloneAndNoPageLeaks) {
  for (uint32_t seed = 0; seed < 4 && !HasFailure(); ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    RandomOperations(GetParam(), seed).run(400);
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, RandomOperationsTest,
                         testing::Values(Setting{}, Setting{.cache_positions = 448},
                                         Setting{.any_class = true, .cache_positions = 448, .chunk = 128},
                                         Setting{.polls_until_done = 2, .chunk = 256},
                                         Setting{.cache_positions = 640, .polls_until_done = 1, .chunk = 128},
                                         Setting{.chunk = 128, .slots = true},
                                         Setting{.any_class = true, .cache_positions = 448, .slots = true},
                                         Setting{.polls_until_done = 2, .chunk = 256, .slots = true},
                                         Setting{.cache_positions = 448, .drafts = 5},
                                         Setting{.any_class = true, .chunk = 128, .drafts = 3},
                                         Setting{.cache_positions = 640, .slots = true, .drafts = 4},
                                         Setting{.polls_until_done = 1, .chunk = 128, .slots = true, .drafts = 16}));

}  // namespace
}  // namespace sluice
