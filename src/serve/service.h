// Service: the routes. It reads requests, gives them to the AnswerQueue and writes replies in the shape of their API.
//
// Bodies are read, rendered and encoded by a small pool of threads, so neither the sockets nor the engines wait for
// them. A request for a model that is not loaded is read after the queue has loaded it. Everything else happens on the
// HTTP server's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/task_queue.h"
#include "serve/access_rules.h"
#include "serve/answer_queue.h"
#include "serve/answer_request.h"
#include "serve/early_stream.h"
#include "serve/http/http.h"
#include "serve/media_fetcher.h"
#include "serve/metrics.h"
#include "serve/model_shelf.h"
#include "serve/request_memory.h"
#include "serve/served_model.h"
#include "serve/site_files.h"
#include "serve/store/store_routes.h"

namespace sluice {

enum class ApiFamily : uint8_t { openai, anthropic, ollama };

// A refusal in the shape of the API.
ServerReply refusal_reply(ApiFamily family, const Refusal& refusal);
// Names the fields of a request that had no effect.
HttpHeader ignored_header(const std::vector<std::string>& names);

class Service final : public HttpHandler {
 public:
  struct Settings {
    AccessRules access;
    std::string version;                         // of the program
    std::function<void(const HttpRecord&)> log;  // may be empty
    const SiteFiles* page = nullptr;             // a web page beside the APIs; outlives the service. Null: none
    uint32_t threads = 2;                        // that read requests
    RequestMemory* memory = nullptr;             // for requests; null: it is not counted
    ModelStore* store = nullptr;                 // that clients may change; null: they may not
    const MediaFetcher* fetcher = nullptr;       // of pictures that requests name by URL; null: those are refused
  };
  // Shelf, queue, the request memory and the store outlive the service.
  Service(ModelShelf& shelf, AnswerQueue& queue, Settings settings);

  std::optional<ServerReply> refuse_head(const ServerRequest& head) override;
  void handle(std::shared_ptr<Exchange> exchange) override;
  ServerReply failure(const ServerRequest& head, int status, const std::string& message) override;
  void finished(const HttpRecord& record) override;
  void drain();  // new requests are refused with 503, and pulls end
  // Waits for requests that are being read and for changes of the store: after the HTTP server's run(), on the same
  // thread.
  void finish();

  // Replies with the headers that browsers want, and in the shape of the path's API.
  static void reply(Exchange& exchange, ServerReply reply);
  static void refuse(Exchange& exchange, const Refusal& refusal);

 private:
  friend class AnswerExchange;
  using Reader = Outcome<AnswerRequest> (*)(const Json& body, const ServedModel& model);
  using WriterMaker = std::unique_ptr<AnswerWriter> (*)();
  struct Route {
    const char *method, *path;
    void (Service::*handle)(const std::shared_ptr<Exchange>&, const Route&);
    Reader read = nullptr;  // of a route that answers
    bool is_public = false;
    WriterMaker writer = nullptr;  // of a request that is not read yet; null: the route's replies never are streams
  };
  struct Asked;     // a request whose body is parsed
  struct Prepared;  // and read for its model
  using Then = void (Service::*)(const std::shared_ptr<Exchange>&, Prepared);

  // Null: the request is none for the page. Browsers alone get it at "/", where others ask whether a server runs.
  const SiteFile* find_page(const ServerRequest& request) const;
  static const Route* find_route(std::string_view method, std::string_view path, bool* known_path);
  static void reply(Exchange& exchange, const Json& body);
  static void refuse(Exchange& exchange, EarlyStream* begun, const Refusal& refusal);  // null: has not begun

  Claim claim_of(const Exchange& exchange, int32_t priority) const;
  Outcome<ModelPlace> place_named(const Json& body) const;
  Outcome<Asked> asked(const ServerRequest& request) const;
  Outcome<Prepared> prepared(Asked& asked, std::shared_ptr<ModelUse> use, Reader read) const;
  static std::shared_ptr<std::atomic<bool>> watch_client(Exchange& exchange);
  void begin_task(std::function<void()> task);
  void read_later(const std::shared_ptr<Exchange>& exchange, const Route& route, Then then);
  void load_then_read(const std::shared_ptr<Exchange>& exchange, const std::shared_ptr<Asked>& asked,
                      const Route& route, Then then);
  std::shared_ptr<EarlyStream> early_stream(const std::shared_ptr<Exchange>& exchange, const Asked& asked,
                                            const Route& route) const;
  void begin_early(const Exchange& exchange, EarlyStream& stream) const;
  void go_on(const std::shared_ptr<Exchange>& exchange, const std::shared_ptr<EarlyStream>& begun,
             Outcome<Prepared> found, Then then);
  void answer(const std::shared_ptr<Exchange>& exchange, const Route& route);
  void start(const std::shared_ptr<Exchange>& exchange, Prepared read);
  static void answer_without_text(Exchange& exchange, Prepared read, ServerReply head);
  void count_tokens(const std::shared_ptr<Exchange>& exchange, const Route& route);
  void show_count(const std::shared_ptr<Exchange>& exchange, Prepared read);
  void refuse_embeddings(const std::shared_ptr<Exchange>& exchange, const Route& route);
  void show_greeting(const std::shared_ptr<Exchange>& exchange, const Route& route);
  void show_version(const std::shared_ptr<Exchange>& exchange, const Route& route);
  void show_ollama(const std::shared_ptr<Exchange>& exchange, const Route& route);
  void show_ollama_model(const std::shared_ptr<Exchange>& exchange, const Route& route);
  void change_store(const std::shared_ptr<Exchange>& exchange, const Route& route);
  void refuse_publishing(const std::shared_ptr<Exchange>& exchange, const Route& route);
  void show_health(const std::shared_ptr<Exchange>& exchange, const Route& route);
  void show_metrics(const std::shared_ptr<Exchange>& exchange, const Route& route);
  void show_models(const std::shared_ptr<Exchange>& exchange, const Route& route);
  void show_model(const std::shared_ptr<Exchange>& exchange, const Route& route);

  ModelShelf* shelf_;
  AnswerQueue* queue_;
  Settings settings_;
  Metrics metrics_;
  std::optional<StoreRoutes> store_;  // none: clients may not change the store
  bool draining_ = false;
  uint64_t last_task_ = 0;
  TaskQueue readers_;  // its tasks use all of the above: they end first
};

}  // namespace sluice
