// The curves of a training: the loss of its steps and of held-out examples, as a picture and as text.
#pragma once

#include <string>
#include <vector>

#include "app/train/metrics.h"
#include "base/result.h"
#include "media/picture.h"

namespace sluice {

// Axes with numbers, the loss as a line, the held-out loss as a second one with marks. White without points.
Picture plot(const std::vector<MetricsPoint>& points);
Status write_plot(const std::string& path, const std::vector<MetricsPoint>& points);

// The loss in a few lines of text, `columns` wide: "*", and "o" for the held-out loss. Empty with fewer than two steps.
std::string curve_text(const std::vector<MetricsPoint>& points, size_t columns);

}  // namespace sluice
