// A TensorBoard event file. Records of TFRecord, each a protobuf message Event, with scalars alone.
//
//   u64 length, u32 masked CRC-32C of the length's bytes, the message, u32 masked CRC-32C of the message
//   masked: (crc >> 15 | crc << 17) + 0xa282ead8
//
//   Event          double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5
//   Summary        repeated Value value = 1
//   Summary.Value  string tag = 1; float simple_value = 2
//
// Sources: tensorflow/core/lib/io/record_writer.h, tsl/lib/hash/crc32c.h; tensorboard/compat/proto/event.proto,
// summary.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/train/metrics.h"
#include "base/result.h"

namespace sluice {

uint32_t masked_crc32c(std::string_view bytes);

// The first record of a file, and that of what a step gave. Seconds since 1970.
std::string event_file_begin(double wall_time);
std::string event_record(double wall_time, const MetricsPoint& point);

class EventFile {
 public:
  // Replaces the file by one of these points, as if they had come now.
  static Result<EventFile> create(const std::string& path, const std::vector<MetricsPoint>& points);
  Status add(const MetricsPoint& point);

 private:
  explicit EventFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace sluice
