// Films decoded by ffmpeg, and what is said where it is missing, fails or lies. Stand-ins of the programs are shell
// scripts; the last tests need the programs themselves.
#include "app/files/film_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "app/files/child.h"
#include "app/files/media_file.h"
#include "base/files/file.h"
#include "base/text.h"
#include "chat/open_model.h"
#include "tests/app/program.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// A folder in front of PATH, or PATH alone, while it lasts.
class Programs {
 public:
  explicit Programs(bool alone = false) : before_(std::getenv("PATH")) {
    setenv("PATH", alone ? folder_.path().c_str() : cat(folder_.path(), ":", before_).c_str(), 1);
  }
  ~Programs() { setenv("PATH", before_.c_str(), 1); }
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  void script(const std::string& name, const std::string& text) const {
    unwrap(write_file(folder_.path(name), "#!/bin/sh\n" + text));
    std::filesystem::permissions(folder_.path(name), std::filesystem::perms::owner_all);
  }
  // A film of which ffprobe answers so.
  std::string probed(const std::string& answer) const {
    script("ffprobe", cat("printf '%s' '", answer, "'\n"));
    const Result<FilmFacts> facts = probe_film("x.mp4");
    return facts ? cat(facts->frames, " at ", facts->rate) : facts.error().text;
  }

 private:
  const TemporaryFolder folder_;
  const std::string before_;
};

std::string stream(const std::string& members, const std::string& format = "{}") {
  return cat("{\"streams\": [{", members, "}], \"format\": ", format, "}");
}

Result<std::vector<Picture>> frames_of(const std::string& path, const std::vector<uint64_t>& numbers) {
  std::vector<Picture> frames;
  TRY_STATUS(read_frames(path, numbers, [&](Picture frame, uint64_t number) {
    EXPECT_EQ(number, numbers[frames.size()]);
    frames.push_back(std::move(frame));
    return Status();
  }));
  return frames;
}

TEST(FilmFile, WithoutTheProgramsIsOneSentence) {
  const Programs programs(/*alone=*/true);
  EXPECT_EQ(probe_film("x.mp4").error().text,
            "x.mp4: ffprobe is not installed: want the programs ffmpeg and ffprobe, which decode films");
  EXPECT_EQ(frames_of("x.mp4", {0}).error().text,
            "x.mp4: ffmpeg is not installed: want the programs ffmpeg and ffprobe, which decode films");
}

TEST(FilmFile, IsHeldToItsLimitsBeforeItIsDecoded) {
  const Programs programs;
  const std::string size = "\"width\": 640, \"height\": 480, ";
  EXPECT_EQ(programs.probed(stream(size + R"("avg_frame_rate": "30000/1001", "nb_read_packets": "300")")),
            cat("300 at ", 30000.0 / 1001));
  EXPECT_EQ(
      programs.probed(stream(size + R"("avg_frame_rate": "0/0", "nb_read_packets": "30")", R"({"duration": "2"})")),
      "30 at 15");
  EXPECT_EQ(programs.probed(stream(size + R"("avg_frame_rate": "0/0", "nb_read_packets": "30")")), "30 at 24");
  EXPECT_EQ(programs.probed(R"({"streams": []})"), "x.mp4: has no moving picture: want a film");
  EXPECT_EQ(programs.probed(stream(size + R"("nb_read_packets": "0")")), "x.mp4: has no frames: want a film");
  EXPECT_EQ(programs.probed(stream(R"("width": 65536, "height": 1, "nb_read_packets": "1")")),
            "x.mp4: frames of 65536 x 1 pixels: want at most 67108864 pixels");
  EXPECT_EQ(programs.probed(stream(R"("width": 60000, "height": 60000, "nb_read_packets": "1")")),
            "x.mp4: frames of 60000 x 60000 pixels: want at most 67108864 pixels");
  EXPECT_EQ(programs.probed(stream(size + R"("avg_frame_rate": "1/1", "nb_read_packets": "7201")")),
            "x.mp4: lasts 7201 s: want at most 7200 s");
  EXPECT_THAT(programs.probed("nonsense"), StartsWith("x.mp4: ffprobe's answer"));
}

