#include "app/bench/bench_media.h"

#include <utility>

#include "base/text.h"
#include "base/threads.h"
#include "engine/media/tower.h"
#include "media/mel.h"

namespace sluice {
namespace {

constexpr int64_t kMostSide = 8192;

uint8_t next_byte(uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return static_cast<uint8_t>(state >> 24);
}

// Colours that change from pixel to pixel, and noise.
Picture drawn_picture(uint32_t width, uint32_t height) {
  Picture picture{.width = width, .height = height, .pixels = std::vector<uint8_t>(size_t{width} * height * 3)};
  uint32_t state = 1;
  for (uint8_t& byte : picture.pixels) byte = next_byte(state);
  return picture;
}

Sound drawn_sound(uint32_t seconds) {
  Sound sound{.rate = kMelRate, .samples = std::vector<float>(size_t{seconds} * kMelRate)};
  uint32_t state = 1;
  for (float& sample : sound.samples) sample = static_cast<float>(next_byte(state)) / 256 - 0.5f;
  return sound;
}

}  // namespace

Result<MediaTest> parse_image_test(const std::string& text) {
  const std::vector<std::string> sides = split(text, 'x');
  const auto side = [&](size_t i) { return i < sides.size() ? parse_integer(sides[i]).value_or(0) : 0; };
  const int64_t width = side(0), height = side(1);
  if (sides.size() == 2 && width > 0 && height > 0 && width <= kMostSide && height <= kMostSide)
    return MediaTest{.width = static_cast<uint32_t>(width), .height = static_cast<uint32_t>(height)};
  return error(ErrorKind::invalid, "bench: --image: found ", printable(text),
               ": want WIDTHxHEIGHT in pixels, each up to ", kMostSide);
}

Result<MediaResult> bench_media(const Model& model, MeteredDevice& device, Meter& meter, Budget& budget,
                                Arithmetic arithmetic, const MediaTest& test) {
  MediaResult result{.test = test, .prepared = {}, .computed = {}};
  const Picture picture = drawn_picture(test.width, test.height);
  const Sound sound = drawn_sound(test.seconds);
  TRY(Program program, model.record(test.tower()));
  const TowerModel recorded{test.tower(), std::move(program), &model.weights_of(test.tower())};
  TRY(const ValueId value, tower_rows(recorded.program));
  std::unique_ptr<Tower> tower;
  std::vector<float> rows;
  std::vector<double> prepared, computed;
  for (uint32_t round = 0; round <= test.rounds + (test.ops ? 1 : 0); ++round) {
    const uint64_t begin = nanoseconds();
    TRY(const TowerInputs inputs, test.seconds == 0 ? model.prepare(picture) : model.prepare(sound));
    const double preparing = seconds_since(begin);
    if (tower == nullptr) {
      TRY_ASSIGN(tower, Tower::create(recorded, device, budget, arithmetic, inputs.rows));
      rows.resize(inputs.rows * static_cast<size_t>(recorded.program.values[value].type.columns()));
      result.rows = inputs.rows;
    }
    meter.time_ops = round > test.rounds;
    meter.clear();
    const uint64_t started = nanoseconds();
    TRY_STATUS(tower->run(inputs, rows));
    if (round == 0 || meter.time_ops) continue;  // the first round lets caches and clocks settle
    prepared.push_back(preparing);
    computed.push_back(seconds_since(started));
  }
  result.prepared = spread_of(std::move(prepared));
  result.computed = spread_of(std::move(computed));
  if (test.ops) result.ops = op_shares(meter.facts(), meter.steps());
  meter.time_ops = false;
  return result;
}

std::string media_text(const BenchFacts& facts, const MediaResult& result) {
  const bool picture = result.test.seconds == 0;
  std::string text = picture ? cat("\npicture   ", result.test.width, " x ", result.test.height)
                             : cat("\nsound     ", result.test.seconds, " s");
  text += cat(", ", result.rows, " tokens: prepared in ", spread_text(result.prepared, 1e3, " ms"), ", computed in ",
              spread_text(result.computed, 1e3, " ms"), "\n");
  if (!result.ops.empty())
    text += cat("\nops of the ", picture ? "picture" : "sound", "\n", ops_table(facts, result.bandwidth, result.ops));
  return text;
}

}  // namespace sluice
