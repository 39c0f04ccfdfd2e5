// Writes GGUF v3: keys in the order of adding, tensor infos, zero padding, then tensor data. The data comes in pieces,
// so a model larger than memory can be written. Source: ggml/include/gguf.h, layout only.
//
//   GgufWriter writer;
//   writer.add_key("general.architecture", std::string("gemma4"));
//   writer.add_tensor("token_embd.weight", Format::q8_0, {4096, 256});
//   TRY(AtomicFile file, AtomicFile::create(path));
//   TRY_STATUS(writer.begin(file));
//   for each tensor, in order: writer.write(piece) until its bytes are complete
//   writer.finish();
//   TRY_STATUS(file.commit());
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/result.h"
#include "checkpoint/gguf_value.h"
#include "format/format.h"

namespace sluice {

class GgufWriter {
 public:
  void add_key(std::string name, GgufValue value);
  // `shape` is outermost first, with at most four dimensions.
  void add_tensor(std::string name, Format format, std::vector<int64_t> shape);

  // Writes everything before the data. Fails when a name, key or shape cannot be written. The alignment is 32, or the
  // value of the key general.alignment. `sink` must live until finish().
  Status begin(ByteSink& sink);
  // Writes the next bytes of the data. A piece must not go beyond the end of its tensor.
  Status write(std::span<const std::byte> piece);
  void finish() const;  // CHECKs that every tensor is complete

  uint64_t data_bytes() const;  // of all tensors, without padding; after begin

 private:
  struct Tensor {
    std::string name;
    Format format{};
    std::vector<int64_t> shape;
    uint64_t bytes = 0;
  };

  Status check();
  Status check_alignment();
  Status check_tensor(Tensor& tensor) const;
  std::string header() const;
  uint64_t padding(uint64_t bytes) const;  // zeros that must follow so many bytes
  Status put_zeros(uint64_t count);
  Status advance();

  GgufMetadata keys_{"GGUF"};
  std::vector<Tensor> tensors_;
  std::string problem_;  // the first duplicate key
  ByteSink* sink_ = nullptr;
  uint64_t alignment_ = 0;
  size_t current_ = 0;    // tensor being written
  uint64_t written_ = 0;  // bytes of it
};

}  // namespace sluice
