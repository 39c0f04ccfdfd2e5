#include "app/train/plot.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/files/file.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr uint32_t kWidth = 640, kHeight = 400;
constexpr int kLeft = 60, kRight = 620, kTop = 20, kBottom = 360;  // of the axes, in pixels
constexpr int kGlyphWidth = 6, kGlyphHeight = 7;                   // with the space behind

using Colour = std::array<uint8_t, 3>;
constexpr Colour kBlack = {0, 0, 0}, kGrey = {220, 220, 220}, kBlue = {31, 119, 180}, kOrange = {230, 110, 10};

// Five columns and seven rows; a row's highest bit of five is its left pixel.
struct Glyph {
  char character;
  std::array<uint8_t, kGlyphHeight> rows;
};
constexpr Glyph kFont[] = {
    {'0', {14, 17, 19, 21, 25, 17, 14}}, {'1', {4, 12, 4, 4, 4, 4, 14}},    {'2', {14, 17, 1, 2, 4, 8, 31}},
    {'3', {31, 2, 4, 2, 1, 17, 14}},     {'4', {2, 6, 10, 18, 31, 2, 2}},   {'5', {31, 16, 30, 1, 1, 17, 14}},
    {'6', {6, 8, 16, 30, 17, 17, 14}},   {'7', {31, 1, 2, 4, 8, 8, 8}},     {'8', {14, 17, 17, 14, 17, 17, 14}},
    {'9', {14, 17, 17, 15, 1, 2, 12}},   {'.', {0, 0, 0, 0, 0, 12, 12}},    {'-', {0, 0, 0, 31, 0, 0, 0}},
    {'+', {0, 4, 4, 31, 4, 4, 0}},       {'d', {1, 1, 13, 19, 17, 17, 15}}, {'e', {0, 0, 14, 17, 31, 16, 14}},
    {'h', {16, 16, 22, 25, 17, 17, 17}}, {'l', {12, 4, 4, 4, 4, 4, 14}},    {'o', {0, 0, 14, 17, 17, 17, 14}},
    {'p', {0, 0, 30, 17, 30, 16, 16}},   {'s', {0, 0, 14, 16, 14, 1, 30}},  {'t', {8, 8, 28, 8, 8, 9, 6}},
    {'u', {0, 0, 17, 17, 17, 19, 13}},
};

class Canvas {
 public:
  Canvas() : picture_{.width = kWidth, .height = kHeight, .pixels = std::vector<uint8_t>(kWidth * kHeight * 3, 255)} {}

  void dot(int x, int y, const Colour& colour) {
    if (x < 0 || y < 0 || x >= static_cast<int>(kWidth) || y >= static_cast<int>(kHeight)) return;
    std::ranges::copy(colour, picture_.pixels.begin() + (y * static_cast<int>(kWidth) + x) * 3);
  }
  void line(int x0, int y0, int x1, int y1, const Colour& colour) {
    const int count = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= count; ++i) dot(x0 + (x1 - x0) * i / count, y0 + (y1 - y0) * i / count, colour);
  }
  void mark(int x, int y, const Colour& colour) {
    for (int dy = -2; dy <= 2; ++dy) line(x - 2, y + dy, x + 2, y + dy, colour);
  }
  void text(int x, int y, std::string_view text, const Colour& colour) {
    for (const char character : text) {
      const Glyph* glyph = std::ranges::find(kFont, character, &Glyph::character);
      for (int row = 0; glyph != std::end(kFont) && row < kGlyphHeight; ++row)
        for (int column = 0; column < 5; ++column)
          if ((glyph->rows[static_cast<size_t>(row)] >> (4 - column) & 1) != 0) dot(x + column, y + row, colour);
      x += kGlyphWidth;
    }
  }
  Picture take() { return std::move(picture_); }

 private:
  Picture picture_;
};

struct Range {
  double low = 0, high = 1;
  double share(double number) const { return high > low ? (number - low) / (high - low) : 0.5; }
};

using Curve = std::vector<std::pair<double, double>>;  // step and loss

Curve curve_of(const std::vector<MetricsPoint>& points, std::optional<double> MetricsPoint::* number) {
  Curve curve;
  for (const MetricsPoint& point : points)
    if (point.*number) curve.emplace_back(static_cast<double>(point.step), *(point.*number));
  return curve;
}

Range steps_of(const Curve& curve) { return {curve.front().first, curve.back().first}; }

Range losses_of(const Curve& one, const Curve& other) {
  Range range{.low = one.front().second, .high = one.front().second};
  for (const Curve* curve : {&one, &other})
    for (const auto& [step, loss] : *curve) {
      range.low = std::min(range.low, loss);
      range.high = std::max(range.high, loss);
    }
  return range;
}

