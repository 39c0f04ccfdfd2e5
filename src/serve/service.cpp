#include "serve/service.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "serve/answer_exchange.h"
#include "serve/anthropic/anthropic.h"
#include "serve/fields.h"
#include "serve/ollama/ollama.h"
#include "serve/openai/openai.h"

namespace sluice {
namespace {

constexpr const char* kJsonType = "application/json; charset=utf-8";
constexpr uint64_t kBodyCopies = 4;  // its text, its JSON, that in OpenAI's form, and the bytes of files in it
constexpr const char* kPathOfModel = "/v1/models/";  // a name follows

ApiFamily family_of(std::string_view path) {
  if (starts_with(path, "/v1/messages")) return ApiFamily::anthropic;
  return starts_with(path, "/api/") ? ApiFamily::ollama : ApiFamily::openai;
}

Json refusal_json(ApiFamily family, const Refusal& refusal, const std::string& id) {
  if (family == ApiFamily::anthropic) return anthropic_error(refusal, id);
  return family == ApiFamily::ollama ? ollama_error(refusal) : openai_error(refusal);
}

// Unique among the replies of all servers, as far as clocks go.
std::string next_id() {
  static const uint64_t first = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  static uint64_t count = 0;
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%06llx", static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(++count));
  return text;
}

ReplyFacts reply_facts(const AnswerRequest& request, const ServedModel& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now);
  return {.id = next_id(),
          .created = seconds.count(),
          .nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now - seconds).count(),
          .model = request.model,
          .system_fingerprint = "sluice-" + model.version,
          .choices = request.choices};
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += cat(all.empty() ? "" : ", ", name);
  return all.substr(0, 4000);
}

Refusal busy() {
  return {
      .status = 503, .message = "the queue is full: want the same request later", .code = "queue_full", .retry = true};
}

}  // namespace

// What a reader has made of a request.
struct Service::Prepared {
  AnswerRequest request;
  std::vector<AnswerJob> jobs;
};

ServerReply refusal_reply(ApiFamily family, const Refusal& refusal) {
  ServerReply reply{.status = refusal.status, .headers = {{"content-type", kJsonType}}};
  std::string id;
  if (family == ApiFamily::anthropic) {
    reply.status = anthropic_status(refusal);
    id = "req_" + next_id();
    reply.headers.push_back({"request-id", id});
  }
  if (refusal.retry)
    reply.headers.push_back({"retry-after", "1"});
  else
    reply.headers.push_back({"x-should-retry", "false"});
  if (refusal.status == 401) reply.headers.push_back({"www-authenticate", "Bearer"});
  reply.body = write_json(refusal_json(family, refusal, id)) + "\n";
  return reply;
}

const Service::Route* Service::find_route(std::string_view method, std::string_view path, bool* known_path) {
  static constexpr Route kRoutes[] = {
      {"POST", "/v1/chat/completions", &Service::answer, read_openai_chat},
      {"POST", "/v1/completions", &Service::answer, read_openai_completion},
      {"POST", "/v1/responses", &Service::answer, read_openai_response},
      {"POST", "/v1/responses/input_tokens", &Service::count_tokens, read_openai_response},
      {"POST", "/v1/messages", &Service::answer, read_anthropic_messages},
      {"POST", "/v1/messages/count_tokens", &Service::count_tokens, read_anthropic_count},
      {"POST", "/api/chat", &Service::answer, read_ollama_chat},
      {"POST", "/api/generate", &Service::answer, read_ollama_generate},
      {"POST", "/api/show", &Service::show_ollama_model},
      {"POST", "/v1/embeddings", &Service::refuse_embeddings},
      {"POST", "/api/embed", &Service::refuse_embeddings},
      {"POST", "/api/embeddings", &Service::refuse_embeddings},
      {"GET", "/api/tags", &Service::show_ollama},
      {"GET", "/api/ps", &Service::show_ollama},
      {"GET", "/api/version", &Service::show_ollama},
      {"GET", "/v1/models", &Service::show_models},
      {"GET", kPathOfModel, &Service::show_model},
      {"GET", "/", &Service::show_greeting, nullptr, true},
      {"GET", "/health", &Service::show_health, nullptr, true},
      {"GET", "/v1/health", &Service::show_health, nullptr, true},
      {"GET", "/metrics", &Service::show_metrics},
  };
  *known_path = false;
  for (const Route& route : kRoutes) {
    const bool here =
        path == route.path || (route.path == std::string_view(kPathOfModel) && starts_with(path, route.path));
    if (!here) continue;
    *known_path = true;
    if (method == route.method || (method == "HEAD" && std::string_view(route.method) == "GET")) return &route;
  }
  return nullptr;
}