TEST(FilmFile, WhatAFailingProgramSaysIsTheSentence) {
  const Programs programs;
  programs.script("ffprobe", "echo first >&2; echo 'file:x.mp4: Invalid data found' >&2; exit 1\n");
  EXPECT_EQ(probe_film("x.mp4").error().text, "x.mp4: Invalid data found: want a film that ffmpeg reads");
  programs.script("ffprobe", "exit 3\n");
  EXPECT_EQ(probe_film("x.mp4").error().text, "x.mp4: ffmpeg ended with status 3: want a film that ffmpeg reads");
  programs.script("ffprobe", "kill -SEGV $$\n");
  EXPECT_EQ(probe_film("x.mp4").error().text, "x.mp4: ffmpeg was ended by signal 11: want a film that ffmpeg reads");
  programs.script("ffprobe", "yes\n");  // never ends
  EXPECT_THAT(probe_film("x.mp4").error().text, StartsWith("x.mp4: "));
}

TEST(FilmFile, FramesComeOneAfterAnother) {
  const Programs programs;
  programs.script("ffmpeg", "printf 'P6\\n1 2\\n255\\nabcdefP6\\n2 1\\n255\\nABCDEF'\n");
  const std::vector<Picture> frames = unwrap(frames_of("x.mp4", {3, 7}));
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].height, 2u);
  EXPECT_EQ(frames[1].width, 2u);
  EXPECT_THAT(frames[1].pixels, ElementsAre('A', 'B', 'C', 'D', 'E', 'F'));
  EXPECT_EQ(unwrap(frames_of("x.mp4", {3, 7, 9})).size(), 2u) << "fewer frames than were counted";
  const std::string broken = "x.mp4: ffmpeg gave no whole frame: want a film";
  for (const char* bytes :
       {"P6\\n1 2\\n255\\nabc", "P5\\n1 2\\n255\\nabcdef", "P6\\n0 2\\n255\\n", "P6\\n99999 1\\n255\\n",
        "P6\\n65535 65535\\n255\\n", "P6\\n1 2\\n65535\\nabcdef", "P6\\n-1 2\\n255\\n", "P"}) {
    programs.script("ffmpeg", cat("printf '", bytes, "'\n"));
    EXPECT_EQ(frames_of("x.mp4", {0}).error().text, broken) << bytes;
  }
  programs.script("ffmpeg", "true\n");
  EXPECT_EQ(frames_of("x.mp4", {0}).error().text, "x.mp4: ffmpeg gave no frame: want a film");
  EXPECT_EQ(frames_of("x.mp4", {}).error().text, "x.mp4: 0 frames to look at: want 1 to 4096");
}

TEST(Child, ThatTakesTooLongIsKilled) {
  const auto began = std::chrono::steady_clock::now();
  Child child = unwrap(Child::start({"sleep", "30"}, 0.1));
  std::byte piece[8];
  EXPECT_EQ(child.read(piece).error().text, "sleep: takes more than 0.1 s: want a shorter file");
  Child silent = unwrap(Child::start({"sh", "-c", "exec >&- 2>&-; exec sleep 30"}, 0.2));
  EXPECT_EQ(unwrap(silent.read(piece)), 0u);
  EXPECT_FALSE(silent.finish());
  {
    const Child forgotten = unwrap(Child::start({"sleep", "30"}, 30));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(15));
}

TEST(Child, GetsItsWordsAsTheyAre) {
  Child child = unwrap(Child::start({"printf", "%s|", "a b", "$HOME", ";ls", "'"}, 10));
  std::string said(100, ' ');
  size_t bytes = 0;
  for (size_t got = 1; got > 0; bytes += got)
    got = unwrap(child.read(std::as_writable_bytes(std::span(said)).subspan(bytes)));
  EXPECT_EQ(said.substr(0, bytes), "a b|$HOME|;ls|'|");
  EXPECT_EQ(unwrap(child.finish()).status, 0);
}

// --- with ffmpeg

