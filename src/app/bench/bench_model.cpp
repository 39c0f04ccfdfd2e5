#include "app/bench/bench_model.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "app/bench/bench_routing.h"
#include "app/cli/interrupt.h"
#include "app/cli/progress.h"
#include "app/files/tokenizer_keys.h"
#include "app/open/open.h"
#include "base/files/file.h"
#include "base/text.h"
#include "base/unicode.h"
#include "checkpoint/gguf_writer.h"
#include "text/bpe.h"
#include "text/vocabulary.h"

namespace sluice {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;

// The memory of a synthetic model.
struct Held {
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  Reservation reservation;
  std::unique_ptr<std::byte, Free> bytes;
};

// A vocabulary that spells every text and that llama.cpp loads: special tokens, bytes, one merge, since there must be
// one, markers of media, and unused tokens for the rest of the embedding's rows.
class ByteVocabulary {
 public:
  ByteVocabulary(const ModelShape& shape, uint64_t rows) {
    made_.model = shape.tokenizer;
    made_.pre = shape.pre_tokenizer;
    const bool alphabet = made_.model == "gpt2";  // GPT-2's characters for bytes
    made_.padding_token_id = add("<pad>", TokenKind::control);
    made_.eos_token_id = add("<eos>", TokenKind::control);
    made_.bos_token_id = add("<bos>", TokenKind::control);
    made_.unknown_token_id = add("<unk>", TokenKind::unknown);
    made_.add_bos_token = false;
    for (uint32_t byte = 0; byte < 256; ++byte)
      add(alphabet ? character(byte) : digits(byte), alphabet ? TokenKind::normal : TokenKind::byte);
    if (!alphabet)
      for (const char* letter : {"a", "b"}) add(letter, TokenKind::normal);
    add("ab", TokenKind::normal);
    made_.merges = {"a b"};
    // Where towers' rows stand, for families that find these tokens by their text.
    if (alphabet && std::string_view(shape.towers).find("vision_config") != std::string_view::npos)
      for (const char* marker : {"<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"})
        add(marker, TokenKind::control);
    while (made_.tokens.size() < rows) add(cat("<unused", made_.tokens.size(), ">"), TokenKind::unused);
    if (!alphabet) made_.scores.assign(made_.tokens.size(), -1000);
  }
  GgufVocabulary take() { return std::move(made_); }

 private:
  int64_t add(std::string text, TokenKind kind) {
    made_.tokens.push_back(std::move(text));
    made_.token_type.push_back(static_cast<int32_t>(kind));
    return static_cast<int64_t>(made_.tokens.size()) - 1;
  }
  static std::string character(uint32_t byte) {
    std::string text;
    append_utf8(text, alphabet_character(static_cast<uint8_t>(byte)));
    return text;
  }
  static std::string digits(uint32_t byte) {
    static constexpr char kDigits[] = "0123456789ABCDEF";
    return cat("<0x", kDigits[byte / 16], kDigits[byte % 16], '>');
  }

  GgufVocabulary made_;
};

uint64_t vocabulary_rows(const SyntheticModel& synthetic) {
  const auto table = std::ranges::find(synthetic.tensors(), "token_embd.weight", &SyntheticModel::Tensor::name);
  CHECK(table != synthetic.tensors().end());
  return static_cast<uint64_t>(table->shape.front());
}

std::string names_of_shapes() {
  std::string names;
  for (const ModelShape& shape : all_shapes()) names += cat(names.empty() ? "" : ", ", shape.name);
  return names;
}

}  // namespace

std::vector<OptionSpec> synthetic_options() {
  static const std::string mixes = mix_names("|");
  static const std::string shape_help = cat("a synthetic model of this shape in place of MODEL: ", names_of_shapes(),
                                            "; \":N\" behind it leaves the first N layers, of one with dense layers "
                                            "before its experts \":layers:dense:experts\"");
  return {
      {.name = "--shape", .argument = "NAME[:N]", .kind = OptionKind::text, .help = shape_help.c_str()},
      {.name = "--format",
       .argument = "FORMAT",
       .choices = mixes.c_str(),
       .kind = OptionKind::choice,
       .fallback = "q4_k_m",
       .help = "of a synthetic model: the formats of its weights, as convert --to has them"},
      {.name = "--routing",
       .argument = "ROUTING",
       .kind = OptionKind::text,
       .fallback = "zipf:1",
       .help = "of a synthetic model: how often experts are chosen; zipf:S for the expert of rank r in proportion to "
               "r^-S, uniform, or what run --record-routing wrote of a model with as many"},
      {.name = "--write",
       .argument = "FILE.gguf",
       .kind = OptionKind::text,
       .help = "writes the synthetic model as a file, for other programs too, and measures nothing"},
      {.name = "--write-mmproj",
       .argument = "FILE.gguf",
       .kind = OptionKind::text,
       .help = "the same of the towers of the shape, for --mmproj"},
  };
}

