#include "serve/service.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "serve/answer_exchange.h"
#include "serve/fields.h"
#include "serve/openai/openai.h"

namespace sluice {
namespace {

constexpr const char* kJsonType = "application/json; charset=utf-8";
constexpr const char* kPathOfModel = "/v1/models/";  // a name follows

ApiFamily family_of(std::string_view path) {
  if (starts_with(path, "/v1/messages")) return ApiFamily::anthropic;
  return starts_with(path, "/api/") ? ApiFamily::ollama : ApiFamily::openai;
}

Json refusal_json(ApiFamily /*family*/, const Refusal& refusal) { return openai_error(refusal); }

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
  if (refusal.retry)
    reply.headers.push_back({"retry-after", "1"});
  else
    reply.headers.push_back({"x-should-retry", "false"});
  if (refusal.status == 401) reply.headers.push_back({"www-authenticate", "Bearer"});
  reply.body = write_json(refusal_json(family, refusal)) + "\n";
  return reply;
}

const Service::Route* Service::find_route(std::string_view method, std::string_view path, bool* known_path) {
  static constexpr Route kRoutes[] = {
      {"POST", "/v1/chat/completions", &Service::answer, read_openai_chat},
      {"POST", "/v1/completions", &Service::answer, read_openai_completion},
      {"GET", "/v1/models", &Service::show_models},
      {"GET", kPathOfModel, &Service::show_model},
      {"GET", "/health", &Service::show_health, nullptr, true},
      {"GET", "/v1/health", &Service::show_health, nullptr, true},
      {"GET", "/metrics", &Service::show_metrics},
  };
  *known_path = false;
  for (const Route& route : kRoutes) {
    const bool here = path == route.path || (ends_with(route.path, "/") && starts_with(path, route.path));
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

void Service::reply(Exchange& exchange, Json body) const {
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

void Service::read_later(std::function<void()> task) {
  std::vector<uint64_t> ended;
  readers_.take_ended(ended, /*wait=*/false);
  readers_.begin(++last_task_, std::move(task));
}

void Service::answer(const std::shared_ptr<Exchange>& exchange, const Route& route) {
  if (draining_) return refuse(*exchange, {.status = 503, .message = "the server is about to end", .retry = true});
  read_later([this, exchange, read = route.read] {
    const auto prepare_it = [&]() -> Outcome<Prepared> {
      TRY(const Json body, parse_body(exchange->request().body));
      TRY(AnswerRequest request, read(body, *model_));
      if (!model_->answers_to(request.model))
        return Refusal{.status = 404,
                       .message = cat("no model ", printable(request.model), ": want ", printable(model_->id())),
                       .param = "model",
                       .code = "model_not_found"};
      TRY(std::vector<AnswerJob> jobs, prepare(request, *model_));
      return Prepared{std::move(request), std::move(jobs)};
    };
    auto prepared = std::make_shared<Outcome<Prepared>>(prepare_it());
    exchange->post([this, exchange, prepared] {
      if (exchange->is_gone()) return;
      if (*prepared)
        start(exchange, *std::move(*prepared));
      else
        refuse(*exchange, prepared->error());
    });
  });
}

void Service::start(const std::shared_ptr<Exchange>& exchange, Prepared prepared) {
  AnswerRequest& request = prepared.request;
  const size_t most = size_t{queue_->limits().running} + queue_->limits().waiting;
  if (prepared.jobs.size() > most)
    return refuse(*exchange,
                  sluice::refuse("n", "the request asks for ", prepared.jobs.size(), " answers: want at most ", most));
  ServerReply head{.headers = cors_headers(exchange->request())};
  if (!request.ignored.empty()) head.headers.push_back({"x-sluice-ignored", joined(request.ignored)});
  request.writer->set(reply_facts(request, *model_));
  const auto answering =
      std::make_shared<AnswerExchange>(exchange, std::move(request.writer), family_of(exchange->request().path),
                                       request.stream, std::move(head), *queue_, metrics_);
  if (answering->start(std::move(prepared.jobs))) return;
  metrics_.count_refused();
  refuse(*exchange, busy());
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
  reply(*exchange, openai_models(*model_));
}

void Service::show_model(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  const std::string name = exchange->request().path.substr(std::string_view(kPathOfModel).size());
  if (model_->answers_to(name)) return reply(*exchange, openai_model(*model_));
  refuse(*exchange, {.status = 404,
                     .message = cat("no model ", printable(name), ": want ", printable(model_->id())),
                     .param = "model",
                     .code = "model_not_found"});
}

}  // namespace sluice
