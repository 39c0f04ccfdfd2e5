#include "serve/openai/openai.h"

#include "base/text.h"

namespace sluice {
namespace {

const char* error_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    case 503: return "service_unavailable_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
  }
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

Json openai_error(const Refusal& refusal) {
  return Json::Object{{"error", Json::Object{{"message", refusal.message},
                                             {"type", error_type(refusal.status)},
                                             {"param", text_or_null(refusal.param)},
                                             {"code", text_or_null(refusal.code)}}}};
}

Json openai_model(const ModelCard& model) {
  return Json::Object{{"id", model.id()}, {"object", "model"}, {"created", model.created}, {"owned_by", "sluice"}};
}

Json openai_models(Json::Array models) { return Json::Object{{"object", "list"}, {"data", std::move(models)}}; }

Json openai_usage(const Usage& usage) {
  return Json::Object{
      {"prompt_tokens", int64_t{usage.prompt_tokens}},
      {"completion_tokens", int64_t{usage.answer_tokens}},
      {"total_tokens", int64_t{usage.prompt_tokens} + usage.answer_tokens},
      {"prompt_tokens_details", Json::Object{{"cached_tokens", int64_t{usage.reused_tokens}}, {"audio_tokens", 0}}},
      {"completion_tokens_details", Json::Object{{"reasoning_tokens", int64_t{usage.thinking_tokens}},
                                                 {"audio_tokens", 0},
                                                 {"accepted_prediction_tokens", 0},
                                                 {"rejected_prediction_tokens", 0}}}};
}

}  // namespace sluice
