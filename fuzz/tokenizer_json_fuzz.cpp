// tokenizer.json from any bytes: what is accepted encodes and decodes without a fault, and gives the same ids after a
// trip through GGUF's keys.
#include "base/check.h"
#include "base/json.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

constexpr std::string_view kText =
    "a bab <|end|><think>abc\n\n  Aé\xcc\x81 don't 12345 日本\xff <bos>\xe2\x96\x81 \xf0\x9f\x98\x80 aaaaaaaaaaaaaaaa";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;  // NOLINT(google-build-using-namespace)
  const auto json = parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "tokenizer.json");
  if (!json) return 0;
  auto vocabulary = vocabulary_from_huggingface(*json, json->find("config"));
  if (!vocabulary) return 0;
  const Tokenizer tokenizer(*std::move(vocabulary));
  const auto ids = tokenizer.encode(kText);
  tokenizer.encode(kText, {.add_special = true, .parse_special = false});
  tokenizer.decode(ids);
  Detokenizer stream(tokenizer);
  for (const int32_t id : ids) {
    CHECK(tokenizer.vocabulary().has(id));
    stream.push(id);
  }
  stream.flush();

  auto gguf = to_gguf(tokenizer.vocabulary());
  if (!gguf) return 0;
  auto again = vocabulary_from_gguf(*std::move(gguf));
  CHECK(again.ok());
  // GGUF has no key for this one; its reader takes Gemma's habit.
  const bool same_rules = again->fuse_unknown == tokenizer.vocabulary().fuse_unknown ||
                          tokenizer.vocabulary().kind == VocabularyKind::byte_level;
  if (same_rules) CHECK(Tokenizer(*std::move(again)).encode(kText) == ids);
  return 0;
}
