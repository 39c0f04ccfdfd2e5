// A GGUF file from any bytes, as a model: vocabulary, chat template, configuration, weights. What each accepts is used.
#include "chat/text_parts.h"
#include "fuzz/files.h"
#include "fuzz/small_engine.h"
#include "text/detokenizer.h"

namespace {

using namespace sluice;  // NOLINT(google-build-using-namespace)

constexpr std::string_view kText = "a bab <|end|>\n\n  Aé\xcc\x81 don't 12345 日本\xff <bos>\xe2\x96\x81 aaaaaaaaaaaa";

void use_vocabulary(const Checkpoint& checkpoint) {
  auto vocabulary = read_vocabulary(checkpoint);
  if (!vocabulary) return fuzz::check_sentence(vocabulary.error());
  const Tokenizer tokenizer(*std::move(vocabulary));
  const auto ids = tokenizer.encode(kText);
  tokenizer.decode(ids);
  Detokenizer stream(tokenizer);
  for (const int32_t id : ids) {
    CHECK(tokenizer.vocabulary().has(id));
    stream.push(id);
  }
  stream.flush();
}

void use_text(const Model& model) {
  const auto text = open_text(model);
  if (!text) return fuzz::check_sentence(text.error());
  if (!text->chat || text->chat->text().size() > 4096) return;  // chat_template_fuzz has smaller bounds than a user
  const auto rendered = text->chat->render({.messages = Json::Array{Json::Object{{"role", "user"}, {"content", "Hi"}}},
                                            .tools = {},
                                            .special_tokens = text->special_tokens});
  if (!rendered) fuzz::check_sentence(rendered.error());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::MemoryFile file(std::as_bytes(std::span(data, size)));
  auto checkpoint = open_checkpoint(file.path());
  if (!checkpoint) return 0;
  use_vocabulary(*checkpoint);
  const auto model = resolve(std::make_shared<const Checkpoint>(*std::move(checkpoint)));
  if (!model) {
    fuzz::check_sentence(model.error());
    return 0;
  }
  use_text(*model);
  fuzz::use_model(*model);
  return 0;
}
