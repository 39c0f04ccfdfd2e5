// Sounds of every kind that SoX wrote: a tone of 440 Hz (tests/data/media/make_media.py).
#include "media/decode/sound_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <numbers>

#include "tests/media/media_files.h"

namespace sluice {
namespace {

constexpr size_t kToneSamples = 2400;  // 0.15 s at 16 kHz

std::vector<std::byte> tone(std::string_view file) { return test_file(cat("media/", file)); }

std::string error_of(const std::vector<std::byte>& bytes, const SoundLimits& limits = {}) {
  const auto sound = decode_sound(bytes, "x", limits);
  return sound ? cat("a sound of ", sound->samples.size(), " samples") : sound.error().text;
}

// The amplitude of the sine of 440 Hz, of any phase, in the middle third, and what is left beside it (root mean
// square).
struct Tone {
  double amplitude = 0;
  double rest = 0;
};

Tone measured(const Sound& sound) {
  constexpr double turn = 2 * std::numbers::pi * 440 / kSoundRate;
  constexpr size_t begin = 600, count = 800;  // 22 periods
  std::complex<double> sum;
  for (size_t i = begin; i < begin + count; ++i)
    sum += static_cast<double>(sound.samples[i]) * std::polar(2.0 / count, -turn * static_cast<double>(i));
  double rest = 0;
  for (size_t i = begin; i < begin + count; ++i) {
    const double want = (sum * std::polar(1.0, turn * static_cast<double>(i))).real();
    rest += std::pow(static_cast<double>(sound.samples[i]) - want, 2);
  }
  return {std::abs(sum), std::sqrt(rest / count)};
}

void expect_tone(std::string_view file, double bar) {
  SCOPED_TRACE(file);
  const Sound sound = unwrap(decode_sound(tone(file), std::string(file)));
  EXPECT_EQ(sound.rate, kSoundRate);
  ASSERT_NEAR(static_cast<double>(sound.samples.size()), kToneSamples, 2);
  const Tone got = measured(sound);
  EXPECT_NEAR(got.amplitude, 0.5, bar);
  EXPECT_LE(got.rest, bar);
}

TEST(SoundFile, EveryKindHoldsTheTone) {
  for (const std::string_view file :
       {"mono16.wav", "stereo44.wav", "bits24.wav", "float.wav", "plain.flac", "plain.aiff"})
    expect_tone(file, 1e-4);
  expect_tone("bits8.wav", 5e-3);   // half of the last bit
  expect_tone("plain.ogg", 2e-2);   // lossy
  expect_tone("plain.opus", 2e-2);  // lossy
}

// Lossy; the coder adds its delay, and silence to whole blocks.
TEST(SoundFile, Mp3HoldsTheTone) {
  const Sound sound = unwrap(decode_sound(tone("plain.mp3"), "plain.mp3"));
  EXPECT_GE(sound.samples.size(), kToneSamples);
  EXPECT_LE(sound.samples.size(), kToneSamples + 2000);
  EXPECT_NEAR(measured(sound).amplitude, 0.476, 2e-3);  // so SoX says of the file
}

TEST(SoundFile, SixteenKilohertzPassUnchanged) {
  const std::vector<std::byte> bytes = tone("mono16.wav");
  const Sound sound = unwrap(decode_sound(bytes, "mono16.wav"));
  ASSERT_EQ(sound.samples.size(), kToneSamples);
  for (size_t i = 0; i < kToneSamples; ++i) {
    int16_t sample = 0;
    std::memcpy(&sample, bytes.data() + bytes.size() - 2 * kToneSamples + 2 * i, 2);
    ASSERT_EQ(sound.samples[i], static_cast<float>(sample) / 32768) << i;
  }
}

// 16 kHz WAV of 16 bits.
std::vector<std::byte> wav(uint16_t channels, uint32_t rate, const std::vector<int16_t>& samples) {
  std::vector<std::byte> out;
  const auto put = [&](const auto& value, size_t size) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), begin, begin + size);
  };
  const auto data = static_cast<uint32_t>(samples.size() * 2);
  const uint32_t numbers[] = {data + 36, 16, rate, rate * channels * 2, data};
  const uint16_t format = 1, block = static_cast<uint16_t>(channels * 2), bits = 16;
  put("RIFF", 4), put(numbers[0], 4), put("WAVEfmt ", 8), put(numbers[1], 4), put(format, 2), put(channels, 2);
  put(numbers[2], 4), put(numbers[3], 4), put(block, 2), put(bits, 2), put("data", 4), put(numbers[4], 4);
  for (const int16_t sample : samples) put(sample, 2);
  return out;
}

