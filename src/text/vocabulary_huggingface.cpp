// Vocabularies from tokenizer.json. Source for its parts: huggingface/tokenizers, which has one Rust module for each
// part. A part that Sluice cannot follow exactly is an error.
#include <algorithm>

#include "base/limits.h"
#include "text/vocabulary.h"
#include "text/vocabulary_rules.h"

namespace sluice {
namespace {

constexpr std::string_view kFile = "tokenizer.json";
constexpr std::string_view kConfigFile = "tokenizer_config.json";

// Member `name`, or nullptr when it is missing or null.
const Json* member(const Json& object, std::string_view name) {
  const Json* found = object.find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}
bool flag(const Json& object, std::string_view name) {
  const Json* found = member(object, name);
  return found != nullptr && found->is_bool() && found->as_bool();
}
std::string text_of(const Json& object, std::string_view name) {
  const Json* found = member(object, name);
  return found != nullptr && found->is_string() ? found->as_string() : std::string();
}
std::string type_of(const Json& part) { return text_of(part, "type"); }
// {"String": "x"} or {"Regex": "x"}, as the pattern of a part
std::string pattern_of(const Json& part, std::string_view kind) {
  const Json* pattern = member(part, "pattern");
  return pattern == nullptr ? std::string() : text_of(*pattern, kind);
}

// The part itself, or the parts of a "Sequence", however deep.
void flatten(const Json& part, std::string_view list, std::vector<const Json*>& out) {
  if (type_of(part) != "Sequence") {
    out.push_back(&part);
    return;
  }
  const Json* parts = member(part, list);
  if (parts == nullptr || !parts->is_array()) return;
  for (const Json& inner : parts->as_array()) flatten(inner, list, out);  // kMaxJsonDepth bounds this
}
std::vector<const Json*> parts_of(const Json& root, std::string_view name, std::string_view list) {
  std::vector<const Json*> out;
  if (const Json* part = member(root, name)) flatten(*part, list, out);
  return out;
}

Error unsupported(std::string_view part, std::string_view found, std::string_view want) {
  return error(ErrorKind::unsupported, kFile, ": ", part, " is ", printable(found, 400), ": want ", want);
}
std::string quoted(std::string_view text) { return cat('"', text, '"'); }

bool looks_special(std::string_view text) {
  return (starts_with(text, "<|") && ends_with(text, "|>")) || (starts_with(text, "<｜") && ends_with(text, "｜>"));
}

class Reader {
 public:
  Reader(const Json& root, const Json* config) : root_(root), config_(config) {}
  Result<Vocabulary> read();

 private:
  Status read_model();
  Status check_model(const Json& model) const;
  Status read_tokens(const Json& vocab);
  Status place(std::string_view text, const Json* id, const Token& token);
  Status read_added(const Json& added);
  Status check_dense();
  Status read_merges(const Json& merges);
  Status read_normalizer();
  Status read_pre_tokenizer();
  Status read_split(const Json& part);
  Status read_decoder() const;
  Status read_post_processor();
  Status read_template(const Json& part);
  Status read_config();
  Status read_named(std::string_view name, std::optional<int32_t>& id) const;

