// Files of tests/data, and what tests/data/media/expected.json says of the pictures there.
#pragma once

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "media/picture.h"
#include "tests/unwrap.h"

namespace sluice {

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": not there");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

// A file of tests/data.
inline std::vector<std::byte> test_file(const std::string& name) {
  return bytes_of(read_text(std::string(SLUICE_TEST_DATA) + "/" + name));
}

inline Json expected_media() {
  return unwrap(parse_json(read_text(std::string(SLUICE_TEST_DATA) + "/media/expected.json"), "expected.json"));
}

// {"width", "height", "pixels": hexadecimal}
inline Picture picture_of(const Json& json) {
  Picture picture;
  picture.width = static_cast<uint32_t>(json.find("width")->as_integer());
  picture.height = static_cast<uint32_t>(json.find("height")->as_integer());
  const std::string& digits = json.find("pixels")->as_string();
  for (size_t at = 0; at < digits.size(); at += 2)
    picture.pixels.push_back(static_cast<uint8_t>(std::stoi(digits.substr(at, 2), nullptr, 16)));
  return picture;
}

}  // namespace sluice
