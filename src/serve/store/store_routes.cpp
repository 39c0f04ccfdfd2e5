#include "serve/store/store_routes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "serve/access_rules.h"
#include "serve/early_stream.h"
#include "serve/fields.h"
#include "serve/ollama/ollama.h"
#include "serve/service.h"

namespace sluice {
namespace {

constexpr const char* kLines = "application/x-ndjson";
constexpr const char* kHub = "hf.co";

std::string line_of(const Json& json) { return write_json(json) + "\n"; }

Json progress_json(const PullProgress& progress) {
  Json json = Json::Object{{"status", progress.status}};
  if (!progress.digest.empty()) json.add("digest", progress.digest);
  if (progress.total > 0) json.add("total", static_cast<int64_t>(progress.total));
  if (progress.completed > 0) json.add("completed", static_cast<int64_t>(progress.completed));
  return json;
}

Outcome<OllamaName> name_of(const std::string& text, const std::string& field) {
  const std::optional<OllamaName> name = parse_ollama_name(text);
  if (!name) return refuse(field, field, " is ", printable(text, 200), ": want a name such as gemma4:e2b");
  return *name;
}

// What a request for a pull says.
struct PullAsked {
  OllamaName name;
  bool is_stream = true;
  std::vector<std::string> ignored;
};

// Other hosts are not asked: a client could use the server to look around in its network.
Outcome<PullAsked> pull_asked(const ServerRequest& request) {
  TRY(const Json body, parse_body(request.body));
  TRY(const std::string text, ollama_name(body));
  TRY(OllamaName name, name_of(text, "model"));
  if (!name.on_default_host() && name.host != kHub)
    return refuse("model", "the server does not fetch from ", printable(name.host),
                  ": want a model of Ollama's registry, or hf.co/ORG/REPO:QUANT");
  Fields fields(body);
  TRY(const std::optional<bool> stream, fields.boolean("stream"));
  fields.find("model");
  fields.find("name");
  return PullAsked{std::move(name), stream.value_or(true), fields.unread()};
}

// A client's part in a pull.
class PullExchange final : public std::enable_shared_from_this<PullExchange> {
 public:
  PullExchange(std::shared_ptr<Exchange> exchange, PullAsked asked)
      : exchange_(std::move(exchange)), asked_(std::move(asked)), head_{.headers = cors_headers(exchange_->request())} {
    if (!asked_.ignored.empty()) head_.headers.push_back(ignored_header(asked_.ignored));
  }

  void start(StoreChanges& changes) {
    const auto self = shared_from_this();
    const std::optional<uint64_t> client = changes.pull(
        asked_.name, [self](const PullProgress& news) { self->post([self, news] { self->show(news); }); },
        [self](const Checked& end) { self->post([self, end] { self->finish(end); }); });
    if (!client)
      return Service::refuse(*exchange_, {.status = 503,
                                          .message = cat("the server fetches ", StoreChanges::kMostPulls,
                                                         " other models now: want the same request later"),
                                          .retry = true});
    exchange_->on_gone([&changes, number = *client] { changes.leave(number); });
    if (!asked_.is_stream) return;
    begin_stream(*exchange_, std::move(head_), kLines,
                 line_of(Json::Object{{"status", "still pulling " + asked_.name.text()}}));
  }

 private:
  void post(std::function<void()> task) { exchange_->post(std::move(task)); }

  void show(const PullProgress& news) {
    if (asked_.is_stream) exchange_->write(line_of(progress_json(news)));
  }

  void finish(const Checked& end) {
    if (!asked_.is_stream && !end) return exchange_->reply(refusal_reply(ApiFamily::ollama, end.error()));
    const std::string last = line_of(end ? Json(Json::Object{{"status", "success"}}) : ollama_error(end.error()));
    if (asked_.is_stream) {
      exchange_->write(last);
      return exchange_->end_stream();
    }
    head_.headers.push_back({"content-type", kJsonType});
    head_.body = last;
    exchange_->reply(std::move(head_));
  }

  std::shared_ptr<Exchange> exchange_;
  PullAsked asked_;
  ServerReply head_;
};

// Ollama replies to a change that is done without a body.
StoreChanges::EndSink empty_reply_to(const std::shared_ptr<Exchange>& exchange) {
  return [exchange](const Checked& end) {
    exchange->post([exchange, end] {
      if (end)
        Service::reply(*exchange, ServerReply{});
      else
        Service::refuse(*exchange, end.error());
    });
  };
}

}  // namespace

void StoreRoutes::pull(const std::shared_ptr<Exchange>& exchange) {
  Outcome<PullAsked> asked = pull_asked(exchange->request());
  if (!asked) return Service::refuse(*exchange, asked.error());
  std::make_shared<PullExchange>(exchange, *std::move(asked))->start(changes_);
}

void StoreRoutes::copy(const std::shared_ptr<Exchange>& exchange) {
  const auto names = [&]() -> Outcome<std::array<OllamaName, 2>> {
    TRY(const Json body, parse_body(exchange->request().body));
    Fields fields(body);
    std::array<OllamaName, 2> both;
    for (size_t i = 0; i < both.size(); ++i) {
      const char* field = i == 0 ? "source" : "destination";
      TRY(const std::optional<std::string> text, fields.text(field));
      if (!text) return refuse(field, field, " is missing: want a name");
      TRY_ASSIGN(both[i], name_of(*text, field));
    }
    return both;
  };
  Outcome<std::array<OllamaName, 2>> both = names();
  if (!both) return Service::refuse(*exchange, both.error());
  changes_.change([both = *std::move(both)](ModelStore& store) { return store.copy(both[0], both[1]); },
                  empty_reply_to(exchange));
}

void StoreRoutes::remove(const std::shared_ptr<Exchange>& exchange) {
  const auto named = [&]() -> Outcome<OllamaName> {
    TRY(const Json body, parse_body(exchange->request().body));
    TRY(const std::string text, ollama_name(body));
    return name_of(text, "model");
  };
  Outcome<OllamaName> name = named();
  if (!name) return Service::refuse(*exchange, name.error());
  changes_.change([name = *std::move(name)](ModelStore& store) { return store.remove(name); },
                  empty_reply_to(exchange));
}

}  // namespace sluice
