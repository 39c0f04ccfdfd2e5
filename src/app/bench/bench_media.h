// The time that a tower takes for one picture or one sound.
#pragma once

#include <string>
#include <vector>

#include "app/bench/bench_ops.h"
#include "app/bench/bench_report.h"
#include "app/bench/bench_runs.h"
#include "base/budget.h"
#include "base/result.h"
#include "model/model.h"

namespace sluice {

struct MediaTest {
  uint32_t width = 0, height = 0;  // of a picture, in pixels
  uint32_t seconds = 0;            // of a sound; 0: a picture
  uint32_t rounds = 3;
  bool ops = false;

  ProgramKind tower() const { return seconds == 0 ? ProgramKind::vision : ProgramKind::audio; }
};
// A picture: "896x896".
Result<MediaTest> parse_image_test(const std::string& text);

struct MediaResult {
  MediaTest test;
  uint32_t rows = 0;              // that the text gets
  Spread prepared, computed;      // seconds: resizing and cutting a picture or a sound's frames; the tower
  double bandwidth = 0;           // bytes a second of memory; 0: unknown
  std::vector<OpShare> ops = {};  // if asked for
};
// `device` measures by `meter`.
Result<MediaResult> bench_media(const Model& model, MeteredDevice& device, Meter& meter, Budget& budget,
                                Arithmetic arithmetic, const MediaTest& test);
std::string media_text(const BenchFacts& facts, const MediaResult& result);

}  // namespace sluice