TEST(SoundFile, AveragesChannels) {
  const Sound sound = unwrap(decode_sound(wav(3, 16000, {300, 600, -300, 32767, -32768, 1}), "x"));
  EXPECT_THAT(sound.samples, testing::ElementsAre(200.0f / 32768, 0.0f));
}

TEST(SoundFile, HoldsToTheLimits) {
  EXPECT_EQ(error_of(wav(1, 16000, std::vector<int16_t>(32001)), {.seconds = 2}),
            "x: longer than 2 seconds: want at most that");
  EXPECT_EQ(error_of(wav(1, 16000, std::vector<int16_t>(32000)), {.seconds = 2}), "a sound of 32000 samples");
  EXPECT_EQ(error_of(wav(9, 16000, std::vector<int16_t>(90))), "x: 9 channels: want 1 to 8");
  EXPECT_EQ(error_of(wav(1, 999, std::vector<int16_t>(90))), "x: 999 samples a second: want 1000 to 192000");
  EXPECT_EQ(error_of(wav(1, 192001, std::vector<int16_t>(90))), "x: 192001 samples a second: want 1000 to 192000");
  EXPECT_EQ(error_of(wav(1, 16000, {1, 2}), {.bytes = 47}), "x: 48 bytes: want at most 47");
}

// A minute takes at least its samples, asked for before they are taken.
TEST(SoundFile, AsksForRoomAsItGrows) {
  constexpr uint64_t kSamples = 60 * 16000;
  uint64_t most = 0;
  const auto grow = [&](uint64_t bytes) -> Status {
    most = std::max(most, bytes);
    return {};
  };
  const auto minute = wav(1, 16000, std::vector<int16_t>(kSamples));
  ASSERT_TRUE(decode_sound(minute, "x", {.room = grow}));
  EXPECT_GE(most, kSamples * sizeof(float));
  EXPECT_LE(most, 4 * kSamples * sizeof(float));
  const auto full = [](uint64_t bytes) -> Status {
    if (bytes <= 1'000'000) return {};
    return error(ErrorKind::out_of_memory, "no room");
  };
  EXPECT_EQ(error_of(minute, {.room = full}), "no room");
}

TEST(SoundFile, SaysWhatItFound) {
  EXPECT_EQ(error_of({}), "x: empty file: want a WAV, FLAC, Ogg (Vorbis, Opus), MP3 or AIFF sound");
  EXPECT_EQ(error_of(bytes_of("hello, world")),
            "x: begins with 'hello, w': want a WAV, FLAC, Ogg (Vorbis, Opus), MP3 or AIFF sound");
  EXPECT_EQ(error_of(wav(1, 16000, {})), "x: no samples: want an undamaged sound");
  EXPECT_EQ(error_of(wav(1, 192000, {1, 2})), "x: 2 samples at 192000 a second: want enough for one at 16000 a second");
}

TEST(SoundFile, SaysThatItEndsEarly) {
  std::vector<std::byte> bytes = wav(1, 16000, {1, 2, 3, 4});
  bytes.resize(bytes.size() - 3);
  EXPECT_EQ(error_of(bytes), "x: ends early: 5 of 8 bytes of samples: want an undamaged sound");
  // What a program writes that streams: the length is not known.
  for (size_t i = 40; i < 44; ++i) bytes[i] = std::byte{0xff};
  EXPECT_EQ(error_of(bytes), "a sound of 2 samples");
}

TEST(SoundFile, RefusesNumbersThatAreNotFinite) {
  std::vector<std::byte> bytes = tone("float.wav");
  const float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - 400, &bad, sizeof bad);
  EXPECT_EQ(error_of(bytes), "x: a sample that is no finite number: want an undamaged sound");
}

// Every beginning of the small files, and every 16th of the others: a sentence or a shorter sound.
TEST(SoundFile, MayEndAnywhere) {
  for (const std::string_view file :
       {"mono16.wav", "plain.flac", "plain.ogg", "plain.opus", "plain.mp3", "plain.aiff"}) {
    const std::vector<std::byte> bytes = tone(file);
    const size_t step = bytes.size() < 3000 ? 1 : 16;
    for (size_t size = 0; size < bytes.size(); size += step) {
      const std::vector<std::byte> begin(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
      const auto sound = decode_sound(begin, "x");
      if (sound)
        EXPECT_LE(sound->samples.size(), kToneSamples + 2000) << file << " of " << size << " bytes";
      else
        EXPECT_THAT(sound.error().text, testing::StartsWith("x: ")) << file << " of " << size << " bytes";
    }
  }
}

}  // namespace
}  // namespace sluice
