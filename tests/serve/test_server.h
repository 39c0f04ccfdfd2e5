// A server of the built-in demo in this process, on a free port of 127.0.0.1, and a client that speaks raw HTTP to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "chat/open_model.h"
#include "serve/access_rules.h"
#include "serve/answer_queue.h"
#include "serve/http/http_server.h"
#include "serve/request_memory.h"
#include "serve/served_model.h"
#include "serve/service.h"

namespace sluice {

// The demo with its towers, opened once in the program: 4 sequences, 1,024 positions.
ChatModel& demo_model();
ServedModel served_demo();
// The demo as a recipe. It costs nothing to load, because it stays open.
ModelRecipe demo_recipe(uint32_t running = 4);

struct TestServerSetup {
  HttpLimits limits = {};
  uint32_t running = 4, waiting = 64;     // answers
  std::vector<ModelRecipe> recipes = {};  // in place of the demo's
  AccessRules access = {};
  std::vector<std::string> hosts = {"127.0.0.1"};  // listens there, on a free port of each
  std::string unix_path = {};                      // listens there in place of a port
  const SiteFiles* page = nullptr;
  ModelStore* store = nullptr;  // that clients may change
  const MediaFetcher* fetcher = nullptr;
  uint64_t request_bytes = 128 << 20;  // of memory for requests
};

class TestServer {
 public:
  explicit TestServer(TestServerSetup setup = {});
  ~TestServer();  // drops what is under way
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  uint16_t port() const { return ports_.empty() ? 0 : ports_[0]; }
  const std::vector<uint16_t>& ports() const { return ports_; }  // of the hosts
  void drain() { wanted_ = 1; }
  bool has_ended() const { return ended_; }
  ModelShelf& shelf() { return shelf_; }
  RequestMemory& request_memory() { return memory_; }
  uint64_t held_bytes() const { return server_->held_bytes(); }
  uint32_t running() const { return queue_.running(0); }
  uint32_t waiting(size_t recipe = 0) const { return queue_.waiting(recipe); }
  // Waits until the engine runs so many answers, or so many requests wait for a model; false after two minutes.
  bool wait_for_running(uint32_t answers) const;
  bool wait_for_waiting(size_t recipe, uint32_t requests) const;

 private:
  Budget budget_;
  RequestMemory memory_;
  ModelShelf shelf_;
  AnswerQueue queue_;
  Service service_;
  std::unique_ptr<HttpServer> server_;
  std::vector<uint16_t> ports_;
  std::atomic<int> wanted_ = 0;  // 1: drain, 2: stop
  std::atomic<bool> ended_ = false;
  std::thread sockets_, engine_;
};

struct TestReply {
  int status = 0;  // 0: the connection ended before a reply
  std::string head, body;
  std::string header(const std::string& name) const;  // "" when absent
  Json json() const;
  std::vector<Json> events() const;  // the data lines of a stream without [DONE]
};

class TestClient {
 public:
  explicit TestClient(uint16_t port) : TestClient("127.0.0.1", port) {}
  TestClient(const std::string& address, uint16_t port);
  explicit TestClient(const std::string& unix_path);
  ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  void send(const std::string& bytes);
  // The next reply, without its body for a request by HEAD.
  TestReply read(bool has_body = true);
  // Until `text` has come; false when the connection ends or after 10 s.
  bool read_until(const std::string& text);
  bool is_closed();  // by the server, within 10 s
  void close();

 private:
  bool receive();

  int socket_ = -1;
  std::string received_;
};

// A request's text with Host, and a length if it has a body.
std::string request_text(const std::string& method, const std::string& path, const std::string& body = "",
                         const std::string& headers = "");
// One request on a connection of its own.
TestReply ask(const TestServer& server, const std::string& path, const std::string& body);
TestReply get(const TestServer& server, const std::string& path, const std::string& headers = "");

}  // namespace sluice
