#include "serve/service.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "serve/answer_exchange.h"
#include "serve/anthropic/anthropic.h"
#include "serve/anthropic/message_writer.h"
#include "serve/fields.h"
#include "serve/ollama/ollama.h"
#include "serve/ollama/ollama_writer.h"
#include "serve/openai/openai.h"
#include "serve/openai/response_writer.h"

namespace sluice {
namespace {

constexpr uint64_t kBodyCopies = 3;  // strings of its JSON, those in OpenAI's form, and the bytes of files in it
constexpr uint64_t kValueBytes = 6 * sizeof(Json::Member);  // likewise, in lists that grow by doubling
constexpr uint64_t kSmallFormBytes = 256 << 10;             // that a model's answers have set aside
constexpr const char* kPathOfModel = "/v1/models/";         // a name follows, as behind every path that ends so
constexpr const char *kPull = "/api/pull", *kCopy = "/api/copy";
constexpr const char* kMethods = "GET, HEAD, POST, DELETE, OPTIONS";

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

ReplyFacts reply_facts(std::string id, std::string name, const ModelCard& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now);
  return {.id = std::move(id),
          .created = seconds.count(),
          .nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now - seconds).count(),
          .model = std::move(name),
          .system_fingerprint = "sluice-" + model.version};
}

// Ollama's replies are streams unless a request says otherwise.
bool wants_stream(const Json& body, ApiFamily family) {
  const Json* stream = body.find("stream");
  if (stream == nullptr || stream->is_null()) return family == ApiFamily::ollama;
  return stream->is_bool() && stream->as_bool();
}

// Writers of streams whose request is not read yet.
std::unique_ptr<AnswerWriter> chat_writer() {
  return make_chat_writer(/*shows_usage=*/false, /*shows_log_probs=*/false);
}
std::unique_ptr<AnswerWriter> response_writer() { return make_response_writer(Json::Object{}); }
std::unique_ptr<AnswerWriter> message_writer() { return make_message_writer({}); }
std::unique_ptr<AnswerWriter> ollama_writer() { return make_ollama_writer(OllamaForm::chat); }

// Of an answer's reply, whole or as a stream.
std::vector<HttpHeader> answer_headers(const ServerRequest& request, const std::string& id) {
  std::vector<HttpHeader> headers = cors_headers(request);
  if (family_of(request.path) == ApiFamily::anthropic) headers.push_back({"request-id", "req_" + id});
  return headers;
}

}  // namespace

struct Service::Asked {
  Json body;
  uint64_t reading_bytes = 0;  // of the lease, until the request is read
  std::shared_ptr<MemoryLease> lease;
  ModelPlace place;
  std::shared_ptr<std::atomic<bool>> gone = {};  // set when the client leaves
  std::shared_ptr<EarlyStream> stream = {};      // that begins with the load; null: none
};