#define NEEDS_FFMPEG() \
  if (std::system("ffmpeg -version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no ffmpeg: films were not decoded"

// A film of ten lossless frames, five a second, each of another colour in every pixel.
class RealFilm {
 public:
  explicit RealFilm(const std::string& name) : path_(folder_.path(name)) {
    for (uint32_t i = 0; i < 10; ++i)
      unwrap(write_file(folder_.path(cat("f", i, ".ppm")), cat("P6\n32 16\n255\n", pixels(i))));
    Child child = unwrap(
        Child::start({"ffmpeg", "-v", "error", "-nostdin", "-framerate", "5", "-i", "file:" + folder_.path("f%d.ppm"),
                      "-c:v", "ffv1", "-pix_fmt", "bgr0", "-f", "matroska", "file:" + path_},
                     60));
    const ChildEnd end = unwrap(child.finish());
    EXPECT_EQ(end.status, 0) << end.last_line;
  }
  static std::string pixels(uint32_t frame) {
    std::string bytes;
    for (uint32_t i = 0; i < 32 * 16 * 3; ++i) bytes += static_cast<char>((i + frame * 977) * 2654435761u >> 24);
    return bytes;
  }
  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  const TemporaryFolder folder_;
  const std::string path_;
};

TEST(RealFilms, GiveTheFramesThatAreAskedFor) {
  NEEDS_FFMPEG();
  const RealFilm film("-my: film's.mkv");  // a name to be quoted, if anything read it but a file system
  const FilmFacts facts = unwrap(probe_film(film.path()));
  EXPECT_EQ(facts.frames, 10u);
  EXPECT_DOUBLE_EQ(facts.rate, 5);
  const std::vector<uint64_t> numbers = {0, 4, 5, 9};
  const std::vector<Picture> frames = unwrap(frames_of(film.path(), numbers));
  ASSERT_EQ(frames.size(), 4u);
  for (size_t i = 0; i < frames.size(); ++i)
    EXPECT_EQ(std::string(frames[i].pixels.begin(), frames[i].pixels.end()),
              RealFilm::pixels(static_cast<uint32_t>(numbers[i])))
        << numbers[i];
  EXPECT_EQ(media_kind(film.path()), MediaKind::film);
}

TEST(RealFilms, ThatAreNoneAreOneSentence) {
  NEEDS_FFMPEG();
  const RealFilm film("film.mkv");
  const std::string bytes = unwrap(read_file(film.path(), 1u << 24)), other = film.path("other.mkv");
  const auto problem = [&](const std::string& contents) {
    unwrap(write_file(other, contents));
    const Result<FilmFacts> facts = probe_film(other);
    return facts ? "" : facts.error().text;
  };
  for (const std::string& contents : {std::string(), std::string("Just words.\n"), bytes.substr(0, 100)}) {
    EXPECT_THAT(problem(contents), StartsWith(other + ": "));
    EXPECT_THAT(problem(contents), testing::AnyOf(EndsWith("want a film that ffmpeg reads"), EndsWith("want a film")));
  }
  // A list of other files is not followed.
  EXPECT_THAT(problem(cat("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n", film.path(), "\n#EXT-X-ENDLIST\n")),
              HasSubstr(": want a film that ffmpeg reads"));
  EXPECT_THAT(probe_film(film.path("none.mkv")).error().text, HasSubstr("No such file or directory"));
}

TEST(RealFilms, AreShownToAModelWithTheirTimes) {
  NEEDS_FFMPEG();
  const RealFilm film("film.mkv");
  const Model model = unwrap(open_model(SLUICE_TEST_DATA "/qwen3_5_moe"));
  const std::vector<PreparedMedia> steps = unwrap(open_media(model, film.path(), MediaKind::film, {}));
  ASSERT_EQ(steps.size(), 2u);  // two seconds, at least four frames: 0, 3, 6 and 9
  EXPECT_EQ(steps[0].film->stamp, "<0.3 seconds>");
  EXPECT_EQ(steps[1].film->stamp, "<1.5 seconds>");
  EXPECT_EQ(steps[0].source->frames, 4u);
  EXPECT_EQ(steps[0].source->seconds, 2);
  EXPECT_EQ(steps[1].source, steps[0].source);
  std::vector<Picture> frames = unwrap(frames_of(film.path(), {0, 3, 6, 9}));
  EXPECT_EQ(unwrap(prepare_film(model, frames))[1].input.content, steps[1].input.content);
}

}  // namespace
}  // namespace sluice
