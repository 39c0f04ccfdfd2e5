// sluice convert: a model's text part as a GGUF file or several, in llama.cpp's names and keys; its towers as an mmproj
// file.
//
// Streams: rows pass through some at a time, so that a model larger than memory can be converted. Files are written
// beside their names and renamed when all are written. The digest of several files stands in the header of each: it is
// put there last.
#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "app/cli/console.h"
#include "app/cli/interrupt.h"
#include "app/cli/progress.h"
#include "app/commands.h"
#include "app/files/tokenizer_keys.h"
#include "app/open/adapters.h"
#include "app/open/open.h"
#include "base/checksum.h"
#include "base/files/file.h"
#include "base/limits.h"
#include "base/text.h"
#include "checkpoint/file_type.h"
#include "checkpoint/gguf_writer.h"
#include "checkpoint/split_gguf.h"
#include "model/export.h"

namespace sluice {
namespace {

constexpr std::string_view kGgufSuffix = ".gguf";

struct Converted {
  std::vector<std::string> files;
  uint64_t tensors = 0, bytes = 0, left_out = 0;

  void count(const GgufExport& exported) {
    tensors += exported.tensors.size();
    left_out += exported.left_out.size();
    for (const ExportTensor& tensor : exported.tensors) bytes += tensor_bytes(tensor.format, tensor.shape).value_or(0);
  }
};

// One file to write: its keys and a run of the tensors.
struct OutputFile {
  std::string path;
  std::vector<GgufMetadata::Entry> keys;
  std::span<const ExportTensor> tensors;

  Result<GgufWriter> begin(ByteSink& sink) const {
    GgufWriter writer;
    for (const GgufMetadata::Entry& key : keys) writer.add_key(key.name, key.value);
    for (const ExportTensor& tensor : tensors) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
    TRY_STATUS(writer.begin(sink));
    return writer;
  }
};

// What passes through to a file, added to a digest.
class SummedFile final : public ByteSink {
 public:
  SummedFile(AtomicFile& file, Checksum& sum) : file_(file), sum_(sum) {}
  Status write(std::span<const std::byte> bytes) override {
    sum_.add(bytes);
    return file_.write(bytes);
  }

