// The contents of the GGUF files that `sluice convert` writes: a model's text part, and its towers, with llama.cpp's
// names and keys.
//
//   TRY(const GgufExport out, export_gguf(model, *find_mix("q4_k_m")));
//   for (auto& key : out.keys) writer.add_key(key.name, key.value);      // and the tokenizer's, which text/ knows
//   for (auto& t : out.tensors) writer.add_tensor(t.name, t.format, t.shape);
//   for (auto& t : out.tensors) TRY_STATUS(convert_rows(t, pool, [&](auto piece) { return writer.write(piece); }));
//
// Keys and names equal those that llama.cpp's convert_hf_to_gguf.py writes. mix.h chooses the formats.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "checkpoint/gguf_value.h"
#include "model/adapters/adapter.h"
#include "model/mix.h"
#include "model/model.h"

namespace sluice {

// What an adapter adds to rows of each expert of a tensor.
struct ExportChange {
  AdapterUse use;
  size_t weight = 0;       // index into its weights
  uint32_t first_row = 0;  // of the source's rows of an expert
};

struct ExportTensor {
  std::string name;            // with '*' for an expert's number if each expert is written as one tensor
  std::vector<int64_t> shape;  // outermost first
  Format format{};             // as written
  TensorSource source;
  HeadOrder heads = {};                    // the order in which the rows or columns of `source` are written
  bool transposed = false;                 // each expert's matrix is written transposed
  std::vector<ExportChange> changes = {};  // added to the source's rows
  uint32_t first_expert = 0;               // of the weight, where the source has one expert of it
};

struct GgufExport {
  // From a Hugging Face checkpoint: general.*, the family's configuration and tokenizer.ggml.suppress_tokens. From
  // GGUF: every key of the file, with file_type and quantization_version updated.
  std::vector<GgufMetadata::Entry> keys;
  std::vector<ExportTensor> tensors;
  std::vector<std::string> left_out;  // tensors of the checkpoint that are not written: of towers, or unknown
};

// The name under which a weight is written: the first one whose tensor has the same layout as the source's. A source
// that is not GGUF may also take a name whose tensor is the weight alone.
const SourceName& gguf_name(const WeightRow& row, const SourceName& source, bool from_gguf);

// The text part in the formats of `mix`; a rule overrides the mix.
//
// The packed layout lets one read fetch one expert. Every expert has three tensors of its own (gate, up, down), which
// are neighbours in the file, behind all tensors that are not experts. Every tensor begins at a multiple of
// kPackedAlignment bytes (general.alignment), so an expert is one run of whole disk blocks. The mix and the rules see
// the tensors that would hold all experts. Tensor names are those that llama.cpp first gave Mixtral's experts.
//
// `adapters` are added to the weights that they change. A head that shares its table with the embedding is then written
// as a tensor of its own, if they change one of both.
enum class ExpertLayout : uint8_t { stacked, packed };
inline constexpr uint32_t kPackedAlignment = 4096;
Result<GgufExport> export_gguf(const Model& model, const Mix& mix, const std::vector<FormatRule>& rules = {},
                               ExpertLayout layout = ExpertLayout::stacked, const AdapterSum& adapters = {});

// The towers as an mmproj file of llama.cpp. Matrices in f16, bf16 or f32 keep their format, and other matrices become
// bf16; vectors, position tables and convolutions are f32. Fails with one sentence when the checkpoint has no tower,
// when it is a GGUF file, or when a tower's configuration has a value that no key of an mmproj file can hold.
Result<GgufExport> export_projector(const Model& model);

// A tensor that convert would write, for a model of which only the configuration is known.
struct OutlinedTensor {
  std::string name;
  std::vector<int64_t> shape;  // outermost first
  Format format{};
  WeightRow row;              // the first weight in the tensor; empty for a made tensor
  std::vector<float> values;  // of a made tensor
};
struct GgufOutline {
  std::vector<GgufMetadata::Entry> keys;
  std::vector<OutlinedTensor> tensors;
};
// `config` is a Hugging Face checkpoint with config.json only. Its weights count as bf16.
Result<GgufOutline> outline_gguf(const Checkpoint& config, const Mix& mix);
// The same for export_projector().
Result<GgufOutline> outline_projector(const Checkpoint& config);

// Writes a tensor's rows in order, in pieces of about 1 MiB, so that no tensor must fit into memory. Rows are copied
// if the format stays; otherwise the pool's threads decode and encode them. The bytes do not depend on the number of
// threads. A value that the format cannot hold is refused with the tensor's name.
using WritePiece = std::function<Status(std::span<const std::byte>)>;
Status convert_rows(const ExportTensor& tensor, ThreadPool& pool, const WritePiece& write);

}  // namespace sluice
