// Requests of the HTTP APIs. The input's first line is a path, the rest the body; the rest's beginning also stands for
// the headers that access is decided by. What is taken is rendered and encoded as for an answer, and a reply is
// written.
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/unicode.h"
#include "chat/open_model.h"
#include "serve/access_rules.h"
#include "serve/anthropic/anthropic.h"
#include "serve/fields.h"
#include "serve/http/http_text.h"
#include "serve/ollama/ollama.h"
#include "serve/openai/openai.h"

namespace sluice {
namespace {

using Reader = Outcome<AnswerRequest> (*)(const Json&, const ServedModel&);
struct Path {
  std::string_view path;
  Reader read;
};
constexpr Path kPaths[] = {{"/v1/chat/completions", read_openai_chat},
                           {"/v1/completions", read_openai_completion},
                           {"/v1/responses", read_openai_response},
                           {"/v1/messages", read_anthropic_messages},
                           {"/v1/messages/count_tokens", read_anthropic_count},
                           {"/api/chat", read_ollama_chat},
                           {"/api/generate", read_ollama_generate}};

// A model that calls tools and thinks, without its weights.
const ServedModel& served() {
  static Result<Model> model = open_model("tests/data/gemma4_dense");
  CHECK(model);
  static Result<TextParts> text = open_text(*model);
  CHECK(text);
  static const ServedModel served = [] {
    ServedModel one;
    one.names = {"demo"};
    one.text = &*text;
    one.describe(*model, *text);
    one.context = 512;
    return one;
  }();
  return served;
}

// A reply is UTF-8 and JSON.
void write_reply(AnswerRequest& request, size_t jobs) {
  request.writer->set({.id = "1", .model = request.model, .system_fingerprint = {}, .choices = request.choices});
  AnsweredPart part;
  DoneEvent done;
  if (!request.settings.stops.empty()) done.stop = 0;
  const AnswerNews news{.events = {ThinkingEvent{"a"}, TextEvent{"b"}, ToolCallEvent{{"c", Json::Object{}}}, done}};
  part.take(news);
  const std::string streamed = request.writer->stream_begin() + request.writer->stream(news, part);
  CHECK(is_utf8(streamed));
  CHECK(parse_json(write_json(request.writer->whole(std::vector<AnsweredPart>(jobs, part))), "reply"));
}

void read(const Path& path, std::string_view body) {
  const auto answer = [&]() -> Outcome<size_t> {
    TRY(const Json json, parse_body(body));
    TRY(AnswerRequest request, path.read(json, served()));
    TRY(const std::vector<AnswerJob> jobs, prepare(request, served()));
    if (!jobs.empty()) write_reply(request, jobs.size());
    return jobs.size();
  };
  const Outcome<size_t> jobs = answer();
  if (jobs) return;
  const Refusal& refusal = jobs.error();
  CHECK(refusal.status >= 400 && refusal.status < 600 && !refusal.message.empty());
  for (const Json& reply : {openai_error(refusal), anthropic_error(refusal, "1"), ollama_error(refusal)})
    CHECK(is_utf8(write_json(reply)));
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = input.find('\n');
  ServerRequest request;
  split_target(input.substr(0, line), request);
  const std::string_view rest = line == std::string_view::npos ? std::string_view() : input.substr(line + 1);
  request.headers.push_back({"host", std::string(rest.substr(0, 40))});
  request.headers.push_back({"origin", std::string(rest.substr(0, 60))});
  static const AccessRules rules{.hosts = {"box"}, .keys = {"a-key-of-ours"}};
  static_cast<void>(rules.refuse(request, false));
  for (const Path& path : kPaths)
    if (request.path == path.path) read(path, rest);
  return 0;
}
