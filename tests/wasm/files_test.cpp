// The files of a page (base/files/memory_files.h) through the calls that the rest of the engine makes. A module, run by
// cpp_test.mjs.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/files/memory_files.h"

namespace sluice {
namespace {

int g_checks = 0, g_faults = 0;

void expect(const char* what, bool holds) {
  ++g_checks;
  if (holds) return;
  ++g_faults;
  std::fprintf(stderr, "%s\n", what);
}

void put(const std::string& path, std::string_view text) {
  auto* const bytes = static_cast<std::byte*>(std::malloc(text.size() + 1));
  std::memcpy(bytes, text.data(), text.size());
  memory_files()[path] = std::make_shared<const MemoryBlock>(path, bytes, text.size());
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_reading() {
  put("a/one", "0123456789");
  expect("a whole file is read", *read_file("a/one", 10) == "0123456789");
  expect("a file above the limit is refused", !read_file("a/one", 9));
  const auto source = FileSource::open("a/one");
  std::vector<std::byte> piece(4);
  expect("a piece is read", (*source)->read_at(3, piece).ok() && text_of(piece) == "3456");
  const std::string sentence = (*source)->read_at(7, piece).error().text;
  expect("a read beyond the end says so", sentence == "a/one: ends at byte 10: want 4 bytes at 7");
  expect("an offset beyond 32 bits does not wrap", !(*source)->read_at((uint64_t{1} << 32) + 1, piece).ok());
  expect("a file that is not there gives a sentence",
         FileSource::open("a/two").error().text == "a/two: cannot open: no such file or directory");
  const auto second = FileSource::open("a/one");
  expect("two sources are open at once", (*second)->read_at(0, piece).ok() && (*source)->read_at(0, piece).ok());
}

void check_folders() {
  put("f/b", "");
  put("f/a", "");
  put("f/sub/c", "");
  put("g", "");
  expect("names are listed once, in order", *list_directory("f") == std::vector<std::string>({"a", "b", "sub"}));
  expect("a slash at the end is no matter", *list_directory("f/") == *list_directory("f"));
  expect("a folder that is not there gives a sentence", !list_directory("h"));
  expect("kinds", path_kind("f") == PathKind::directory && path_kind("f/a") == PathKind::file &&
                      path_kind("f/sub") == PathKind::directory && path_kind("f/x") == PathKind::missing &&
                      path_kind("g") == PathKind::file);
}

void check_mappings() {
  put("m", "mapped");
  std::optional<Mapping> first(*Mapping::open("m")), second(*Mapping::open("m"));
  const auto source = FileSource::open("m");
  memory_files().erase("m");
  expect("what is removed stays mapped", text_of(first->bytes()) == "mapped" && text_of(second->bytes()) == "mapped");
  first.reset();
  put("m", "another");
  expect("what is replaced too",
         text_of(second->bytes()) == "mapped" && text_of(Mapping::open("m")->bytes()) == "another");
  expect("an open file keeps its size", (*source)->size() == 6);
  Mapping moved = *std::move(second);
  expect("a mapping moves", text_of(moved.bytes()) == "mapped" && second->bytes().empty());
  expect("nothing is there to map", !Mapping::open("none"));
  put("empty", "");
  expect("an empty file has no bytes", Mapping::open("empty")->bytes().empty());
}

void check_writing() {
  {
    auto file = AtomicFile::create("w");
    expect("a piece is written", file->write(std::as_bytes(std::span("half", 4))).ok());
    expect("nothing is there before commit", path_kind("w") == PathKind::missing);
  }
  expect("nor after the file was dropped", path_kind("w") == PathKind::missing);
  auto file = AtomicFile::create("w");
  AtomicFile moved = *std::move(file);
  expect("two pieces are written", moved.write(std::as_bytes(std::span("two ", 4))).ok() &&
                                       moved.write(std::as_bytes(std::span("pieces", 6))).ok());
  expect("and are there after commit", moved.commit().ok() && *read_file("w", 100) == "two pieces");
  expect("a file is replaced", write_file("w", "new").ok() && *read_file("w", 100) == "new");
  put("folder/x", "");
  expect("a folder is not written over", !AtomicFile::create("folder"));
}

}  // namespace
}  // namespace sluice

extern "C" {
// Returns how many checks failed, each of which was named.
__attribute__((export_name("faults"))) int faults() {
  sluice::check_reading();
  sluice::check_folders();
  sluice::check_mappings();
  sluice::check_writing();
  return sluice::g_faults;
}
__attribute__((export_name("checks"))) int checks() { return sluice::g_checks; }
}
