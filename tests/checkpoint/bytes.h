// Builds GGUF and safetensors files byte by byte, right or wrong, and the files and failing disks to read them from.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"

namespace sluice::tests {

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

template <class T>
std::string number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
inline std::string u32(uint32_t value) { return number(value); }
inline std::string i32(int32_t value) { return number(value); }
inline std::string u64(uint64_t value) { return number(value); }
inline std::string text(std::string_view value) { return u64(value.size()) + std::string(value); }
inline std::string zeros(size_t count) { return std::string(count, '\0'); }

// ---- GGUF

inline std::string gguf_start(int64_t tensors, int64_t keys, uint32_t version = 3) {
  return "GGUF" + u32(version) + number(tensors) + number(keys);
}
inline std::string gguf_key(std::string_view name, uint32_t type, std::string_view value) {
  return text(name) + u32(type) + std::string(value);
}
inline std::string u32_key(std::string_view name, uint32_t value) { return gguf_key(name, 4, u32(value)); }
inline std::string string_key(std::string_view name, std::string_view value) { return gguf_key(name, 8, text(value)); }
inline std::string architecture() { return string_key("general.architecture", "x"); }

// Dimensions innermost first, as the file has them.
inline std::string gguf_info(std::string_view name, const std::vector<int64_t>& dimensions, int32_t type = 0,
                             uint64_t offset = 0) {
  std::string out = text(name) + u32(static_cast<uint32_t>(dimensions.size()));
  for (const int64_t dimension : dimensions) out += number(dimension);
  return out + i32(type) + u64(offset);
}
inline std::string padded(std::string header, size_t alignment = 32, char fill = '\0') {
  while (header.size() % alignment != 0) header += fill;
  return header;
}
// One tensor, one key.
inline std::string gguf_of(const std::string& info, size_t data_bytes = 32) {
  return padded(gguf_start(1, 1) + architecture() + info) + zeros(data_bytes);
}

// ---- safetensors

inline std::string safetensors_of(std::string_view header, size_t data_bytes) {
  return u64(header.size()) + std::string(header) + zeros(data_bytes);
}

// ---- disks

// Reads from memory; the read numbered `failing` (from 0) and all after it fail.
class FailingSource final : public ByteSource {
 public:
  FailingSource(std::string_view bytes, int failing) : memory_("disk", bytes_of(bytes)), failing_(failing) {}
  uint64_t size() const override { return memory_.size(); }
  Status read_at(uint64_t offset, std::span<std::byte> into) const override {
    if (reads_++ >= failing_) return error(ErrorKind::io, "disk: cannot read: Input/output error");
    return memory_.read_at(offset, into);
  }
  int reads() const { return reads_; }

 private:
  MemorySource memory_;
  int failing_;
  mutable int reads_ = 0;
};

// Claims more bytes than it can give, like a file that is cut while it is read.
class ShortSource final : public ByteSource {
 public:
  ShortSource(std::string_view bytes, uint64_t claimed) : memory_("disk", bytes_of(bytes)), claimed_(claimed) {}
  uint64_t size() const override { return claimed_; }
  Status read_at(uint64_t offset, std::span<std::byte> into) const override { return memory_.read_at(offset, into); }

 private:
  MemorySource memory_;
  uint64_t claimed_;
};

// Keeps the written bytes. A write beyond `room` bytes fails like a full disk.
class MemorySink final : public ByteSink {
 public:
  explicit MemorySink(uint64_t room = UINT64_MAX) : room_(room) {}
  Status write(std::span<const std::byte> bytes) override {
    if (bytes.size() > room_ - written_.size()) return system_error("out.gguf", "write", ENOSPC);
    written_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  const std::string& written() const { return written_; }

 private:
  uint64_t room_;
  std::string written_;
};

// A directory of its own for each test, removed at its end.
class Folder : public ::testing::Test {
 protected:
  Folder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = cat(::testing::TempDir(), "sluice_", ::getpid(), "_", test->test_suite_name(), "_", test->name());
    std::filesystem::create_directories(folder_);
  }
  ~Folder() override { std::filesystem::remove_all(folder_); }

  std::string path(std::string_view name) const { return join_path(folder_, name); }
  std::string put(std::string_view name, std::string_view content) const {
    EXPECT_TRUE(write_file(path(name), content).ok());
    return path(name);
  }

  std::string folder_;
};

}  // namespace sluice::tests