std::optional<ServerReply> Service::refuse_head(const ServerRequest& head) {
  bool known_path = false;
  const Route* route = find_route(head.method, head.path, &known_path);
  const bool is_public = head.method == "OPTIONS" || (route != nullptr && route->is_public);
  if (const std::optional<Refusal> refused = settings_.access.refuse(head, is_public))
    return refusal_reply(family_of(head.path), *refused);
  return std::nullopt;
}

ServerReply Service::failure(const ServerRequest& head, int status, const std::string& message) {
  return refusal_reply(family_of(head.path), {.status = status, .message = message});
}

void Service::finished(const HttpRecord& record) {
  bool known_path = false;
  const Route* route = find_route(record.method, record.path, &known_path);
  metrics_.count(record, route != nullptr ? route->path : "other");
  if (settings_.log) settings_.log(record);
}

void Service::reply(Exchange& exchange, ServerReply reply) const {
  for (HttpHeader& header : cors_headers(exchange.request())) reply.headers.push_back(std::move(header));
  exchange.reply(std::move(reply));
}

void Service::reply(Exchange& exchange, const Json& body) const {
  reply(exchange, ServerReply{.headers = {{"content-type", kJsonType}}, .body = write_json(body) + "\n"});
}

void Service::refuse(Exchange& exchange, const Refusal& refusal) const {
  reply(exchange, refusal_reply(family_of(exchange.request().path), refusal));
}

void Service::handle(std::shared_ptr<Exchange> exchange) {
  const ServerRequest& request = exchange->request();
  if (request.method == "OPTIONS")
    return reply(*exchange, ServerReply{.status = 204,
                                        .headers = {{"allow", "GET, HEAD, POST, OPTIONS"},
                                                    {"access-control-allow-methods", "GET, HEAD, POST, OPTIONS"},
                                                    {"access-control-allow-headers", "*, authorization"},
                                                    {"access-control-max-age", "600"}}});
  bool known_path = false;
  const Route* route = find_route(request.method, request.path, &known_path);
  if (route != nullptr) return (this->*route->handle)(exchange, *route);
  if (known_path) {
    ServerReply refused = refusal_reply(
        family_of(request.path),
        {.status = 405,
         .message = cat(printable(request.method), ' ', printable(request.path), ": the path has no such method")});
    refused.headers.push_back({"allow", "GET, HEAD, POST, OPTIONS"});
    return reply(*exchange, std::move(refused));
  }
  refuse(*exchange, {.status = 404, .message = cat("no path ", printable(request.path)), .code = "unknown_url"});
}

Refusal Service::no_model(const std::string& name) const {
  return {.status = 404,
          .message = cat("model ", printable(name), " not found: want ", printable(model_->id())),
          .param = "model",
          .code = "model_not_found"};
}

Outcome<Service::Prepared> Service::prepared(const ServerRequest& asked, Reader read) const {
  const auto lease = std::make_shared<MemoryLease>(model_->memory);
  const uint64_t body_bytes = asked.body.size() < kLeasedBodyBytes ? 0 : asked.body.size();
  TRY_STATUS(lease->resize(kBodyCopies * body_bytes, "body"));
  TRY(const Json body, parse_body(asked.body));
  TRY(AnswerRequest request, read(body, *model_));
  if (!model_->answers_to(request.model)) return no_model(request.model);
  request.lease = lease;
  TRY(std::vector<AnswerJob> jobs, prepare(request, *model_));
  request.media.clear();
  TRY_STATUS(lease->resize(lease->bytes() - std::min(lease->bytes(), (kBodyCopies - 1) * body_bytes), "body"));
  return Prepared{std::move(request), std::move(jobs)};
}

// Reads the request on a thread of the pool, then goes on with `then` on the server's.
void Service::read_later(const std::shared_ptr<Exchange>& exchange, Reader read,
                         void (Service::*then)(const std::shared_ptr<Exchange>&, Prepared)) {
  if (draining_) return refuse(*exchange, {.status = 503, .message = "the server is about to end", .retry = true});
  std::vector<uint64_t> ended;
  readers_.take_ended(ended, /*wait=*/false);
  readers_.begin(++last_task_, [this, exchange, read, then] {
    auto found = std::make_shared<Outcome<Prepared>>(prepared(exchange->request(), read));
    exchange->post([this, exchange, found, then] {
      if (exchange->is_gone()) return;
      if (*found)
        (this->*then)(exchange, *std::move(*found));
      else
        refuse(*exchange, found->error());
    });
  });
}