  const Json& root_;
  const Json* config_;
  Vocabulary vocabulary_;
  std::vector<uint8_t> placed_;  // per id
  std::string unknown_;          // model.unk_token
  bool byte_fallback_ = false;
  bool marks_spaces_ = false;  // " " becomes U+2581
  bool byte_level_ = false;
};

Status Reader::check_model(const Json& model) const {
  const Json* type = member(model, "type");
  const bool bpe = type == nullptr ? member(model, "merges") != nullptr : type_of(model) == "BPE";
  if (!bpe) return unsupported("model.type", quoted(type_of(model)), "\"BPE\"");
  const Json* dropout = member(model, "dropout");
  if (dropout != nullptr && (!dropout->is_number() || dropout->as_number() != 0))
    return unsupported("model.dropout", write_json(*dropout), "none");
  for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!text_of(model, affix).empty()) return unsupported(cat("model.", affix), quoted(text_of(model, affix)), "none");
  return {};
}

Status Reader::read_model() {
  const Json* model = member(root_, "model");
  if (model == nullptr || !model->is_object())
    return error(ErrorKind::corrupt, kFile, ": there is no model: want an object with vocab and merges");
  TRY_STATUS(check_model(*model));
  const Json* vocab = member(*model, "vocab");
  if (vocab == nullptr || !vocab->is_object() || vocab->as_object().empty())
    return error(ErrorKind::corrupt, kFile, ": model.vocab is missing or empty: want an object of tokens and ids");
  unknown_ = text_of(*model, "unk_token");
  byte_fallback_ = flag(*model, "byte_fallback");
  vocabulary_.fuse_unknown = flag(*model, "fuse_unk");
  vocabulary_.ignore_merges = flag(*model, "ignore_merges");
  TRY_STATUS(read_tokens(*vocab));
  const Json* merges = member(*model, "merges");
  if (merges == nullptr || !merges->is_array())
    return error(ErrorKind::corrupt, kFile, ": model.merges is missing: want a list");
  return read_merges(*merges);
}

Status Reader::read_tokens(const Json& vocab) {
  const Json* added = member(root_, "added_tokens");
  if (added != nullptr && !added->is_array())
    return error(ErrorKind::corrupt, kFile, ": added_tokens is no list: want a list of objects");
  const size_t count = vocab.as_object().size() + (added == nullptr ? 0 : added->as_array().size());
  if (count > kMaxVocabulary)
    return error(ErrorKind::corrupt, kFile, ": there are ", count, " tokens: want at most ", kMaxVocabulary);
  vocabulary_.tokens.resize(count);
  placed_.resize(count);
  for (const auto& [text, id] : vocab.as_object()) {
    TRY_STATUS(place(
        text, &id,
        Token{.text = text, .kind = text == unknown_ ? TokenKind::unknown : TokenKind::normal, .special = false}));
  }
  if (added != nullptr)
    for (const Json& token : added->as_array()) TRY_STATUS(read_added(token));
  TRY_STATUS(check_dense());
  return index_tokens(vocabulary_, kFile);
}

Status Reader::place(std::string_view text, const Json* id, const Token& token) {
  const auto count = static_cast<int64_t>(placed_.size());
  if (id == nullptr || !id->is_integer() || id->as_integer() < 0 || id->as_integer() >= count) {
    return error(ErrorKind::corrupt, kFile, ": token \"", printable(text), "\" has id ",
                 id == nullptr ? "nothing" : printable(write_json(*id)), ": want 0 to ", count - 1);
  }
  const auto at = static_cast<size_t>(id->as_integer());
  Token& here = vocabulary_.tokens[at];
  if (placed_[at] != 0 && here.text != text) {
    return error(ErrorKind::corrupt, kFile, ": tokens \"", printable(here.text), "\" and \"", printable(text),
                 "\" both have id ", at, ": want one token per id");
  }
  here = token;
  placed_[at] = 1;
  return {};
}

Status Reader::read_added(const Json& added) {
  const std::string text = text_of(added, "content");
  if (text.empty()) return error(ErrorKind::corrupt, kFile, ": an added token has no content: want its text");
  for (const std::string_view option : {"single_word", "lstrip", "rstrip"})
    if (flag(added, option))
      return unsupported(cat(option, " of added token \"", printable(text), "\""), "true", "false");
  const bool special = flag(added, "special");
  const bool control = special || looks_special(text);
  return place(text, added.find("id"),
               Token{.text = text, .kind = control ? TokenKind::control : TokenKind::user_defined, .special = special});
}

Status Reader::check_dense() {
  while (placed_.back() == 0) placed_.pop_back();  // there is one token at least
  const auto hole = std::find(placed_.begin(), placed_.end(), 0);
  if (hole != placed_.end()) {
    return error(ErrorKind::corrupt, kFile, ": no token has id ", hole - placed_.begin(),
                 ": want ids without holes up to ", placed_.size() - 1);
  }
  vocabulary_.tokens.resize(placed_.size());
  return {};
}

Status Reader::read_merges(const Json& merges) {
  vocabulary_.merges.reserve(merges.as_array().size());
  const std::string where = cat(kFile, ": model.merges");
  for (const Json& merge : merges.as_array()) {
    if (merge.is_string()) {  // the form of older files
      TRY_STATUS(add_merge(vocabulary_, merge.as_string(), where));
      continue;
    }
    const bool pair = merge.is_array() && merge.as_array().size() == 2 && merge.as_array()[0].is_string() &&
                      merge.as_array()[1].is_string();
    if (!pair) {
      return error(ErrorKind::corrupt, where, ": merge ", vocabulary_.merges.size(), " is ",
                   printable(write_json(merge)), ": want two texts");
    }
    TRY_STATUS(add_merge(vocabulary_, merge.as_array()[0].as_string(), merge.as_array()[1].as_string(), where));
  }
  return {};
}

Status Reader::read_normalizer() {
  for (const Json* part : parts_of(root_, "normalizer", "normalizers")) {
    const std::string type = type_of(*part);
    if (type == "NFC")
      vocabulary_.nfc = true;
    else if (type == "Replace" && pattern_of(*part, "String") == " " && text_of(*part, "content") == kSpaceMark)
      marks_spaces_ = true;
    else if (type == "Prepend" && text_of(*part, "prepend") == kSpaceMark)
      vocabulary_.space_prefix = true;
    else
      return unsupported("normalizer", write_json(*part), "NFC, or U+2581 put for spaces or before the text");
  }
  return {};
}

Status Reader::read_split(const Json& part) {
  const std::string behavior = text_of(part, "behavior");
  // Gemma's part. It matches nothing, because every space is U+2581 by then.
  if (marks_spaces_ && pattern_of(part, "String") == " " && behavior == "MergedWithPrevious") return {};
  const std::string regex = pattern_of(part, "Regex");
  const auto split = find_split(regex);
  if (!split)
    return unsupported("pre_tokenizer",
                       cat("a split by ", write_json(part.find("pattern") == nullptr ? Json() : *part.find("pattern"))),
                       "a pattern that Sluice knows");
  if (behavior != "Isolated" || flag(part, "invert"))
    return unsupported("pre_tokenizer", cat("a split with behavior ", quoted(behavior)), "\"Isolated\", not inverted");
  vocabulary_.splits.push_back(*split);
  return {};
}

Status Reader::read_pre_tokenizer() {
  for (const Json* part : parts_of(root_, "pre_tokenizer", "pretokenizers")) {
    const std::string type = type_of(*part);
    if (type == "Split") {
      TRY_STATUS(read_split(*part));
    } else if (type == "Digits") {
      vocabulary_.splits.push_back(flag(*part, "individual_digits") ? Split::digit : Split::digits);
    } else if (type == "ByteLevel" && !flag(*part, "add_prefix_space")) {
      byte_level_ = true;
      const Json* regex = member(*part, "use_regex");
      if (regex == nullptr || flag(*part, "use_regex")) vocabulary_.splits.push_back(Split::gpt2);
    } else {
      return unsupported("pre_tokenizer", write_json(*part), "Split, Digits or ByteLevel without a prefix");
    }
  }
  const bool characters = marks_spaces_ && byte_fallback_ && vocabulary_.splits.empty();
  if (!byte_level_ && !characters) {
    return unsupported("the alphabet", "neither ByteLevel nor U+2581 with byte_fallback over uncut text",
                       "one of them");
  }
  vocabulary_.kind = byte_level_ ? VocabularyKind::byte_level : VocabularyKind::sentencepiece;
  return {};
}

// The kind of vocabulary determines how ids are decoded, and the file must agree.
Status Reader::read_decoder() const {
  bool strips = false;
  for (const Json* part : parts_of(root_, "decoder", "decoders")) {
    const std::string type = type_of(*part);
    const bool strip = type == "Strip" && text_of(*part, "content") == " " && member(*part, "start") != nullptr &&
                       write_json(*member(*part, "start")) == "1";
    strips = strips || strip;
    const bool replace =
        type == "Replace" && pattern_of(*part, "String") == kSpaceMark && text_of(*part, "content") == " ";
    const bool known = byte_level_ ? type == "ByteLevel" : strip || replace || type == "ByteFallback" || type == "Fuse";
    if (!known)
      return unsupported("decoder", write_json(*part),
                         byte_level_ ? "ByteLevel" : "Replace of U+2581, ByteFallback, Fuse, Strip of one space");
  }
  if (strips != vocabulary_.space_prefix) {
    return unsupported("decoder", strips ? "one that strips a space" : "one that strips no space",
                       "what the normalizer puts before the text");
  }
  return {};
}

// The tokens before and after "A" in TemplateProcessing's "single".
Status Reader::read_template(const Json& part) {
  const Json* single = member(part, "single");
  std::vector<int32_t> around[2];
  bool after = false;
  for (const Json& step : single != nullptr && single->is_array() ? single->as_array() : Json::Array()) {
    const Json* special = member(step, "SpecialToken");
    if (special == nullptr) {
      after = true;
      continue;
    }
    const auto id = vocabulary_.find(text_of(*special, "id"));
    if (!id) return unsupported("post_processor's token", quoted(text_of(*special, "id")), "a token");
    around[after ? 1 : 0].push_back(*id);
  }
  if (around[0].size() > 1 || around[1].size() > 1)
    return unsupported("post_processor", "several tokens in a row", "one before and one after the text");
  if (!around[0].empty()) vocabulary_.bos = around[0][0];
  if (!around[1].empty()) vocabulary_.eos = around[1][0];
  vocabulary_.add_bos = !around[0].empty();
  vocabulary_.add_eos = !around[1].empty();
  return {};
}

Status Reader::read_post_processor() {
  for (const Json* part : parts_of(root_, "post_processor", "processors")) {
    const std::string type = type_of(*part);
    if (type == "TemplateProcessing")
      TRY_STATUS(read_template(*part));
    else if (type != "ByteLevel")
      return unsupported("post_processor", quoted(type), "TemplateProcessing or ByteLevel");
  }
  return {};
}

// "bos_token": "<bos>" or {"content": "<bos>"}; leaves `id` alone when the file says nothing.
Status Reader::read_named(std::string_view name, std::optional<int32_t>& id) const {
  const Json* token = config_ == nullptr ? nullptr : member(*config_, name);
  if (token == nullptr) return {};
  const std::string text = token->is_string() ? token->as_string() : text_of(*token, "content");
  const auto found = vocabulary_.find(text);
  if (!found)
    return error(ErrorKind::corrupt, kConfigFile, ": ", name, " is \"", printable(text), "\": want a token of ", kFile);
  if (id && *id != *found) {
    return error(ErrorKind::unsupported, kConfigFile, ": ", name, " is \"", printable(text), "\", but ", kFile,
                 " adds \"", printable(vocabulary_.tokens[static_cast<size_t>(*id)].text), "\": want the same");
  }
  id = found;
  return {};
}

Status Reader::read_config() {
  TRY_STATUS(read_named("bos_token", vocabulary_.bos));
  TRY_STATUS(read_named("eos_token", vocabulary_.eos));
  TRY_STATUS(read_named("pad_token", vocabulary_.pad));
  TRY_STATUS(read_named("mask_token", vocabulary_.mask));
  TRY_STATUS(read_named("eot_token", vocabulary_.eot));
  vocabulary_.unk = unknown_.empty() ? std::nullopt : vocabulary_.find(unknown_);
  const auto decide = [&](std::string_view name, bool& add, std::optional<int32_t> id) -> Status {
    if (config_ == nullptr || member(*config_, name) == nullptr) return {};
    add = flag(*config_, name);
    if (!add || id) return {};
    return error(ErrorKind::corrupt, kConfigFile, ": ", name, " is true: want a token to add");
  };
  TRY_STATUS(decide("add_bos_token", vocabulary_.add_bos, vocabulary_.bos));
  return decide("add_eos_token", vocabulary_.add_eos, vocabulary_.eos);
}

Result<Vocabulary> Reader::read() {
  TRY_STATUS(read_model());
  TRY_STATUS(read_normalizer());
  TRY_STATUS(read_pre_tokenizer());
  TRY_STATUS(read_decoder());
  TRY_STATUS(read_post_processor());
  TRY_STATUS(read_config());
  complete(vocabulary_);
  return std::move(vocabulary_);
}

}  // namespace

Result<Vocabulary> vocabulary_from_huggingface(const Json& tokenizer, const Json* config) {
  return Reader(tokenizer, config).read();
}

}  // namespace sluice
