// Films in prompts: the reference implementation's ids, times and all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/json.h"
#include "base/text.h"
#include "chat/open_model.h"
#include "chat/text_parts.h"
#include "media/decode/picture_file.h"
#include "tests/reference_models.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::ElementsAre;

struct FilmCase {
  const char* model;
  const char* golden;
};
void PrintTo(const FilmCase& film, std::ostream* out) { *out << film.model; }

class ShownFilms : public testing::TestWithParam<FilmCase> {
 protected:
  void SetUp() override {
    if (reference_models().empty()) GTEST_SKIP() << "SLUICE_REFERENCE_MODELS is not set: films of goldens did not run";
    folder = join_path(reference_models(), GetParam().model);
    const std::string path = join_path(folder, cat(GetParam().golden, ".json"));
    golden = unwrap(parse_json(unwrap(read_file(path, 1u << 26)), path));
    for (const Json& one : golden.find("cases")->as_array())
      if (one.find("name")->as_string() == "video") video = &one;
    ASSERT_NE(video, nullptr);
    for (const Json& file : video->find("files")->as_array()) {
      const std::string bytes = unwrap(read_file(join_path(folder, file.as_string()), 1u << 20));
      frames.push_back(unwrap(decode_picture(std::as_bytes(std::span(bytes)), file.as_string())));
    }
  }
  std::vector<int32_t> wanted_ids() const {
    std::vector<int32_t> ids;
    for (const Json& id : video->find("input_ids")->as_array()) ids.push_back(static_cast<int32_t>(id.as_integer()));
    return ids;
  }

  std::string folder;
  Json golden;
  const Json* video = nullptr;
  std::vector<Picture> frames;
};

Result<ChatPrompt> render(const TextParts& text, const std::string& question, std::vector<PreparedMedia> media) {
  const Json message = Json::Object{{"role", "user"}, {"content", content_parts(question, media)}};
  return render_chat(text, Json::Array{message}, Json::Object{{"enable_thinking", false}}, std::move(media));
}

TEST_P(ShownFilms, AreWrittenAsTheReferenceWritesThem) {
  const Model model = unwrap(open_model(folder));
  const TextParts text = unwrap(open_text(model));
  const std::vector<PreparedMedia> film = unwrap(prepare_film(model, frames));
  const ChatPrompt prompt = unwrap(render(text, "What happens?", film));
  EXPECT_EQ(prompt.ids, wanted_ids());
  ASSERT_EQ(prompt.spans.size(), film.size());
  for (size_t i = 0; i < film.size(); ++i) EXPECT_EQ(prompt.spans[i].content, film[i].input.content);
}

TEST_P(ShownFilms, StandWhereTheirMarkersDoBesidePicturesAndOtherFilms) {
  const Model model = unwrap(open_model(folder));
  const TextParts text = unwrap(open_text(model));
  const std::vector<PreparedMedia> film = unwrap(prepare_film(model, frames));
  std::vector<PreparedMedia> both = film;
  both.push_back(unwrap(prepare_media(model, frames[0])));
  both.insert(both.end(), film.begin(), film.end());
  const ChatPrompt prompt = unwrap(render(text, "<video>Then <video>, and <image>?", both));
  ASSERT_EQ(prompt.spans.size(), both.size());
  EXPECT_EQ(prompt.spans.back().content, both[film.size()].input.content);
  EXPECT_EQ(prompt.spans[film.size()].content, film[0].input.content);
  EXPECT_EQ(render(text, "<|video|><|video_pad|>", film).ok(), false) << "a place that nothing was given for";
}

INSTANTIATE_TEST_SUITE_P(Families, ShownFilms,
                         testing::Values(FilmCase{"gemma4_towers", "golden"}, FilmCase{"gemma4_unified", "golden"},
                                         FilmCase{"qwen3_5", "golden_media"}),
                         [](const auto& info) { return std::string(info.param.model); });

// What numpy.linspace and torch.arange choose in the processors of transformers.
TEST(Films, AreLookedAtInTheFramesThatTheProcessorsChoose) {
  const Model qwen = unwrap(open_model(SLUICE_TEST_DATA "/qwen3_5_moe"));
  const auto& choose_qwen = qwen.film_rules().choose;
  EXPECT_THAT(choose_qwen(100, 25), ElementsAre(0, 14, 28, 42, 57, 71, 85, 99));
  EXPECT_THAT(choose_qwen(75, 30000.0 / 1001), ElementsAre(0, 18, 37, 56, 74));
  EXPECT_THAT(choose_qwen(3, 25), ElementsAre(0, 1, 2));
  EXPECT_THAT(choose_qwen(1, 25), ElementsAre(0));
  EXPECT_EQ(choose_qwen(100000, 25).size(), 768u);
  EXPECT_EQ(choose_qwen(100000, 25).back(), 99999u);
  const Model gemma = unwrap(open_model(SLUICE_TEST_DATA "/gemma4_dense"));
  const auto& choose_gemma = gemma.film_rules().choose;
  EXPECT_THAT(choose_gemma(5, 25), ElementsAre(0, 1, 2, 3, 4));
  const std::vector<uint64_t> of_hundred = choose_gemma(100, 25);
  EXPECT_EQ(of_hundred.size(), 32u);
  EXPECT_THAT(std::vector(of_hundred.begin(), of_hundred.begin() + 9), ElementsAre(0, 3, 6, 9, 12, 15, 18, 21, 25));
  EXPECT_EQ(of_hundred.back(), 96u);
}

TEST(Films, HaveTheirTimesBeforeEachStep) {
  const Model qwen = unwrap(open_model(SLUICE_TEST_DATA "/qwen3_5_moe"));
  const Model gemma = unwrap(open_model(SLUICE_TEST_DATA "/gemma4_dense"));
  const std::vector<double> pair = {1.0, 1.52}, late = {3599.9};
  EXPECT_EQ(qwen.film_rules().stamp(pair, true), "<1.3 seconds>");
  EXPECT_EQ(qwen.film_rules().stamp(late, false), "<3599.9 seconds>");
  EXPECT_EQ(gemma.film_rules().stamp(pair, true), "00:01 ");
  EXPECT_EQ(gemma.film_rules().stamp(late, false), " 59:59 ");
}

}  // namespace
}  // namespace sluice
