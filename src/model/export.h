// What `sluice convert` writes: a model's text part as GGUF, in llama.cpp's names and keys.
//
//   TRY(const GgufExport out, export_gguf(model, *find_mix("q4_k_m")));
//   for (auto& key : out.keys) writer.add_key(key.name, key.value);      // and the tokenizer's, which text/ knows
//   for (auto& t : out.tensors) writer.add_tensor(t.name, t.format, t.shape);
//   for (auto& t : out.tensors) TRY_STATUS(convert_rows(t, pool, [&](auto piece) { return writer.write(piece); }));
//
// Source of keys and names: llama.cpp's convert_hf_to_gguf.py, as files written by it show; of formats: mix.h.
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
  std::string name;            // with '*' for the number of an expert, where each is to be a tensor of its own
  std::vector<int64_t> shape;  // outermost first
  Format format{};             // to be written
  TensorSource source;
  HeadOrder heads = {};     // in which rows or columns of `source` are written
  bool transposed = false;  // each expert's matrix of the source is to be
};

struct GgufExport {
  // From a Hugging Face checkpoint: general.*, the family's configuration and tokenizer.ggml.suppress_tokens. From
  // GGUF: every key of the file, with file_type and quantization_version brought up to date.
  std::vector<GgufMetadata::Entry> keys;
  std::vector<ExportTensor> tensors;
  std::vector<std::string> left_out;  // tensors of the checkpoint that are not written: of towers, or unknown
};

// The text part in the formats of `mix`, save where a rule says another.
//
// Packed, every expert of a layer is three tensors of its own, gate, up and down, one behind the other, in the order of
// the experts and behind all other tensors; and every tensor begins at a multiple of kPackedAlignment bytes, by the key
// general.alignment. So an expert is one run of whole blocks of a disk, to be had by one read. Formats and rules are
// those of the tensors that hold all experts. Names are those under which llama.cpp wrote Mixtral's experts at first.
enum class ExpertLayout : uint8_t { stacked, packed };
inline constexpr uint32_t kPackedAlignment = 4096;
Result<GgufExport> export_gguf(const Model& model, const Mix& mix, const std::vector<FormatRule>& rules = {},
                               ExpertLayout layout = ExpertLayout::stacked);

// What convert would write of a model of which nothing is known but its configuration.
struct OutlinedTensor {
  std::string name;
  std::vector<int64_t> shape;  // outermost first
  Format format{};
  WeightRow row;              // the weight it holds, of several the first; of a made tensor nothing but
  std::vector<float> values;  // what it holds
};
struct GgufOutline {
  std::vector<GgufMetadata::Entry> keys;
  std::vector<OutlinedTensor> tensors;
};
// `config`: a Hugging Face checkpoint of config.json alone, whose weights would be bf16.
Result<GgufOutline> outline_gguf(const Checkpoint& config, const Mix& mix);

// Writes a tensor's rows in order, decoded and encoded anew on the pool, or as they are when the format stays; pieces
// of about a MiB, so that no tensor needs to fit into memory. The bytes are the same for any number of threads. A value
// that the format cannot hold is refused with its name.
using WritePiece = std::function<Status(std::span<const std::byte>)>;
Status convert_rows(const ExportTensor& tensor, ThreadPool& pool, const WritePiece& write);

}  // namespace sluice