namespace {

// By its name, or of a file.
Result<Routing> find_routing(const std::string& text) {
  Result<Routing> named = parse_routing(text);
  if (named || path_kind(text) == PathKind::missing) return named;
  TRY(const RoutingTrace trace, read_routing(text));
  return Routing{.recorded = shares_of(trace).chosen};
}

}  // namespace

Result<SyntheticModel> synthetic_model(const Arguments& arguments) {
  TRY(const ShapeConfig shape, find_shape(arguments.text("--shape")));
  TRY(const Routing routing, find_routing(arguments.text("--routing")));
  return SyntheticModel::make(shape, *find_mix(arguments.text("--format")), routing);
}

Result<SyntheticModel> synthetic_towers(const Arguments& arguments) {
  TRY(const ShapeConfig shape, find_shape(arguments.text("--shape")));
  return SyntheticModel::make_towers(shape);
}

Result<Model> place_synthetic(const SyntheticModel& synthetic, ThreadPool& pool, Budget& budget) {
  const uint64_t bytes = synthetic.memory_bytes();
  const auto held = std::make_shared<Held>();
  TRY(held->reservation, budget.reserve(Domain::host, Purpose::weights, bytes));
  held->bytes.reset(
      static_cast<std::byte*>(std::aligned_alloc(SyntheticModel::kAlignment, static_cast<size_t>(bytes))));
  if (held->bytes == nullptr)
    return error(ErrorKind::out_of_memory, synthetic.name(), ": found too little memory: want ", format_bytes(bytes));
  const std::span<std::byte> memory(held->bytes.get(), static_cast<size_t>(bytes));
  auto checkpoint = std::make_shared<const Checkpoint>(synthetic.checkpoint(memory, held));
  for (size_t i = 0; i < synthetic.tensors().size(); ++i) {
    const StoredTensor& tensor = checkpoint->tensors()[i];
    const std::span<std::byte> into = memory.subspan(static_cast<size_t>(tensor.offset), tensor.bytes.size());
    pool.parallel((into.size() + kPieceBytes - 1) / kPieceBytes, 0, [&](const Share& share) {
      const size_t first = share.first * kPieceBytes, last = std::min(share.last * kPieceBytes, into.size());
      synthetic.fill(i, first, into.subspan(first, last - first));
    });
  }
  return resolve(std::move(checkpoint));
}

namespace {

// Behind those keys of the vocabulary.
Status write_file(const SyntheticModel& synthetic, const std::vector<GgufMetadata::Entry>& vocabulary,
                  const std::string& path, Console& console) {
  watch_interrupts();  // so that a stopped command leaves no part behind
  GgufWriter writer;
  for (const GgufMetadata::Entry& key : synthetic.keys()) writer.add_key(key.name, key.value);
  for (const GgufMetadata::Entry& key : vocabulary) writer.add_key(key.name, key.value);
  for (const SyntheticModel::Tensor& tensor : synthetic.tensors())
    writer.add_tensor(tensor.name, tensor.format, tensor.shape);
  ProgressLine progress(console, cat("writing ", printable(path)), "bytes");
  TRY(AtomicFile file, AtomicFile::create(path));
  TRY_STATUS(writer.begin(file));
  std::vector<std::byte> piece;
  uint64_t written = 0;
  for (size_t i = 0; i < synthetic.tensors().size(); ++i) {
    const uint64_t bytes = synthetic.tensors()[i].bytes;
    for (uint64_t first = 0; first < bytes; first += piece.size()) {
      if (interrupted()) return error(ErrorKind::cancelled, "bench: stopped");
      piece.resize(static_cast<size_t>(std::min(kPieceBytes, bytes - first)));
      synthetic.fill(i, first, piece);
      TRY_STATUS(writer.write(piece));
      progress.update(written += piece.size(), synthetic.bytes());
    }
  }
  writer.finish();
  return file.commit();
}

}  // namespace

Status write_synthetic(const SyntheticModel& synthetic, const std::string& path, Console& console) {
  ByteVocabulary vocabulary(synthetic.shape(), vocabulary_rows(synthetic));
  return write_file(synthetic, vocabulary_keys(vocabulary.take()), path, console);
}

Status write_synthetic_towers(const SyntheticModel& towers, const std::string& path, Console& console) {
  return write_file(towers, {}, path, console);
}

}  // namespace sluice
