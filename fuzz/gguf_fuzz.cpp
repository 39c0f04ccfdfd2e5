// The GGUF header reader on any bytes: it answers, and every tensor it reports lies within them. What it accepts can be
// written again and reads back the same.
#include <string>

#include "base/check.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_writer.h"

namespace {

using namespace sluice;  // NOLINT(google-build-using-namespace)

class Written final : public ByteSink {
 public:
  Status write(std::span<const std::byte> bytes) override {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(text_)); }

 private:
  std::string text_;
};

// Nothing when the file aligns so widely that padding it would only take time.
void write_again(const GgufHeader& header, std::span<const std::byte> file) {
  const GgufValue* alignment = header.metadata.find(kGgufAlignmentKey);
  if (alignment != nullptr && std::get<uint32_t>(*alignment) > 4096) return;
  GgufWriter writer;
  for (const auto& [name, value] : header.metadata.entries()) writer.add_key(name, value);
  for (const TensorEntry& tensor : header.tensors) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
  Written written;
  CHECK(writer.begin(written).ok());
  for (const TensorEntry& tensor : header.tensors) CHECK(writer.write(file.subspan(tensor.offset, tensor.bytes)).ok());
  writer.finish();
  const auto again = parse_gguf(MemorySource("again", written.bytes()), "again");
  CHECK(again.ok());
  CHECK(again->metadata.entries().size() == header.metadata.entries().size());
  CHECK(again->tensors.size() == header.tensors.size());
  for (size_t i = 0; i < header.tensors.size(); ++i)
    CHECK(again->tensors[i].name == header.tensors[i].name && again->tensors[i].bytes == header.tensors[i].bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto header = parse_gguf(MemorySource("file", file), "file");
  if (!header) return 0;
  for (const TensorEntry& tensor : header->tensors)
    CHECK(tensor.offset <= size && tensor.bytes <= size - tensor.offset);
  write_again(*header, file);
  return 0;
}
