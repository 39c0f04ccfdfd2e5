// sluice convert: a model's text part as one GGUF file, in llama.cpp's names and keys.
//
// Streams: rows pass through some at a time, so that a model larger than memory can be converted. The file is written
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

Status write_tensors(const GgufExport& out, GgufWriter& writer, ThreadPool& pool, ProgressLine& progress) {
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
    TRY_STATUS(convert_rows(tensor, pool, write));
  }
  return {};
}

Result<Converted> convert(const Arguments& arguments, Console& console) {
  const std::string& to = arguments.positionals()[1];
  TRY(const std::string path, model_path(arguments.positionals()[0]));
  TRY(const Model model, open_model(path));
  TRY(const GgufExport out, export_gguf(model, *find_mix(arguments.text("--to"))));
  TRY(GgufWriter writer, make_writer(model, out));
  TRY(AtomicFile file, AtomicFile::create(to));
  TRY_STATUS(writer.begin(file));
  ProgressLine progress(console, cat("converting to ", printable(to)), "bytes");
  ThreadPool pool(thread_count(arguments));
  TRY_STATUS(write_tensors(out, writer, pool, progress));
  writer.finish();
  TRY_STATUS(model.checkpoint().check_unchanged());
  TRY_STATUS(file.commit());
  return Converted{out.tensors.size(), writer.data_bytes(), out.left_out.size()};
}

Result<int> run(const Arguments& arguments, Console& console) {
  watch_interrupts();  // so that a stopped conversion leaves no part behind
  const std::string& to = arguments.positionals()[1];
  const std::string format = arguments.text("--to");
  TRY(const Converted done, convert(arguments, console));
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

std::string mix_names(const char* separator) {
  std::string names;
  for (const Mix& mix : all_mixes()) {
    names += cat(names.empty() ? "" : separator, mix.name);
  }
  return names;
}

}  // namespace

CommandSpec convert_command() {
  static const std::string mixes = mix_names("|");
  static const std::string to_help = cat("the weight format of the matrices, or a mix; needed: ", mix_names(", "));
  return {
      .name = "convert",
      .summary = "Writes a model's text part as one GGUF file",
      .text =
          "Names and keys are llama.cpp's, so that other programs read the file too, and so is the choice of formats: "
          "bf16, f16, f32 and q8_0 are the format of every matrix; the others are mixes, in which the head and, "
          "layer by layer, values and down projections get a finer format than the rest. Vectors and routers stay "
          "f32; rows that are no whole number of a format's blocks get one of smaller blocks, at last f16. Towers for "
          "pictures and sounds are left out.",
      .positionals = {{"MODEL", true, "a Hugging Face directory or a GGUF file; demo is the built-in model"},
                      {"FILE.gguf", true, "the file to write; replaced when it exists, and only by a whole one"}},
      .options = {{.name = "--to",
                   .argument = "FORMAT",
                   .choices = mixes.c_str(),
                   .kind = OptionKind::choice,
                   .help = to_help.c_str(),
                   .required = true},
                  threads_option(),
                  {.name = "--json", .help = "print one JSON object"}},
      .examples = {{"sluice convert ./gemma gemma-q8_0.gguf --to q8_0",
                    "a quarter of the memory of f32, nearly its answers"},
                   {"sluice convert ./gemma gemma-q4_k_m.gguf --to q4_k_m", "what most downloads are in"}},
      .json = {{"file", "string", "the file written"},
               {"format", "string", "as --to gave it"},
               {"tensors", "integer", "tensors written"},
               {"bytes", "integer", "of the tensors, without padding"},
               {"left_out", "integer", "tensors of the model that are no part of its text model"}},
      .run = run,
  };
}

}  // namespace sluice
