// The contents of the GGUF files that `sluice convert` writes: a model's text part, and its towers, with llama.cpp's
// names and keys.
//
//   TRY(const GgufExport out, export_gguf(model, *find_mix("q4_k_m")));
//   for (auto& key : out.keys) writer.add_key(key.name, key.value);      // and the tokenizer's, which text/ knows
//   for (auto& t : out.tensors) writer.add_tensor(t.name, t.format, t.shape);
//   for (auto& t : out.tensors) TRY_STATUS(convert_rows(t, pool, [&](auto piece) { return writer.write(piece); }));
//
// Keys and names are those in files that llama.cpp's convert_hf_to_gguf.py writes. Formats: mix.h.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "checkpoint/gguf_value.h"
#include "model/mix.h"
#include "model/model.h"

namespace sluice {

struct ExportTensor {
  std::string name;            // with '*' for an expert's number, if each is to be a tensor of its own
  std::vector<int64_t> shape;  // outermost first
  Format format{};             // to be written
  TensorSource source;
  HeadOrder heads = {};     // the order in which rows or columns of `source` are written
  bool transposed = false;  // each expert's matrix of the source is to be transposed
};

struct GgufExport {
  // From a Hugging Face checkpoint: general.*, the family's configuration and tokenizer.ggml.suppress_tokens. From
  // GGUF: every key of the file, with file_type and quantization_version updated.
  std::vector<GgufMetadata::Entry> keys;
  std::vector<ExportTensor> tensors;
  std::vector<std::string> left_out;  // tensors of the checkpoint that are not written: those of towers, unknown ones
};

// The text part in the formats of `mix`, unless a rule says another.
//
// Packed: every expert of a layer is three tensors of its own (gate, up, down) side by side. Experts follow in order,
// behind all other tensors. Every tensor begins at a multiple of kPackedAlignment bytes, by the key general.alignment.
// So an expert is one run of whole disk blocks, and one read brings it. Formats and rules are those of the tensors that
// hold all experts. Names are those that llama.cpp first gave Mixtral's experts.
enum class ExpertLayout : uint8_t { stacked, packed };
inline constexpr uint32_t kPackedAlignment = 4096;
Result<GgufExport> export_gguf(const Model& model, const Mix& mix, const std::vector<FormatRule>& rules = {},
                               ExpertLayout layout = ExpertLayout::stacked);

// The towers, as llama.cpp's mmproj file has them. Matrices stay f16, bf16 or f32, others become bf16; vectors, tables
// of positions and convolutions are f32. One sentence where the checkpoint has none, is a GGUF file itself, or says of
// one what no key of such a file can say.
Result<GgufExport> export_projector(const Model& model);

// A tensor that convert would write for a model of which only the configuration is known.
struct OutlinedTensor {
  std::string name;
  std::vector<int64_t> shape;  // outermost first
  Format format{};
  WeightRow row;              // its weight, the first of several; empty for a made tensor, which has
  std::vector<float> values;  // these values
};
struct GgufOutline {
  std::vector<GgufMetadata::Entry> keys;
  std::vector<OutlinedTensor> tensors;
};
// `config`: a Hugging Face checkpoint with config.json only, whose weights would be bf16.
Result<GgufOutline> outline_gguf(const Checkpoint& config, const Mix& mix);
// The same for export_projector().
Result<GgufOutline> outline_projector(const Checkpoint& config);

// Writes a tensor's rows in order, in pieces of about 1 MiB, so that no tensor must fit into memory. Rows are copied
// when the format stays, else decoded and encoded on the pool. The bytes do not depend on the number of threads. A
// value that the format cannot hold is refused with the tensor's name.
using WritePiece = std::function<Status(std::span<const std::byte>)>;
Status convert_rows(const ExportTensor& tensor, ThreadPool& pool, const WritePiece& write);

}  // namespace sluice
