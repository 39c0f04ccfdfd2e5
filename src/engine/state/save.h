// Files of saved sequences: the history with its classes, and the pages of its computed part.
//
// Little-endian; checksums as in base/checksum.h. Pages are written up to the last multiple of 64 only. The rows behind
// are computed again from the tokens, to the same bits, so no file carries another conversation's bytes in the rest of
// a page. A group's checksum is verified while its pages are read, so a reader can read one group without the others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/files/file.h"
#include "base/result.h"
#include "engine/history.h"

namespace sluice {

//   offset  bytes           what
//   0       8               "SLUICESQ"
//   8       4               version: 3, or 4 where rows of pictures or sounds are in the history
//   12      4               groups of pages
//   16      8               tokens in the history
//   24      8               positions that the pages hold, a multiple of 64
//   32      8               begins, a multiple of 64: tokens and pages before it are in another file; 0: all is here
//   40      4               bytes of the model's digest
//   44      4               bytes of the numerics id
//   48                      digest, numerics id
//           16 a group      bytes of a page u64, first page u32, pages u32
//           8               version 4: runs of such rows
//           28 a run        version 4: first element from `begins` on u32, elements u32, its first row u32, content
//           5 a token       from `begins` on: ids i32, then classes u8
//                           pages: group by group, ascending positions
//           16 a group      checksum of its pages
//           16              checksum of all before but the pages
struct SavedLengths {
  char magic[8];
  uint32_t version;
  uint32_t groups;
  uint64_t tokens;
  uint64_t cached;
  uint64_t begins;
  uint32_t digest_bytes;
  uint32_t numerics_bytes;
};
static_assert(sizeof(SavedLengths) == 48);

struct SavedPages {
  uint64_t page_bytes = 0;
  uint32_t first = 0;
  uint32_t count = 0;
  uint64_t bytes() const { return page_bytes * count; }  // cannot overflow after a reader's check of the file's size
  bool operator==(const SavedPages&) const = default;
};
static_assert(sizeof(SavedPages) == 16);

// Consecutive rows of a picture or sound in a history.
struct SavedMedia {
  uint32_t first = 0;  // element, counted from SavedSequence::begins
  uint32_t count = 0;
  uint32_t row = 0;
  MediaDigest content{};
  MediaShape shape{};
};
static_assert(sizeof(SavedMedia) == 36);

struct SavedSequence {
  std::string digest;       // of the model
  std::string numerics_id;  // of the device that computed the pages
  uint32_t begins = 0;
  uint32_t cached = 0;
  std::vector<SavedPages> groups;
  History history;  // from `begins` on

  uint64_t file_bytes() const;
};

// begin(), then every page in order, then finish(). The sink outlives it.
class SaveWriter {
 public:
  explicit SaveWriter(ByteSink& sink) : sink_(&sink) {}
  Status begin(const SavedSequence& saved);
  // Writes pages or pieces of pages of one group.
  Status write(std::span<const std::byte> pages);
  Status finish();

 private:
  Status write_header(std::span<const std::byte> bytes);
  void close_groups();  // takes the checksums of groups that are complete

  ByteSink* sink_;
  Checksum header_, group_;
  std::vector<uint64_t> left_;  // bytes of pages to come, by group
  std::vector<ChecksumValue> sums_;
};

// Reads and checks a file without its pages. It checks lengths before it allocates, so a lying header allocates nothing
// large, and then the checksum.
class SaveReader {
 public:
  // `name` begins every error; `source` outlives it.
  static Result<SaveReader> open(const ByteSource& source, const std::string& name);

  const SavedSequence& saved() const { return saved_; }
  // The progress of reading a group's pages.
  struct GroupReading {
    uint32_t group = 0;
    uint32_t next = 0;  // page of the file
    Checksum sum{};
  };
  // Reads the group's next page into `pieces`, whose lengths add up to a page. The group is undamaged if its last page
  // was read without an error.
  Status read_page(GroupReading& reading, std::span<const std::span<std::byte>> pieces) const;

 private:
  SaveReader(const ByteSource& source, std::string name) : source_(&source), name_(std::move(name)) {}
  Status read_header(Checksum& sum);
  Status check_lengths(const SavedLengths& lengths) const;
  Status check_size() const;
  Status read_sums(Checksum& sum);
  Status read_media_count(Checksum& sum);
  Status read_media(Checksum& sum);
  Status read_tokens(Checksum& sum);
  Status read(uint64_t offset, std::span<std::byte> into, Checksum& sum) const;
  uint64_t pages_at(size_t group) const;
  Error corrupt(const std::string& found, const std::string& want) const;
  Error damaged() const;

  const ByteSource* source_;
  std::string name_;
  SavedSequence saved_;
  std::vector<ChecksumValue> sums_;  // by group
  uint64_t tokens_ = 0;              // in the file
  uint64_t media_ = 0;               // runs
  uint64_t tokens_at_ = 0;           // offset of the ids
};

}  // namespace sluice