// Distance of round numbers, 1, 2 or 5 times a power of ten, some five in the range.
double tick_distance(const Range& range) {
  const double wanted = std::max(range.high - range.low, 1e-9) / 5;
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  for (const double factor : {1, 2, 5})
    if (factor * power >= wanted) return factor * power;
  return 10 * power;
}

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", std::abs(number) < 1e-12 ? 0 : number);
  return text;
}

class Axes {
 public:
  Axes(Canvas& canvas, const Range& steps, const Range& losses) : canvas_(canvas), steps_(steps), losses_(losses) {}

  void draw() {
    const double of_losses = tick_distance(losses_), of_steps = std::max(tick_distance(steps_), 1.0);
    for (double loss = std::ceil(losses_.low / of_losses) * of_losses; loss <= losses_.high; loss += of_losses) {
      const std::string text = number_text(loss);
      canvas_.line(kLeft, y(loss), kRight, y(loss), kGrey);
      canvas_.text(kLeft - 6 - kGlyphWidth * static_cast<int>(text.size()), y(loss) - 3, text, kBlack);
    }
    for (double step = std::ceil(steps_.low / of_steps) * of_steps; step <= steps_.high; step += of_steps) {
      canvas_.line(x(step), kBottom, x(step), kBottom + 4, kBlack);
      canvas_.text(x(step) - 6, kBottom + 8, number_text(step), kBlack);
    }
    canvas_.line(kLeft, kTop, kLeft, kBottom, kBlack);
    canvas_.line(kLeft, kBottom, kRight, kBottom, kBlack);
    canvas_.text(kRight - 24, kBottom + 22, "step", kBlack);
  }

  void curve(const Curve& points, const Colour& colour, bool marked) {
    for (size_t i = 0; i < points.size(); ++i) {
      const auto& [step, loss] = points[i];
      if (marked) canvas_.mark(x(step), y(loss), colour);
      if (i == 0) continue;
      const auto& [step_before, loss_before] = points[i - 1];
      for (const int thick : {0, 1})
        canvas_.line(x(step_before), y(loss_before) + thick, x(step), y(loss) + thick, colour);
    }
  }

 private:
  int x(double step) const { return kLeft + static_cast<int>(std::lround((kRight - kLeft) * steps_.share(step))); }
  int y(double loss) const { return kBottom - static_cast<int>(std::lround((kBottom - kTop) * losses_.share(loss))); }

  Canvas& canvas_;
  const Range steps_, losses_;
};

}  // namespace

Picture plot(const std::vector<MetricsPoint>& points) {
  Canvas canvas;
  const Curve loss = curve_of(points, &MetricsPoint::loss), held_out = curve_of(points, &MetricsPoint::held_out_loss);
  if (loss.empty()) return canvas.take();
  Axes axes(canvas, steps_of(loss), losses_of(loss, held_out));
  axes.draw();
  axes.curve(loss, kBlue, false);
  axes.curve(held_out, kOrange, true);
  canvas.text(kRight - 60, kTop + 4, "loss", kBlue);
  if (!held_out.empty()) canvas.text(kRight - 60, kTop + 16, "held out", kOrange);
  return canvas.take();
}

Status write_plot(const std::string& path, const std::vector<MetricsPoint>& points) {
  const Picture picture = plot(points);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = picture.width;
  image.height = picture.height;
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(size, '\0');
  if (png_image_write_to_memory(&image, file.data(), &size, 0, picture.pixels.data(), 0, nullptr) == 0)
    return error(ErrorKind::io, path, ": cannot be made: ", static_cast<const char*>(image.message));
  file.resize(size);
  return write_file(path, file);
}

std::string curve_text(const std::vector<MetricsPoint>& points, size_t columns) {
  constexpr size_t kRows = 8, kLabel = 9;
  const Curve loss = curve_of(points, &MetricsPoint::loss), held_out = curve_of(points, &MetricsPoint::held_out_loss);
  if (loss.size() < 2 || columns < kLabel + 8) return "";
  const Range steps = steps_of(loss), losses = losses_of(loss, held_out);
  const size_t width = columns - kLabel;
  std::vector<std::string> rows(kRows, std::string(width, ' '));
  const auto put = [&](const Curve& curve, char mark) {
    for (const auto& [step, number] : curve) {
      const auto column = static_cast<size_t>(std::lround(static_cast<double>(width - 1) * steps.share(step)));
      const auto row = static_cast<size_t>(std::lround((kRows - 1) * (1 - losses.share(number))));
      rows[row][column] = mark;
    }
  };
  put(loss, '*');
  put(held_out, 'o');
  std::string text;
  for (size_t i = 0; i < kRows; ++i) {
    std::string label = i == 0 ? number_text(losses.high) : i + 1 == kRows ? number_text(losses.low) : "";
    label.insert(0, kLabel - 2 - std::min(kLabel - 2, label.size()), ' ');
    text += cat(label, " |", rows[i].substr(0, rows[i].find_last_not_of(' ') + 1), "\n");
  }
  return text;
}

}  // namespace sluice
