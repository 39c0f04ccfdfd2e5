// HTTP as the APIs see it: a request, a reply, and the exchange of one for the other. No socket and no library shows
// here, so tests and fuzz targets can take the place of a client.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

struct HttpHeader {
  std::string name, value;  // names in lower case
};

struct ServerRequest {
  std::string method;       // "GET"
  std::string path, query;  // of the target, decoded; without the question mark
  std::vector<HttpHeader> headers;
  std::string body;
  bool is_local = false;  // came by a UNIX socket

  const std::string* header(std::string_view name) const {  // null when absent; the first of several
    for (const HttpHeader& one : headers)
      if (one.name == name) return &one.value;
    return nullptr;
  }
};

inline constexpr const char* kJsonType = "application/json; charset=utf-8";

struct ServerReply {
  int status = 200;
  std::vector<HttpHeader> headers;  // without those of the transport, such as content-length
  std::string body = {};
  std::string_view lasting_body = {};  // behind `body`, not copied: bytes that outlive the server
};

// One line of the access log.
struct HttpRecord {
  std::string method, path;
  int status = 0;                        // 0: the client left before there was one
  bool complete = false;                 // the whole reply was sent
  uint64_t bytes_in = 0, bytes_out = 0;  // of bodies
  double seconds = 0;
  std::vector<std::pair<std::string, int64_t>> notes;  // of the handler
};

// One request and its reply: reply(), or begin_stream(), write() any number of times and end_stream(). All but post()
// belong to the server's thread. After the client has left, all of them do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const ServerRequest& request() const = 0;
  virtual void reply(ServerReply reply) = 0;
  // `keep_alive` is sent whenever the stream has been silent for some seconds.
  virtual void begin_stream(ServerReply head, std::string keep_alive) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end_stream() = 0;
  virtual void note(std::string name, int64_t value) = 0;  // for the access log
  virtual bool is_gone() const = 0;
  virtual void on_gone(std::function<void()> tell) = 0;  // called at most once, not when the reply is complete
  // Runs `task` on the server's thread. Any thread may call it.
  virtual void post(std::function<void()> task) = 0;
};

// Called on the server's thread.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Looks at a request without its body: a reply refuses it.
  virtual std::optional<ServerReply> refuse_head(const ServerRequest& head) = 0;
  virtual void handle(std::shared_ptr<Exchange> exchange) = 0;
  // A reply about a request that the server itself cannot take. `head` may be empty.
  virtual ServerReply failure(const ServerRequest& head, int status, const std::string& message) = 0;
  virtual void finished(const HttpRecord& record) = 0;
};

}  // namespace sluice
