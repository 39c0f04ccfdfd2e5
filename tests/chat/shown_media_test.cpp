// Pictures in conversations: the reference implementation's answers about them, and what later turns compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "chat/conversation.h"
#include "chat/conversation_file.h"
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
    return ask_about(question, std::move(media));
  }
  Reply ask_about(const std::string& question, std::vector<PreparedMedia> media, const TurnWatch& watch = {}) {
    return unwrap(conversation_->ask(question, watch, std::move(media)));
  }
  const Model& model() const { return model_->model; }
  Conversation& operator*() { return *conversation_; }
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

// --- the line that says what a tower looks at

TEST_P(ShownPictures, AreNamedBeforeTheirTowerRunsAndNotAfterTheirPrompt) {
  Talk talk(model);
  PreparedMedia shown = unwrap(prepare_media(talk.model(), picture));
  shown.label = "photo.png";
  std::string seen;
  const auto look = [&](const PreparedMedia* media) { seen += media == nullptr ? "|" : media->label; };
  const auto hear = [&](const TurnEvent&) { seen += seen.ends_with(".") ? "" : "."; };
  talk.ask_about("What is this?", {shown}, {.event = hear, .looking = look});
  EXPECT_EQ(seen, "photo.png|.");
  seen.clear();
  talk.ask_about("And what else?", {}, {.event = hear, .looking = look});
  EXPECT_EQ(seen, ".");
}

// --- saved with a conversation

class SavedPictures : public ShownPictures {
 protected:
  SavedPictures() { std::filesystem::create_directories(folder_); }
  ~SavedPictures() override { std::filesystem::remove_all(folder_); }

  static Result<std::vector<PreparedMedia>> prepare(const Model& to, MediaSource source) {
    TRY(const Picture decoded, decode_picture(std::as_bytes(std::span(source.bytes)), source.name));
    TRY(PreparedMedia media, prepare_media(to, decoded, source.options));
    media.label = source.name;
    media.source = std::make_shared<const MediaSource>(std::move(source));
    return std::vector{media};
  }
  std::vector<PreparedMedia> shown(const Model& to) const {
    MediaSource source{.kind = MediaKind::picture, .name = "image.png"};
    source.bytes = unwrap(read_file(cat(SLUICE_TEST_DATA, "/", model, "/image.png"), 1u << 20));
    Sha256 sha;
    sha.add(source.bytes);
    source.digest = sha.finish_hex();
    source.options.max_rows = 12;
    return unwrap(prepare(to, std::move(source)));
  }
  static std::string refusal(Talk& talk, const std::string& path, const MediaPreparer& by = prepare) {
    std::string note;
    const Status loaded = load_conversation(*talk, talk.model(), path, &note, by);
    return loaded ? "loaded" : loaded.error().text;
  }

  const std::string folder_ = cat(testing::TempDir(), "/sluice_saved_pictures");
  const std::string file = folder_ + "/talk.json";
};

TEST_P(SavedPictures, AreThereAfterLoading) {
  std::string question;  // longer than a page of the saved state
  for (int i = 0; i < 30; ++i) question += "What is this? ";
  Talk talk(model);
  talk.ask_about(question, shown(talk.model()));
  unwrap(save_conversation(*talk, talk.model(), model, file));
  Talk loaded(model);
  std::string note;
  unwrap(load_conversation(*loaded, loaded.model(), file, &note, prepare));
  EXPECT_EQ(note, "");
  const Reply next = talk.ask("And what else?"), again = loaded.ask("And what else?");
  EXPECT_EQ(again.answer, next.answer);
  EXPECT_EQ(loaded.ids(), talk.ids());
  EXPECT_GT(again.usage.reused_tokens, 0u);
  ASSERT_TRUE(loaded->undo());
  const std::optional<ChatMessage> first = loaded->undo();
  ASSERT_TRUE(first);
  ASSERT_EQ(first->media.size(), 1u);
  EXPECT_EQ(first->media[0].input.content, shown(talk.model())[0].input.content);
  EXPECT_EQ(first->media[0].label, "image.png");
}

TEST_P(SavedPictures, ThatCannotBeLoadedAreOneSentence) {
  Talk talk(model);
  const std::vector<PreparedMedia> media = shown(talk.model());
  talk.ask_about("What is this?", media);
  unwrap(save_conversation(*talk, talk.model(), model, file));
  const std::string copy = cat(file, ".media/", media[0].source->digest), text = unwrap(read_file(file, 1u << 20));
  EXPECT_THAT(text, testing::HasSubstr("\"sluice_conversation\": 3"));
  EXPECT_EQ(unwrap(read_file(copy, 1u << 20)), media[0].source->bytes);
  EXPECT_EQ(refusal(talk, file, {}), cat(file, ": message 0: shows media: want a conversation of text alone"));
  unwrap(write_file(copy, "no picture"));
  EXPECT_EQ(refusal(talk, file), copy + ": is not the file that was saved: want the picture image.png");
  std::filesystem::remove(copy);
  EXPECT_EQ(refusal(talk, file), copy + ": cannot open: no such file or directory");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    EXPECT_NE(other.find(from), std::string::npos) << from;
    unwrap(write_file(file, other.replace(other.find(from), from.size(), to)));
    return refusal(talk, file);
  };
  const std::string where = file + ": message 0: media 0: ";
  EXPECT_EQ(changed(media[0].source->digest, "../../etc/passwd"),
            where + "file is missing or wrong: want a SHA-256 of 64 digits");
  EXPECT_EQ(changed("\"picture\"", "\"dance\""), where + "kind is missing or wrong: want picture, sound or film");
  EXPECT_EQ(changed("\"image_tokens\": 12", "\"image_tokens\": 0"),
            where + "image_tokens is missing or wrong: want 1 to 4096");
  EXPECT_EQ(talk->messages().size(), 2u);
}

TEST_P(SavedPictures, MustHaveComeInFiles) {
  Talk talk(model);
  std::vector<PreparedMedia> media = shown(talk.model());
  media[0].source = nullptr;
  talk.ask_about("What is this?", media);
  EXPECT_THAT(save_conversation(*talk, talk.model(), model, file).error().text,
              testing::HasSubstr("image.png came as pixels or samples"));
}

INSTANTIATE_TEST_SUITE_P(Families, SavedPictures, testing::Values("gemma4_dense"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ShownMedia, OfAModelWithoutATowerIsRefused) {
  const Model model = unwrap(open_model(cat(SLUICE_TEST_DATA, "/gemma4_moe")));
  EXPECT_EQ(prepare_media(model, picture_of("gemma4_dense")).error().text,
            cat(SLUICE_TEST_DATA, "/gemma4_moe: has no vision tower: want a model that takes pictures"));
}

}  // namespace
}  // namespace sluice
