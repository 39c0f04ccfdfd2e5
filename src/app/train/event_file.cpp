#include "app/train/event_file.h"

#include <array>
#include <bit>
#include <chrono>
#include <fstream>
#include <optional>

#include "base/files/file.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr uint32_t kCastagnoli = 0x82f63b78;  // bits reflected
constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kCastagnoli : 0);
    table[byte] = crc;
  }
  return table;
}();

template <class T>
std::string little_endian(T number) {
  std::string bytes;
  for (size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> 8 * i & 0xff);
  return bytes;
}

std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>((number & 0x7f) | 0x80);
  return bytes + static_cast<char>(number);
}

// Fields by the wire type of their values.
enum class Wire : uint8_t { varint = 0, bits64 = 1, bytes = 2, bits32 = 5 };
std::string key(uint32_t field, Wire wire) { return varint(field << 3 | static_cast<uint32_t>(wire)); }
std::string bytes_field(uint32_t field, const std::string& bytes) {
  return cat(key(field, Wire::bytes), varint(bytes.size()), bytes);
}

std::string record(const std::string& message) {
  const std::string length = little_endian(uint64_t{message.size()});
  return cat(length, little_endian(masked_crc32c(length)), message, little_endian(masked_crc32c(message)));
}

std::string wall_time_field(double wall_time) {
  return cat(key(1, Wire::bits64), little_endian(std::bit_cast<uint64_t>(wall_time)));
}

std::string scalar(const char* tag, double number) {
  return bytes_field(1, cat(bytes_field(1, tag), key(2, Wire::bits32),
                            little_endian(std::bit_cast<uint32_t>(static_cast<float>(number)))));
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

uint32_t masked_crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ crc >> 8;
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

std::string event_file_begin(double wall_time) {
  return record(cat(wall_time_field(wall_time), bytes_field(3, "brain.Event:2")));
}

std::string event_record(double wall_time, const MetricsPoint& point) {
  std::string summary;
  const auto add = [&](const char* tag, const std::optional<double>& number) {
    if (number) summary += scalar(tag, *number);
  };
  add("loss", point.loss);
  add("rate", point.rate);
  add("gradient_norm", point.gradient_norm);
  add("held_out_loss", point.held_out_loss);
  return record(cat(wall_time_field(wall_time), key(2, Wire::varint), varint(point.step), bytes_field(5, summary)));
}

Result<EventFile> EventFile::create(const std::string& path, const std::vector<MetricsPoint>& points) {
  const double wall_time = now();
  std::string records = event_file_begin(wall_time);
  for (const MetricsPoint& point : points) records += event_record(wall_time, point);
  TRY_STATUS(write_file(path, records));
  return EventFile(path);
}

Status EventFile::add(const MetricsPoint& point) { return append_to_file(path_, event_record(now(), point)); }

}  // namespace sluice