// What a reader has made of a request.
struct Service::Prepared {
  AnswerRequest request;
  std::vector<AnswerJob> jobs;
  std::shared_ptr<ModelUse> use;
  std::shared_ptr<EarlyStream> begun = {};  // null: the head of the reply is not sent
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

HttpHeader ignored_header(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += cat(all.empty() ? "" : ", ", name);
  return {"x-sluice-ignored", all.substr(0, 4000)};
}

Service::Service(ModelShelf& shelf, AnswerQueue& queue, Settings settings)
    : shelf_(&shelf), queue_(&queue), settings_(std::move(settings)), readers_(settings_.threads) {
  if (settings_.store != nullptr) store_.emplace(*settings_.store);
}

void Service::drain() {
  draining_ = true;
  if (store_) store_->stop();
}

const Service::Route* Service::find_route(std::string_view method, std::string_view path, bool* known_path) {
  static constexpr Route kRoutes[] = {
      {"POST", "/v1/chat/completions", &Service::answer, read_openai_chat, false, chat_writer},
      {"POST", "/v1/completions", &Service::answer, read_openai_completion, false, chat_writer},
      {"POST", "/v1/responses", &Service::answer, read_openai_response, false, response_writer},
      {"POST", "/v1/responses/input_tokens", &Service::count_tokens, read_openai_response},
      {"POST", "/v1/messages", &Service::answer, read_anthropic_messages, false, message_writer},
      {"POST", "/v1/messages/count_tokens", &Service::count_tokens, read_anthropic_count},
      {"POST", "/api/chat", &Service::answer, read_ollama_chat, false, ollama_writer},
      {"POST", "/api/generate", &Service::answer, read_ollama_generate, false, ollama_writer},
      {"POST", "/api/show", &Service::show_ollama_model},
      {"POST", kPull, &Service::change_store},
      {"POST", kCopy, &Service::change_store},
      {"DELETE", "/api/delete", &Service::change_store},
      {"POST", "/api/create", &Service::refuse_publishing},
      {"POST", "/api/push", &Service::refuse_publishing},
      {"POST", "/api/blobs/", &Service::refuse_publishing},
      {"HEAD", "/api/blobs/", &Service::refuse_publishing},
      {"POST", "/v1/embeddings", &Service::refuse_embeddings},
      {"POST", "/api/embed", &Service::refuse_embeddings},
      {"POST", "/api/embeddings", &Service::refuse_embeddings},
      {"GET", "/api/tags", &Service::show_ollama},
      {"GET", "/api/ps", &Service::show_ollama},
      {"GET", "/api/version", &Service::show_version},
      {"GET", "/v1/models", &Service::show_models},
      {"GET", kPathOfModel, &Service::show_model},
      {"GET", "/", &Service::show_greeting, nullptr, true},
      {"GET", "/health", &Service::show_health, nullptr, true},
      {"GET", "/v1/health", &Service::show_health, nullptr, true},
      {"GET", "/metrics", &Service::show_metrics},
  };
  *known_path = false;
  for (const Route& route : kRoutes) {
    const std::string_view known = route.path;
    const bool is_prefix = known.size() > 1 && known.back() == '/';
    if (path != known && !(is_prefix && starts_with(path, known))) continue;
    *known_path = true;
    if (method == route.method || (method == "HEAD" && std::string_view(route.method) == "GET")) return &route;
  }
  return nullptr;
}

const SiteFile* Service::find_page(const ServerRequest& request) const {
  if (settings_.page == nullptr || (request.method != "GET" && request.method != "HEAD")) return nullptr;
  const std::string* accept = request.header("accept");
  if (request.path == "/" && (accept == nullptr || accept->find("text/html") == std::string::npos)) return nullptr;
  return settings_.page->find(request.path);
}

std::optional<ServerReply> Service::refuse_head(const ServerRequest& head) {
  bool known_path = false;
  const Route* route = find_route(head.method, head.path, &known_path);
  const bool is_public =
      head.method == "OPTIONS" || (route != nullptr && route->is_public) || find_page(head) != nullptr;
  if (const std::optional<Refusal> refused = settings_.access.refuse(head, is_public))
    return refusal_reply(family_of(head.path), *refused);
  return std::nullopt;
}

ServerReply Service::failure(const ServerRequest& head, int status, const std::string& message) {
  return refusal_reply(family_of(head.path), {.status = status, .message = message, .retry = status == 503});
}

void Service::finished(const HttpRecord& record) {
  bool known_path = false;
  const Route* route = find_route(record.method, record.path, &known_path);
  metrics_.count(record, route != nullptr ? route->path : "other");
  if (settings_.log) settings_.log(record);
}

void Service::reply(Exchange& exchange, ServerReply reply) {
  for (HttpHeader& header : cors_headers(exchange.request())) reply.headers.push_back(std::move(header));
  exchange.reply(std::move(reply));
}

void Service::reply(Exchange& exchange, const Json& body) {
  reply(exchange, ServerReply{.headers = {{"content-type", kJsonType}}, .body = write_json(body) + "\n"});
}

void Service::refuse(Exchange& exchange, const Refusal& refusal) {
  reply(exchange, refusal_reply(family_of(exchange.request().path), refusal));
}

void Service::refuse(Exchange& exchange, EarlyStream* begun, const Refusal& refusal) {
  if (begun != nullptr)
    begun->fail(refusal);
  else
    refuse(exchange, refusal);
}

Claim Service::claim_of(const Exchange& exchange, int32_t priority) const {
  return {.client = settings_.access.client_of(exchange.request()).value_or(0), .priority = priority};
}

void Service::handle(std::shared_ptr<Exchange> exchange) {
  const ServerRequest& request = exchange->request();
  if (request.method == "OPTIONS")
    return reply(*exchange, ServerReply{.status = 204,
                                        .headers = {{"allow", kMethods},
                                                    {"access-control-allow-methods", kMethods},
                                                    {"access-control-allow-headers", "*, authorization"},
                                                    {"access-control-max-age", "600"}}});
  if (const SiteFile* file = find_page(request)) return reply(*exchange, page_reply(*file, request));
  bool known_path = false;
  const Route* route = find_route(request.method, request.path, &known_path);
  if (route != nullptr) return (this->*route->handle)(exchange, *route);
  if (known_path) {
    ServerReply refused = refusal_reply(
        family_of(request.path),
        {.status = 405,
         .message = cat(printable(request.method), ' ', printable(request.path), ": the path has no such method")});
    refused.headers.push_back({"allow", kMethods});
    return reply(*exchange, std::move(refused));
  }
  refuse(*exchange, {.status = 404, .message = cat("no path ", printable(request.path)), .code = "unknown_url"});
}

// A body without a name means the only model.
Outcome<ModelPlace> Service::place_named(const Json& body) const {
  Fields fields(body);
  TRY(const std::optional<std::string> name, fields.text("model"));
  if (!name) {
    const std::vector<PlacedCard> all = shelf_->cards();
    if (!all.empty() && all.front().place.recipe == all.back().place.recipe) return all.front().place;
    return sluice::refuse("model", "model is missing: want a name of GET /v1/models");
  }
  const std::optional<ModelPlace> place = shelf_->find(*name);
  if (!place) return shelf_->unknown(*name);
  return *place;
}

Outcome<Service::Asked> Service::asked(const ServerRequest& request) const {
  Asked asked{.body = {}, .lease = std::make_shared<MemoryLease>(settings_.memory), .place = {}};
  asked.reading_bytes = kBodyCopies * request.body.size() + kValueBytes * most_json_values(request.body);
  TRY_STATUS(asked.lease->resize(asked.reading_bytes, "body"));
  TRY(asked.body, parse_body(request.body));
  TRY(asked.place, place_named(asked.body));
  return asked;
}

Outcome<Service::Prepared> Service::prepared(Asked& asked, std::shared_ptr<ModelUse> use, Reader read) const {
  TRY(AnswerRequest request, read(asked.body, use->model()));
  request.lease = asked.lease;
  if (const auto& form = request.settings.grammar; form != nullptr && form->grammar->bytes() > kSmallFormBytes)
    TRY_STATUS(asked.lease->resize(asked.lease->bytes() + form->grammar->bytes(), "the answer's form"));
  TRY(std::vector<AnswerJob> jobs,
      prepare(request, use->model(), {.fetcher = settings_.fetcher, .gone = asked.gone.get()}));
  for (AnswerJob& job : jobs) job.use = use;
  use->keep(request.keep_alive);
  request.media.clear();
  MemoryLease& lease = *asked.lease;
  TRY_STATUS(lease.resize(lease.bytes() - std::min(lease.bytes(), asked.reading_bytes), "body"));
  return Prepared{std::move(request), std::move(jobs), std::move(use)};
}

// For the threads that read requests.
std::shared_ptr<std::atomic<bool>> Service::watch_client(Exchange& exchange) {
  auto gone = std::make_shared<std::atomic<bool>>(false);
  exchange.on_gone([gone] { *gone = true; });
  return gone;
}

void Service::begin_task(std::function<void()> task) {
  std::vector<uint64_t> ended;
  readers_.take_ended(ended, /*wait=*/false);
  readers_.begin(++last_task_, std::move(task));
}

// Reads the request on a thread of the pool, then goes on with `then` on the server's. Routes outlive requests.
void Service::read_later(const std::shared_ptr<Exchange>& exchange, const Route& route, Then then) {
  if (draining_) return refuse(*exchange, ends_soon());
  begin_task([this, exchange, gone = watch_client(*exchange), route = &route, then] {
    Outcome<Asked> parsed = asked(exchange->request());
    if (!parsed) return go_on(exchange, nullptr, parsed.error(), then);
    parsed->gone = gone;
    if (std::shared_ptr<ModelUse> use = shelf_->use_loaded(parsed->place))
      return go_on(exchange, nullptr, prepared(*parsed, std::move(use), route->read), then);
    const auto kept = std::make_shared<Asked>(*std::move(parsed));
    exchange->post([this, exchange, kept, route, then] { load_then_read(exchange, kept, *route, then); });
  });
}

// The head of a stream goes out at once, so that it can say that it waits.
void Service::load_then_read(const std::shared_ptr<Exchange>& exchange, const std::shared_ptr<Asked>& asked,
                             const Route& route, Then then) {
  if (exchange->is_gone()) return;
  asked->stream = early_stream(exchange, *asked, route);
  const auto on_load = [this, exchange, asked, read = route.read, then](Outcome<std::shared_ptr<ModelUse>> loaded) {
    if (!loaded) return go_on(exchange, asked->stream, loaded.error(), then);
    exchange->post([this, exchange, asked, use = *std::move(loaded), read, then]() mutable {
      if (exchange->is_gone()) return;
      asked->gone = watch_client(*exchange);
      begin_task([this, exchange, asked, use = std::move(use), read, then]() mutable {
        go_on(exchange, asked->stream, prepared(*asked, std::move(use), read), then);
      });
    });
  };
  Outcome<uint64_t> wanted = queue_->want(asked->place, claim_of(*exchange, 0), on_load);
  if (!wanted) {
    if (const auto card = shelf_->card(asked->place)) metrics_.count_refused(card->id());
    return refuse(*exchange, wanted.error());
  }
  exchange->on_gone([queue = queue_, request = *wanted] { queue->cancel(request); });
  if (asked->stream != nullptr) begin_early(*exchange, *asked->stream);
}

// Null where the reply will be whole.
std::shared_ptr<EarlyStream> Service::early_stream(const std::shared_ptr<Exchange>& exchange, const Asked& asked,
                                                   const Route& route) const {
  if (route.writer == nullptr || !wants_stream(asked.body, family_of(route.path))) return nullptr;
  const std::shared_ptr<const ModelCard> card = shelf_->card(asked.place);
  if (card == nullptr) return nullptr;  // it has gone
  std::unique_ptr<AnswerWriter> writer = route.writer();
  const ReplyFacts facts = reply_facts(next_id(), card->id(), *card);
  writer->set(facts);
  return std::make_shared<EarlyStream>(exchange, std::move(writer), facts.id);
}

void Service::begin_early(const Exchange& exchange, EarlyStream& stream) const {
  stream.begin({.headers = answer_headers(exchange.request(), stream.id())});
}

// Of any thread.
void Service::go_on(const std::shared_ptr<Exchange>& exchange, const std::shared_ptr<EarlyStream>& begun,
                    Outcome<Prepared> found, Then then) {
  auto kept = std::make_shared<Outcome<Prepared>>(std::move(found));
  exchange->post([this, exchange, begun, kept, then] {
    if (exchange->is_gone()) return;
    if (!*kept) return refuse(*exchange, begun.get(), kept->error());
    (*kept)->begun = begun;
    (this->*then)(exchange, *std::move(*kept));
  });
}

void Service::finish() {
  if (store_) store_->finish();
  std::vector<uint64_t> ended;
  while (readers_.busy()) readers_.take_ended(ended, /*wait=*/true);
}

void Service::answer(const std::shared_ptr<Exchange>& exchange, const Route& route) {
  read_later(exchange, route, &Service::start);
}

void Service::count_tokens(const std::shared_ptr<Exchange>& exchange, const Route& route) {
  read_later(exchange, route, &Service::show_count);
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
  EarlyStream* begun = read.begun.get();
  const ModelCard& card = read.use->model();
  const size_t most = queue_->most_parts(read.use->recipe());
  if (read.jobs.size() > most)
    return refuse(*exchange, begun,
                  sluice::refuse("n", "the request asks for ", read.jobs.size(), " answers: want at most ", most));
  ReplyFacts facts = reply_facts(begun == nullptr ? next_id() : begun->id(), request.model, card);
  facts.choices = request.choices;
  facts.unloads =
      read.jobs.empty() && request.keep_alive == KeepAlive(0) && !shelf_->recipe(read.use->recipe())->is_pinned;
  ServerReply head{.headers = answer_headers(exchange->request(), facts.id)};
  if (!request.ignored.empty()) {
    head.headers.push_back(ignored_header(request.ignored));
    if (begun != nullptr) begun->tell(head.headers.back());
  }
  request.writer->set(facts);
  if (read.jobs.empty()) return answer_without_text(*exchange, std::move(read), std::move(head));
  const auto answering =
      std::make_shared<AnswerExchange>(exchange, std::move(request.writer), family_of(exchange->request().path),
                                       request.stream, begun != nullptr, std::move(head), card.id(), *queue_, metrics_);
  const Checked started = answering->start(std::move(read.jobs), claim_of(*exchange, request.priority));
  if (started) return;
  metrics_.count_refused(card.id());
  refuse(*exchange, begun, started.error());
}

// To a request that only asks for the model to be loaded.
void Service::answer_without_text(Exchange& exchange, Prepared read, ServerReply head) {
  std::string line = write_json(read.request.writer->whole({})) + "\n";
  if (read.begun != nullptr) {
    exchange.write(line);
    return exchange.end_stream();
  }
  head.headers.push_back({"content-type", kJsonType});
  head.body = std::move(line);
  exchange.reply(std::move(head));
}

// 400, as Ollama answers; clients would send the same request again after 501.
void Service::refuse_embeddings(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  const auto why = [&]() -> Checked {
    TRY(const Json body, parse_body(exchange->request().body));
    TRY(const ModelPlace place, place_named(body));
    const std::shared_ptr<const ModelCard> card = shelf_->card(place);
    if (card == nullptr) return shelf_->unknown("");
    return sluice::refuse("model", '"', printable(card->id()), "\" does not support embeddings: models of the family ",
                          card->facts.family, " only write text");
  };
  refuse(*exchange, why().error());
}

void Service::change_store(const std::shared_ptr<Exchange>& exchange, const Route& route) {
  if (draining_) return refuse(*exchange, ends_soon());
  if (!store_)
    return refuse(*exchange, {.status = 403,
                              .message = "clients may not change the store of models: start the server with "
                                         "--allow-store-changes"});
  if (route.path == std::string_view(kPull)) return store_->pull(exchange);
  if (route.path == std::string_view(kCopy)) return store_->copy(exchange);
  store_->remove(exchange);
}

// 400, as for embeddings.
void Service::refuse_publishing(const std::shared_ptr<Exchange>& exchange, const Route& route) {
  refuse(*exchange, sluice::refuse("", route.path, " is not supported: Sluice neither creates nor publishes models"));
}

void Service::show_health(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  ServerReply health{.status = draining_ ? 503 : 200, .headers = {{"content-type", kJsonType}}};
  health.body = draining_ ? "{\"status\": \"ending\"}\n" : "{\"status\": \"ok\"}\n";
  reply(*exchange, std::move(health));
}

void Service::show_metrics(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  std::vector<ModelGauges> gauges;
  for (const auto& [place, card] : shelf_->cards())
    if (place.variant == 0)
      gauges.push_back({.model = card->id(),
                        .running = queue_->running(place.recipe),
                        .waiting = queue_->waiting(place.recipe),
                        .loaded = shelf_->expires_at(place.recipe).has_value(),
                        .held_pages = queue_->held_pages(place.recipe)});
  reply(*exchange, ServerReply{.headers = {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}},
                               .body = metrics_.text(gauges)});
}