 private:
  AtomicFile& file_;
  Checksum& sum_;
};

class Bytes final : public ByteSink {
 public:
  Status write(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  std::span<const std::byte> all() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// "PATTERN=FORMAT"; a pattern may hold '=' itself.
Result<FormatRule> parse_rule(const std::string& text) {
  const size_t sign = text.rfind('=');
  if (sign == std::string::npos || sign == 0)
    return error(ErrorKind::invalid, "--tensor ", printable(text), ": want PATTERN=FORMAT");
  const std::string name = text.substr(sign + 1);
  const auto format = format_by_name(name);
  if (format && format_info(*format).encode != nullptr) return FormatRule{text.substr(0, sign), *format};
  std::string known;
  for (const FormatInfo& info : all_formats())
    if (info.encode != nullptr) known += cat(known.empty() ? "" : ", ", info.name);
  return error(ErrorKind::invalid, "--tensor ", printable(text), ": cannot write ", printable(name), ": want one of ",
               known);
}

Status check_convert(const Arguments& arguments, const Console&) {
  for (const std::string& text : arguments.all("--tensor")) TRY_STATUS(parse_rule(text));
  if (arguments.text("--mmproj") != arguments.positionals()[1] || !arguments.given("--mmproj")) return {};
  return error(ErrorKind::invalid, "--mmproj ", printable(arguments.text("--mmproj")),
               ": is the file of the text part: want another");
}

Result<std::vector<FormatRule>> parse_rules(const Arguments& arguments) {
  std::vector<FormatRule> rules;
  for (const std::string& text : arguments.all("--tensor")) {
    TRY(FormatRule rule, parse_rule(text));
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<uint64_t> sizes_of(const std::vector<ExportTensor>& tensors) {
  std::vector<uint64_t> sizes;
  sizes.reserve(tensors.size());
  for (const ExportTensor& tensor : tensors) sizes.push_back(tensor_bytes(tensor.format, tensor.shape).value_or(0));
  return sizes;
}

// model.gguf, or model-00001-of-00003.gguf and so on.
Result<std::vector<OutputFile>> plan_files(const Arguments& arguments, const GgufExport& out) {
  const std::string& to = arguments.positionals()[1];
  SplitLimits limits;
  if (arguments.given("--split-max-size")) limits.bytes = static_cast<uint64_t>(arguments.integer("--split-max-size"));
  if (arguments.given("--split-max-tensors"))
    limits.tensors = static_cast<uint64_t>(arguments.integer("--split-max-tensors"));
  const std::span<const ExportTensor> all = out.tensors;
  if (limits.bytes == 0 && limits.tensors == 0) return std::vector<OutputFile>{{to, out.keys, all}};
  const std::vector<size_t> counts = split_tensors(sizes_of(out.tensors), limits);
  if (counts.size() > kMaxShards)
    return error(ErrorKind::invalid, printable(to), ": ", counts.size(), " parts: want at most ", kMaxShards);
  SplitName name{to, 0, static_cast<uint32_t>(counts.size())};
  if (ends_with(to, kGgufSuffix)) name.prefix.resize(to.size() - kGgufSuffix.size());
  std::vector<OutputFile> files;
  size_t first = 0;
  for (const size_t count : counts) {
    ++name.number;
    std::vector<GgufMetadata::Entry> keys = split_keys(name, all.size());
    std::ranges::copy_if(out.keys, std::inserter(keys, keys.begin()), [&](const GgufMetadata::Entry& key) {
      return name.number == 1 || key.name == kGgufAlignmentKey;  // of which every part has its own
    });
    files.push_back({name.path(), std::move(keys), all.subspan(first, count)});
    first += count;
  }
  return files;
}

// Writes the files beside their names, one after another.
class Writer {
 public:
  Writer(ThreadPool& pool, ProgressLine& progress, uint64_t bytes) : pool_(pool), progress_(progress), bytes_(bytes) {}

  Result<AtomicFile> write(const OutputFile& output) {
    TRY(AtomicFile file, AtomicFile::create(output.path));
    SummedFile summed(file, sum_);
    TRY(GgufWriter writer, output.begin(summed));
    for (const ExportTensor& tensor : output.tensors)
      TRY_STATUS(convert_rows(tensor, pool_, [&](std::span<const std::byte> piece) { return put(writer, piece); }));
    writer.finish();
    return file;
  }
  // Of all that was written.
  ChecksumValue digest() const { return sum_.value(); }

 private:
  Status put(GgufWriter& writer, std::span<const std::byte> piece) {
    if (interrupted()) return error(ErrorKind::cancelled, "convert: stopped");
    written_ += piece.size();
    progress_.update(written_, bytes_);
    return writer.write(piece);
  }

  ThreadPool& pool_;
  ProgressLine& progress_;
  uint64_t bytes_, written_ = 0;
  Checksum sum_;
};

// Puts the digest of a set into the header of one of its files; a file by itself has none.
Status name_set(OutputFile& output, const ChecksumValue& digest, size_t parts, AtomicFile& file) {
  const auto key = std::ranges::find(output.keys, kSplitIdKey, &GgufMetadata::Entry::name);
  if (key == output.keys.end()) return {};
  key->value = split_id(parts, digest);
  Bytes header;
  TRY_STATUS(output.begin(header));
  return file.write_start(header.all());
}

// Weights that are rounded already lose more by another format, and gain nothing by a finer one.
void say_second_rounding(const Model& model, const std::string& to, Console& console) {
  const std::string from = format_label(model.checkpoint());
  static constexpr std::string_view kWhole[] = {"", "f32", "f16", "bf16"};
  if (from == to || to == "f32" || std::ranges::find(kWhole, from) != std::end(kWhole)) return;
  console.remark(cat("the weights are ", from, " already: ", to,
                     " adds its own rounding and takes none back; want the ", "model as it was published"));
}

// The file of the towers; none without --mmproj.
Result<std::optional<GgufExport>> towers_to_write(const Arguments& arguments, const Model& model) {
  if (!arguments.given("--mmproj")) return std::optional<GgufExport>();
  TRY(GgufExport towers, export_projector(model));
  return std::optional(std::move(towers));
}

Result<Converted> convert(const Arguments& arguments, Console& console) {
  TRY(const std::vector<FormatRule> rules, parse_rules(arguments));
  TRY(const std::string path, model_path(arguments.positionals()[0]));
  TRY(const Model model, open_model(path));
  const ExpertLayout layout = arguments.flag("--pack-experts") ? ExpertLayout::packed : ExpertLayout::stacked;
  TRY(const AdapterSum adapters, open_adapters(model, {}, arguments));
  TRY(GgufExport out, export_gguf(model, *find_mix(arguments.text("--to")), rules, layout, adapters));
  say_second_rounding(model, arguments.text("--to"), console);
  TRY(const std::vector<GgufMetadata::Entry> keys, tokenizer_keys(model));
  out.keys.insert(out.keys.end(), keys.begin(), keys.end());
  TRY(std::vector<OutputFile> outputs, plan_files(arguments, out));
  TRY(const std::optional<GgufExport> towers, towers_to_write(arguments, model));
  Converted done;
  done.count(out);
  if (towers) {
    done.count(*towers);
    done.left_out -= model.tower_tensors().size();
  }
  ProgressLine progress(console, cat("converting to ", printable(arguments.positionals()[1])), "bytes");
  ThreadPool pool(thread_count(arguments));
  Writer writer(pool, progress, done.bytes);
  std::vector<AtomicFile> files;
  for (const OutputFile& output : outputs) {
    TRY(AtomicFile file, writer.write(output));
    files.push_back(std::move(file));
    done.files.push_back(output.path);
  }
  for (size_t i = 0; i < files.size(); ++i) TRY_STATUS(name_set(outputs[i], writer.digest(), files.size(), files[i]));
  if (towers) {
    done.files.push_back(arguments.text("--mmproj"));
    TRY(AtomicFile file, writer.write({done.files.back(), towers->keys, towers->tensors}));
    files.push_back(std::move(file));
  }
  TRY_STATUS(model.checkpoint().check_unchanged());
  // The first last: without a digest in it, as others write it, none of the later ones may have one.
  for (auto file = files.rbegin(); file != files.rend(); ++file) TRY_STATUS(file->commit());
  return done;
}

Result<int> run(const Arguments& arguments, Console& console) {
  watch_interrupts();  // so that a stopped conversion leaves no part behind
  const std::string format = arguments.text("--to");
  TRY(const Converted done, convert(arguments, console));
  if (arguments.flag("--json")) {
    console.json(Json::Object{{"files", Json::Array(done.files.begin(), done.files.end())},
                              {"format", format},
                              {"tensors", static_cast<int64_t>(done.tensors)},
                              {"bytes", static_cast<int64_t>(done.bytes)},
                              {"left_out", static_cast<int64_t>(done.left_out)}});
    return 0;
  }
  const std::string more = done.files.size() == 1 ? "" : cat(" and ", done.files.size() - 1, " more");
  console.out(cat(done.files.front(), more, ": ", done.tensors, " tensors, ", format_bytes(done.bytes), ", ", format));
  console.out(done.left_out == 0 ? std::string("\n") : cat("; ", done.left_out, " other tensors were left out\n"));
  return 0;
}

}  // namespace

CommandSpec convert_command() {
  static const std::string mixes = mix_names("|");
  static const std::string to_help = cat("the weight format of the matrices, or a mix; required: ", mix_names(", "));
  return {
      .name = "convert",
      .aliases = "quantize",
      .summary = "Writes a model as GGUF",
      .text =
          "Names, keys and the choice of formats are llama.cpp's, so other programs read the file. bf16, f16, f32 "
          "and q8_0 give every matrix that format. The other formats are mixes: the head and, in some layers, "
          "values and down projections get a finer format than the rest. Vectors and routers stay f32. Rows that "
          "are no whole number of a format's blocks get a format with smaller blocks, at last f16. --tensor names "
          "another format for matrices whose GGUF name fits its pattern, in which * stands for any characters and "
          "? for one; the first pattern that fits counts. --pack-experts is for models larger than memory: each "
          "expert becomes one run in the file, so that one read brings it. Its matrices are then tensors of their "
          "own. Other programs do not look for them and say that a tensor is missing. Patterns fit the names "
          "without --pack-experts. With a --split option FILE.gguf becomes FILE-00001-of-00003.gguf and so on, and "
          "any of them opens the whole. --adapter adds a LoRA adapter to the weights before they are written. Towers "
          "for pictures and sounds are left out, unless --mmproj names a file for "
          "them. Their matrices are not quantised.",
      .positionals = {{"MODEL", true, "a Hugging Face directory or a GGUF file; demo is the built-in model"},
                      {"FILE.gguf", true,
                       "the file to write; an existing file is replaced once the new one is complete"}},
      .options = {{.name = "--to",
                   .argument = "FORMAT",
                   .choices = mixes.c_str(),
                   .kind = OptionKind::choice,
                   .help = to_help.c_str(),
                   .required = true},
                  {.name = "--tensor",
                   .argument = "PATTERN=FORMAT",
                   .kind = OptionKind::text,
                   .help = "another format for matrices by name, instead of the mix's",
                   .repeated = true},
                  {.name = "--pack-experts",
                   .help = "puts each expert's matrices side by side, so that one read brings them"},
                  {.name = "--split-max-size",
                   .argument = "BYTES",
                   .kind = OptionKind::bytes,
                   .help = "several files with at most so much tensor data each, such as 4G; a larger tensor gets a "
                           "file of its own"},
                  {.name = "--split-max-tensors",
                   .argument = "N",
                   .kind = OptionKind::integer,
                   .help = "several files with at most so many tensors each",
                   .least = 1},
                  adapter_option(),
                  {.name = "--mmproj",
                   .argument = "FILE",
                   .kind = OptionKind::text,
                   .help = "also writes the towers for pictures and sounds, to a GGUF file of their own; MODEL must be "
                           "a Hugging Face directory"},
                  threads_option(),
                  {.name = "--json", .help = "print one JSON object"}},
      .examples = {{"sluice convert ./gemma gemma-q8_0.gguf --to q8_0",
                    "a quarter of the memory of f32, nearly its answers"},
                   {"sluice convert ./gemma gemma-q4_k_m.gguf --to q4_k_m", "the format of most downloads"},
                   {"sluice convert ./gemma g.gguf --to q4_k_m --tensor 'blk.*.ffn_down*=q8_0' --split-max-size 4G",
                    "one kind of tensor in a finer format, in files of 4 GB"}},
      .json = {{"files[]", "string", "the files written"},
               {"format", "string", "as --to gave it"},
               {"tensors", "integer", "tensors written"},
               {"bytes", "integer", "of the tensors, without padding"},
               {"left_out", "integer", "tensors of the model that were not written"}},
      .check = check_convert,
      .run = run,
  };
}

}  // namespace sluice
