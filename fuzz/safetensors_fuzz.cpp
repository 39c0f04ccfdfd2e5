// The safetensors header reader on any bytes: it answers, and the tensors it reports fill the data without a gap.
#include "base/check.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;  // NOLINT(google-build-using-namespace)
  const auto file = std::as_bytes(std::span(data, size));
  const auto tensors = parse_safetensors(MemorySource("file", file), "file");
  if (!tensors) return 0;
  uint64_t bytes = 0;
  for (const TensorEntry& tensor : *tensors) {
    CHECK(tensor.offset <= size && tensor.bytes <= size - tensor.offset);
    bytes += tensor.bytes;
  }
  CHECK(bytes < size);
  return 0;
}