void Service::show_models(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  const bool anthropic = exchange->request().header("anthropic-version") != nullptr;
  Json::Array list;
  for (const auto& [place, card] : shelf_->cards())
    list.push_back(anthropic ? anthropic_model(*card) : openai_model(*card));
  reply(*exchange, anthropic ? anthropic_models(std::move(list)) : openai_models(std::move(list)));
}

void Service::show_model(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  const std::string name = exchange->request().path.substr(std::string_view(kPathOfModel).size());
  if (const std::shared_ptr<const ModelCard> card = shelf_->card(name)) return reply(*exchange, openai_model(*card));
  refuse(*exchange, shelf_->unknown(name));
}

void Service::show_greeting(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  reply(*exchange,
        ServerReply{.headers = {{"content-type", "text/plain; charset=utf-8"}}, .body = "Sluice is running\n"});
}

void Service::show_version(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  reply(*exchange, Json::Object{{"version", settings_.version}});
}

void Service::show_ollama(const std::shared_ptr<Exchange>& exchange, const Route& route) {
  const bool only_loaded = std::string_view(route.path) == "/api/ps";
  Json::Array list;
  for (const auto& [place, card] : shelf_->cards())
    if (!only_loaded)
      list.push_back(ollama_tag(*card));
    else if (const auto end = place.variant == 0 ? shelf_->expires_at(place.recipe) : std::nullopt)
      list.push_back(ollama_running(*card, *end == ModelShelf::kNever ? std::nullopt : end));
  reply(*exchange, Json::Object{{"models", std::move(list)}});
}

void Service::show_ollama_model(const std::shared_ptr<Exchange>& exchange, const Route& /*route*/) {
  const auto show = [&]() -> Outcome<Json> {
    TRY(const Json body, parse_body(exchange->request().body));
    TRY(const std::string name, ollama_name(body));
    const std::shared_ptr<const ModelCard> card = shelf_->card(name);
    if (card == nullptr) return shelf_->unknown(name);
    return ollama_show(*card);
  };
  Outcome<Json> shown = show();
  if (shown)
    reply(*exchange, *std::move(shown));
  else
    refuse(*exchange, shown.error());
}

}  // namespace sluice
