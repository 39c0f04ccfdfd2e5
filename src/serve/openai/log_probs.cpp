#include "serve/openai/log_probs.h"

#include <utility>

#include "base/unicode.h"

namespace sluice {
namespace {

Json token_json(const std::string& bytes, float log_prob, bool has_bytes) {
  Json json = Json::Object{{"token", replace_invalid_utf8(bytes)}, {"logprob", double{log_prob}}};
  if (!has_bytes) return json;
  Json::Array list;
  for (const char byte : bytes) list.emplace_back(int{static_cast<uint8_t>(byte)});
  json.add("bytes", std::move(list));
  return json;
}

}  // namespace

Json token_log_probs(std::span<const TokenLogProb> tokens, bool has_bytes) {
  Json::Array list;
  for (const TokenLogProb& token : tokens) {
    Json::Array top;
    for (const auto& [bytes, log_prob] : token.top) top.push_back(token_json(bytes, log_prob, has_bytes));
    Json one = token_json(token.bytes, token.log_prob, has_bytes);
    one.add("top_logprobs", std::move(top));
    list.push_back(std::move(one));
  }
  return list;
}

Json chat_log_probs(std::span<const TokenLogProb> tokens) {
  return Json::Object{{"content", token_log_probs(tokens)}, {"refusal", {}}};
}

Json completion_log_probs(std::span<const TokenLogProb> tokens, size_t offset) {
  Json::Array texts, log_probs, tops, offsets;
  for (const TokenLogProb& token : tokens) {
    texts.emplace_back(replace_invalid_utf8(token.bytes));
    log_probs.emplace_back(double{token.log_prob});
    offsets.emplace_back(static_cast<int64_t>(offset));
    offset += token.bytes.size();
    Json top = Json::Object{};
    for (const auto& [bytes, log_prob] : token.top)
      if (std::string text = replace_invalid_utf8(bytes); top.find(text) == nullptr) top.add(text, double{log_prob});
    tops.push_back(std::move(top));
  }
  return Json::Object{{"tokens", std::move(texts)},
                      {"token_logprobs", std::move(log_probs)},
                      {"top_logprobs", std::move(tops)},
                      {"text_offset", std::move(offsets)}};
}

}  // namespace sluice
