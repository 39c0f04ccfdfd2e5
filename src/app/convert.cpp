// sluice convert: a model's text part as one GGUF file, in llama.cpp's names and keys.
//
// Streams: rows pass through one at a time, so that a model larger than memory can be converted. The file is written
// beside its name and renamed when it is whole.
#include <cmath>
#include <utility>

#include "app/commands.h"
#include "app/console.h"
#include "app/interrupt.h"
#include "app/open.h"
#include "app/progress.h"
#include "app/tokenizer_keys.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/gguf_writer.h"
#include "model/export.h"

namespace sluice {
namespace {

struct Converted {
  uint64_t tensors = 0, bytes = 0, left_out = 0;
};

Result<GgufWriter> make_writer(const Model& model, const GgufExport& out) {
  GgufWriter writer;
  for (const GgufMetadata::Entry& key : out.keys) {
    writer.add_key(key.name, key.value);
  }
  TRY(const std::vector<GgufMetadata::Entry> keys, tokenizer_keys(model));
  for (const GgufMetadata::Entry& key : keys) {
    writer.add_key(key.name, key.value);
  }
  for (const ExportTensor& tensor : out.tensors) {
    writer.add_tensor(tensor.name, tensor.format, tensor.shape);
  }
  return writer;
}

Status write_tensors(const GgufExport& out, GgufWriter& writer, ProgressLine& progress) {
  uint64_t written = 0;
  const WritePiece write = [&](std::span<const std::byte> piece) -> Status {
    if (interrupted()) {
      return error(ErrorKind::cancelled, "convert: stopped");
    }
    written += piece.size();
    progress.update(written, writer.data_bytes());
    return writer.write(piece);
  };
  for (const ExportTensor& tensor : out.tensors) {
    TRY_STATUS(convert_rows(tensor, write));
  }
  return {};
}

Result<Converted> convert(const std::string& from, const std::string& to, Format format, Console& console) {
  TRY(const std::string path, model_path(from));
  TRY(const Model model, open_model(path));
  TRY(const GgufExport out, export_gguf(model, format));
  TRY(GgufWriter writer, make_writer(model, out));
  TRY(AtomicFile file, AtomicFile::create(to));
  TRY_STATUS(writer.begin(file));
  ProgressLine progress(console, cat("converting to ", printable(to)), "bytes");
  TRY_STATUS(write_tensors(out, writer, progress));
  writer.finish();
  TRY_STATUS(file.commit());
  return Converted{out.tensors.size(), writer.data_bytes(), out.left_out.size()};
}

Result<int> run(const Arguments& arguments, Console& console) {
  watch_interrupts();  // so that a stopped conversion leaves no part behind
  const std::string& to = arguments.positionals()[1];
  const std::string format = arguments.text("--to");
  TRY(const Converted done, convert(arguments.positionals()[0], to, *format_by_name(format), console));
  if (arguments.flag("--json")) {
    console.json(Json::Object{{"file", to},
                              {"format", format},
                              {"tensors", static_cast<int64_t>(done.tensors)},
                              {"bytes", static_cast<int64_t>(done.bytes)},
                              {"left_out", static_cast<int64_t>(done.left_out)}});
    return 0;
  }
  console.out(cat(to, ": ", done.tensors, " tensors, ", format_bytes(done.bytes), ", ", format));
  console.out(done.left_out == 0
                  ? std::string("\n")
                  : cat("; ", done.left_out, " tensors are no part of the text model and were left out\n"));
  return 0;
}

}  // namespace

CommandSpec convert_command() {
  return {
      .name = "convert",
      .summary = "Writes a model's text part as one GGUF file",
      .text =
          "Names and keys are llama.cpp's, so that other programs read the file too. Vectors, routers and what is "
          "not a matrix stay f32; rows that are no whole number of q8_0 blocks become f16. Towers for pictures and "
          "sounds are left out.",
      .positionals = {{"MODEL", true, "a Hugging Face directory or a GGUF file; demo is the built-in model"},
                      {"FILE.gguf", true, "the file to write; replaced when it exists, and only by a whole one"}},
      .options = {{.name = "--to",
                   .argument = "bf16|f16|f32|q8_0",
                   .kind = OptionKind::choice,
                   .help = "the weight format of the matrices; needed",
                   .required = true},
                  {.name = "--json", .help = "print one JSON object"}},
      .examples = {{"sluice convert ./gemma gemma-q8_0.gguf --to q8_0",
                    "a quarter of the memory of f32, nearly its answers"}},
      .json = {{"file", "string", "the file written"},
               {"format", "string", "as --to gave it"},
               {"tensors", "integer", "tensors written"},
               {"bytes", "integer", "of the tensors, without padding"},
               {"left_out", "integer", "tensors of the model that are no part of its text model"}},
      .run = run,
  };
}

}  // namespace sluice
