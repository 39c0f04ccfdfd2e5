// Files of saved sequences: the history with its classes, and the pages of what is computed.
//
//   offset  bytes           what
//   0       8               "SLUICESQ"
//   8       4               version, 1
//   12      4               groups of pages
//   16      8               tokens in the history
//   24      8               positions that the pages hold, a multiple of 64
//   32      4               bytes of the model's digest
//   36      4               bytes of the numerics id
//   40                      digest, numerics id
//           16 a group      bytes of a page u64, first page u32, pages u32
//           5 a token       ids i32, then classes u8
//                           pages: group by group, ascending positions
//           32              SHA-256 of all before
//
// Little-endian. Pages are written up to the last multiple of 64 only: what follows is computed again from the tokens,
// to the same bits, and no file carries what another conversation left in the rest of a page.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "base/sha256.h"
#include "engine/history.h"

namespace sluice {

struct SavedLengths {
  char magic[8];
  uint32_t version;
  uint32_t groups;
  uint64_t tokens;
  uint64_t cached;
  uint32_t digest_bytes;
  uint32_t numerics_bytes;
};
static_assert(sizeof(SavedLengths) == 40);

struct SavedPages {
  uint64_t page_bytes = 0;
  uint32_t first = 0;
  uint32_t count = 0;
  bool operator==(const SavedPages&) const = default;
};
static_assert(sizeof(SavedPages) == 16);

struct SavedSequence {
  std::string digest;       // of the model
  std::string numerics_id;  // of what computed the pages
  uint32_t cached = 0;
  std::vector<SavedPages> groups;
  History history;
};

// begin(), then every page in order, then finish(). The sink outlives it.
class SaveWriter {
 public:
  explicit SaveWriter(ByteSink& sink) : sink_(&sink) {}
  Status begin(const SavedSequence& saved);
  Status write(std::span<const std::byte> bytes);
  Status finish();

 private:
  ByteSink* sink_;
  Sha256 hash_;
};

// Reads and checks a whole file: lengths first, so that nothing large is allocated for a lying header, then the hash.
class SaveReader {
 public:
  // `name` begins every error; `source` outlives it.
  static Result<SaveReader> open(const ByteSource& source, const std::string& name);

  const SavedSequence& saved() const { return saved_; }
  // Page `index` of those that group `group` has in the file.
  Status read_page(uint32_t group, uint32_t index, std::span<std::byte> into) const;

 private:
  SaveReader(const ByteSource& source, std::string name) : source_(&source), name_(std::move(name)) {}
  Status read_header();
  Status check_lengths(const SavedLengths& lengths) const;
  Status check_size() const;
  Status check_hash() const;
  Status read_tokens();
  Error corrupt(const std::string& found, const std::string& want) const;

  const ByteSource* source_;
  std::string name_;
  SavedSequence saved_;
  uint64_t tokens_ = 0;
  uint64_t tokens_at_ = 0;  // offset of the ids
  uint64_t pages_at_ = 0;
};

}  // namespace sluice
