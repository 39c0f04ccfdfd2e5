// Bytes that a client sends to the HTTP server, over a UNIX socket in this process. Every request that reaches the
// handler keeps the limits, and whatever the server says begins as a reply of HTTP.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "base/text.h"
#include "serve/http/http_server.h"

namespace sluice {
namespace {

// Small, so that inputs reach them.
constexpr HttpLimits kLimits{.header_bytes = 512, .headers = 8, .body_bytes = 256, .unsent_bytes = 4096};

// Answers with the body: at once, or for "/stream" in two writes.
class Echo final : public HttpHandler {
 public:
  std::optional<ServerReply> refuse_head(const ServerRequest& head) override {
    check(head);
    return head.path == "/refused" ? std::optional(failure(head, 403, "refused")) : std::nullopt;
  }
  void handle(std::shared_ptr<Exchange> exchange) override {
    const ServerRequest& request = exchange->request();
    check(request);
    CHECK(request.body.size() <= kLimits.body_bytes);
    if (request.path != "/stream")
      return exchange->reply({.headers = {{"content-type", "text/plain"}}, .body = request.body});
    exchange->begin_stream({.headers = {{"content-type", "text/plain"}}}, ": ping\n");
    exchange->write(request.body);
    exchange->write(request.query);
    exchange->end_stream();
  }
  ServerReply failure(const ServerRequest& /*head*/, int status, const std::string& message) override {
    CHECK(status >= 400 && status < 600 && !message.empty());
    return {.status = status, .headers = {}, .body = message};
  }
  void finished(const HttpRecord& record) override { CHECK(record.complete ? record.status != 0 : true); }

 private:
  static void check(const ServerRequest& request) {
    CHECK(!request.method.empty() && request.path.starts_with('/') && request.is_local);
    CHECK(request.headers.size() <= kLimits.headers);
    for (const HttpHeader& header : request.headers)
      CHECK(std::ranges::none_of(header.name, [](char c) { return c >= 'A' && c <= 'Z'; }) &&
            header.value.find_first_of("\r\n") == std::string::npos);
  }
};

// Serves for as long as the process lives.
const std::string& server_path() {
  static const std::string* const path = [] {
    auto* named = new std::string(cat("/tmp/sluice_http_fuzz.", getpid()));
    auto* handler = new Echo;
    Result<std::unique_ptr<HttpServer>> server =
        HttpServer::listen({{.host = {}, .unix_path = *named}}, kLimits, *handler);
    CHECK(server);
    std::thread([serving = server->release()] { serving->run(); }).detach();
    std::atexit([] { unlink(cat("/tmp/sluice_http_fuzz.", getpid()).c_str()); });
    return named;
  }();
  return *path;
}

std::string exchange(std::string_view bytes) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, server_path().c_str(), sizeof address.sun_path - 1);
  const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(client >= 0 && connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  while (!bytes.empty()) {
    const ssize_t sent = send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;  // the server has closed
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  shutdown(client, SHUT_WR);
  std::string reply;
  char some[4096];
  for (ssize_t got = 0; (got = recv(client, some, sizeof some, 0)) > 0;) reply.append(some, static_cast<size_t>(got));
  close(client);
  return reply;
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;  // NOLINT(google-build-using-namespace)
  const std::string reply = exchange({reinterpret_cast<const char*>(data), size});
  CHECK(reply.empty() || reply.starts_with("HTTP/1.1 "));
  return 0;
}
