// The time that a vision tower takes for one picture.
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

struct ImageTest {
  uint32_t width = 0, height = 0;
  uint32_t rounds = 3;
  bool ops = false;
};
// "896x896"
Result<ImageTest> parse_image_test(const std::string& text);

struct ImageResult {
  ImageTest test;
  uint32_t rows = 0;              // that the text gets
  Spread prepared, computed;      // seconds of resizing and cutting the picture, and of the tower
  double bandwidth = 0;           // bytes a second of memory; 0: unknown
  std::vector<OpShare> ops = {};  // if asked for
};
// `device` measures by `meter`.
Result<ImageResult> bench_image(const Model& model, MeteredDevice& device, Meter& meter, Budget& budget,
                                Arithmetic arithmetic, const ImageTest& test);
std::string image_text(const BenchFacts& facts, const ImageResult& result);

}  // namespace sluice