void Service::finish_reading() {
  std::vector<uint64_t> ended;
  while (readers_.busy()) readers_.take_ended(ended, /*wait=*/true);
}

void Service::answer(const std::shared_ptr<Exchange>& exchange, const Route& route) {
  read_later(exchange, route.read, &Service::start);
}

void Service::count_tokens(const std::shared_ptr<Exchange>& exchange, const Route& route) {
  read_later(exchange, route.read, &Service::show_count);
}

void Service::show_count(const std::shared_ptr<Exchange>& exchange, Prepared read) {
  const size_t tokens = read.jobs.empty() ? 0 : read.jobs[0].prompt.ids.size();
  Json count = Json::Object{};
  if (family_of(exchange->request().path) == ApiFamily::openai) count.add("object", "response.input_tokens");
  count.add("input_tokens", static_cast<int64_t>(tokens));
  reply(*exchange, count);
}

void Service::start(const std::shared_ptr<Exchange>& exchange, Prepared read) {
  AnswerRequest& request = read.request;
  const size_t most = size_t{queue_->limits().running} + queue_->limits().waiting;
  if (read.jobs.size() > most)
    return refuse(*exchange,
                  sluice::refuse("n", "the request asks for ", read.jobs.size(), " answers: want at most ", most));
  ServerReply head{.headers = cors_headers(exchange->request())};
  if (!request.ignored.empty()) head.headers.push_back({"x-sluice-ignored", joined(request.ignored)});
  const ReplyFacts facts = reply_facts(request, *model_);
  const ApiFamily family = family_of(exchange->request().path);
  if (family == ApiFamily::anthropic) head.headers.push_back({"request-id", "req_" + facts.id});
  request.writer->set(facts);
  if (read.jobs.empty()) {
    head.headers.push_back({"content-type", kJsonType});
    head.body = write_json(request.writer->whole({})) + "\n";
    return exchange->reply(std::move(head));
  }
  const auto answering = std::make_shared<AnswerExchange>(exchange, std::move(request.writer), family, request.stream,
                                                          std::move(head), *queue_, metrics_);
  if (answering->start(std::move(read.jobs))) return;
  metrics_.count_refused();
  refuse(*exchange, busy());
}

// 400, as Ollama answers; clients would send the same request again after 501.
void Service::refuse_embeddings(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  refuse(*exchange,
         sluice::refuse("model", '"', printable(model_->id()), "\" does not support embeddings: models of the family ",
                        model_->facts->family, " only write text"));
}

void Service::show_health(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  ServerReply health{.status = draining_ ? 503 : 200, .headers = {{"content-type", kJsonType}}};
  health.body = draining_ ? "{\"status\": \"ending\"}\n" : "{\"status\": \"ok\"}\n";
  reply(*exchange, std::move(health));
}

void Service::show_metrics(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  reply(*exchange, ServerReply{.headers = {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}},
                               .body = metrics_.text(model_->id(), *queue_)});
}

void Service::show_models(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  const bool anthropic = exchange->request().header("anthropic-version") != nullptr;
  reply(*exchange, anthropic ? anthropic_models(*model_) : openai_models(*model_));
}

void Service::show_model(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  const std::string name = exchange->request().path.substr(std::string_view(kPathOfModel).size());
  if (model_->answers_to(name)) return reply(*exchange, openai_model(*model_));
  refuse(*exchange, no_model(name));
}

void Service::show_greeting(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  reply(*exchange,
        ServerReply{.headers = {{"content-type", "text/plain; charset=utf-8"}}, .body = "Sluice is running\n"});
}

void Service::show_ollama(const std::shared_ptr<Exchange>& exchange, const Route& route) {
  const std::string_view path = route.path;
  if (path == "/api/tags") return reply(*exchange, ollama_tags(*model_));
  if (path == "/api/ps") return reply(*exchange, ollama_running(*model_));
  reply(*exchange, Json::Object{{"version", model_->version}});
}

void Service::show_ollama_model(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  const auto show = [&]() -> Outcome<Json> {
    TRY(const Json body, parse_body(exchange->request().body));
    return ollama_show(body, *model_);
  };
  Outcome<Json> shown = show();
  if (shown)
    reply(*exchange, *std::move(shown));
  else
    refuse(*exchange, shown.error());
}

}  // namespace sluice
