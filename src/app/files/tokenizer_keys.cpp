#include "app/files/tokenizer_keys.h"

#include <optional>
#include <utility>

#include "base/text.h"
#include "chat/text_parts.h"

namespace sluice {
namespace {

class Keys {
 public:
  void add(const char* name, GgufValue value) { entries_.push_back({cat("tokenizer.", name), std::move(value)}); }
  template <class T>
  void add_list(const char* name, std::vector<T> values) {
    if (!values.empty()) add(name, std::move(values));
  }
  void add_id(const char* name, const std::optional<int64_t>& id) {
    if (id) add(name, static_cast<uint32_t>(*id));
  }
  void add_flag(const char* name, const std::optional<bool>& flag) {
    if (flag) add(name, *flag);
  }
  std::vector<GgufMetadata::Entry> take() { return std::move(entries_); }

 private:
  std::vector<GgufMetadata::Entry> entries_;
};

void add_vocabulary(GgufVocabulary vocabulary, Keys& keys) {
  keys.add("ggml.model", std::move(vocabulary.model));
  if (!vocabulary.pre.empty()) keys.add("ggml.pre", std::move(vocabulary.pre));
  keys.add("ggml.tokens", std::move(vocabulary.tokens));
  keys.add_list("ggml.scores", std::move(vocabulary.scores));
  keys.add_list("ggml.token_type", std::move(vocabulary.token_type));
  keys.add_list("ggml.merges", std::move(vocabulary.merges));
  keys.add_id("ggml.bos_token_id", vocabulary.bos_token_id);
  keys.add_id("ggml.eos_token_id", vocabulary.eos_token_id);
  keys.add_id("ggml.eot_token_id", vocabulary.eot_token_id);
  keys.add_id("ggml.eom_token_id", vocabulary.eom_token_id);
  keys.add_id("ggml.unknown_token_id", vocabulary.unknown_token_id);
  keys.add_id("ggml.padding_token_id", vocabulary.padding_token_id);
  keys.add_id("ggml.mask_token_id", vocabulary.mask_token_id);
  keys.add_id("ggml.fim_pad_token_id", vocabulary.fim_pad_token_id);
  keys.add_id("ggml.fim_rep_token_id", vocabulary.fim_rep_token_id);
  keys.add_id("ggml.fim_sep_token_id", vocabulary.fim_sep_token_id);
  keys.add_flag("ggml.add_bos_token", vocabulary.add_bos_token);
  keys.add_flag("ggml.add_eos_token", vocabulary.add_eos_token);
  keys.add_flag("ggml.add_space_prefix", vocabulary.add_space_prefix);
  keys.add_flag("sluice.nfc", vocabulary.nfc);
}

}  // namespace

std::vector<GgufMetadata::Entry> vocabulary_keys(GgufVocabulary vocabulary) {
  Keys keys;
  add_vocabulary(std::move(vocabulary), keys);
  return keys.take();
}

Result<std::vector<GgufMetadata::Entry>> tokenizer_keys(const Model& model) {
  const Checkpoint& checkpoint = model.checkpoint();
  Keys keys;
  if (checkpoint.dialect() == Dialect::gguf) return keys.take();
  TRY(const Vocabulary vocabulary, read_vocabulary(checkpoint));
  TRY(GgufVocabulary written, to_gguf(vocabulary, model.facts().vocabulary));
  add_vocabulary(std::move(written), keys);
  TRY(std::optional<ChatSource> chat, stored_chat_template(checkpoint, /*has_tools=*/false));
  if (chat) keys.add("chat_template", std::move(chat->text));
  return keys.take();
}

}  // namespace sluice
