// Pictures in conversations: the reference implementation's answers about them, and what later turns compute.
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/json.h"
#include "base/text.h"
#include "chat/conversation.h"
#include "chat/open_model.h"
#include "device/cpu/cpu.h"
#include "media/decode/picture_file.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

Picture picture_of(const std::string& model) {
  const std::string path = cat(SLUICE_TEST_DATA, "/", model, "/image.png");
  const std::string bytes = unwrap(read_file(path, 1u << 20));
  return unwrap(decode_picture(std::as_bytes(std::span(bytes)), path));
}

// The golden's case "image".
struct PictureCase {
  std::vector<int32_t> input_ids, greedy;

  explicit PictureCase(const std::string& model) {
    const std::string path = cat(SLUICE_TEST_DATA, "/", model, "/golden.json");
    const Json golden = unwrap(parse_json(unwrap(read_file(path, 1u << 24)), path));
    for (const Json& one : golden.find("cases")->as_array()) {
      if (one.find("name")->as_string() != "image") continue;
      for (const Json& id : one.find("input_ids")->as_array())
        input_ids.push_back(static_cast<int32_t>(id.as_integer()));
      for (const Json& id : one.find("greedy")->as_array()) greedy.push_back(static_cast<int32_t>(id.as_integer()));
    }
  }
};

// A model on the processor in exact arithmetic, always the likeliest tokens.
class Talk {
 public:
  explicit Talk(const std::string& name) {
    const auto options = [](const ChatModel&) {
      return Result<EngineOptions>(EngineOptions{.arithmetic = Arithmetic::exact, .context = 512});
    };
    model_ = unwrap(open_chat_model({.files = files_at(cat(SLUICE_TEST_DATA, "/", name)), .options = options}, *device_,
                                    budget_, /*bounds=*/{}));
    ConversationSettings settings;
    settings.turn = {.sampling = model_->settings.sampling, .max_tokens = 8};
    settings.turn.sampling.temperature = 0;
    settings.think = false;
    conversation_ = std::make_unique<Conversation>(model_->text, *model_->engine, settings);
  }

  Reply ask(const std::string& question, const std::vector<Picture>& pictures = {}) {
    std::vector<PreparedMedia> media;
    for (const Picture& picture : pictures) media.push_back(unwrap(prepare_media(model_->model, picture)));
    return unwrap(conversation_->ask(question, {}, std::move(media)));
  }
  std::vector<int32_t> ids() const {
    std::vector<int32_t> ids;
    for (const HistoryToken& one : unwrap(conversation_->history())) ids.push_back(one.token);
    return ids;
  }
  Conversation* operator->() { return conversation_.get(); }

 private:
  ThreadPool pool_{1};
  std::unique_ptr<Device> device_ = make_cpu_device({.pool = &pool_});
  Budget budget_;
  std::unique_ptr<ChatModel> model_;
  std::unique_ptr<Conversation> conversation_;
};

class ShownPictures : public testing::TestWithParam<const char*> {
 protected:
  const std::string model = GetParam();
  const PictureCase golden{model};
  const Picture picture = picture_of(model);
};

TEST_P(ShownPictures, AreRenderedAndAnsweredAsTheReferenceDoes) {
  Talk talk(model);
  const Reply reply = talk.ask("What is this?", {picture});
  const std::vector<int32_t> ids = talk.ids();
  ASSERT_GE(ids.size(), golden.input_ids.size());
  EXPECT_EQ(std::vector(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(golden.input_ids.size())),
            golden.input_ids);
  for (size_t i = golden.input_ids.size(); i < ids.size(); ++i)
    EXPECT_EQ(ids[i], golden.greedy[i - golden.input_ids.size()]);
  EXPECT_EQ(reply.usage.answer_tokens, 8u);
}

TEST_P(ShownPictures, AreNotComputedAgainInTheNextTurn) {
  Talk talk(model);
  std::string question;  // so long that a cut of the prompt lies behind the picture
  for (int i = 0; i < 30; ++i) question += "What is this? ";
  const Reply first = talk.ask(question, {picture});
  const Reply next = talk.ask("And what else?");
  EXPECT_GE(next.usage.reused_tokens, first.usage.prompt_tokens - 64);
  ASSERT_TRUE(talk->undo());
  const Reply again = talk.ask("And what else?");
  EXPECT_EQ(again.answer, next.answer);
  ASSERT_TRUE(talk->undo());
  ASSERT_TRUE(talk->undo());
  EXPECT_EQ(talk.ask("What is this?", {picture}).usage.prompt_tokens, golden.input_ids.size());
}

TEST_P(ShownPictures, ThatDifferInOnePixelShareNothing) {
  Talk talk(model);
  const Reply before = talk.ask("What is this?", {picture});
  talk->clear();
  Picture other = picture;
  other.pixels[other.pixels.size() / 2] ^= 0x80;
  const Reply changed = talk.ask("What is this?", {other});
  EXPECT_LT(changed.usage.reused_tokens, 17u);  // what stands before the picture
  Talk fresh(model);
  EXPECT_EQ(fresh.ask("What is this?", {other}).answer, changed.answer);
  talk->clear();
  EXPECT_EQ(talk.ask("What is this?", {picture}).answer, before.answer);
}

TEST_P(ShownPictures, MayBeSeveralInOnePrompt) {
  Talk talk(model);
  const Reply two = talk.ask("Compare <image> with <image>.", {picture, picture});
  const size_t one_more = two.usage.prompt_tokens - golden.input_ids.size();
  EXPECT_GT(one_more, 10u);
  EXPECT_EQ(two.usage.answer_tokens, 8u);
}

INSTANTIATE_TEST_SUITE_P(Families, ShownPictures, testing::Values("gemma4_dense", "qwen3_5_moe"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ShownMedia, OfAModelWithoutATowerIsRefused) {
  const Model model = unwrap(open_model(cat(SLUICE_TEST_DATA, "/gemma4_moe")));
  EXPECT_EQ(prepare_media(model, picture_of("gemma4_dense")).error().text,
            cat(SLUICE_TEST_DATA, "/gemma4_moe: has no vision tower: want a model that takes pictures"));
}

}  // namespace
}  // namespace sluice
