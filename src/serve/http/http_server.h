// HttpServer: HTTP/1.1 on sockets, by Boost.Beast's parser over Asio. Only http_server.cpp and http_connection.cpp
// include Boost, because its templates are slow to compile.
//
// One thread runs everything. A reply goes out as the handler writes it. A client that leaves is noticed at once,
// because a read is always pending; a client that ends its sending side counts as gone. A client that does not read its
// reply is dropped after HttpLimits::stalled_seconds. There is no TLS and no upgrade: those are a proxy's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/http/http.h"

namespace sluice {

struct HttpLimits {
  uint32_t header_bytes = 32 << 10;  // request line and headers
  uint32_t headers = 100;
  uint64_t body_bytes = 32 << 20;
  uint64_t unsent_bytes = 8 << 20;  // of a reply whose client reads slowly
  // Of all connections together: requests, what of replies is not sent, and buffers. Where that is full, new
  // connections and requests are refused with status 503, and a client that reads its reply slowly is dropped.
  uint64_t held_bytes = 128 << 20;
  uint32_t connections = 4096;
  double header_seconds = 10;  // from the first byte of a request to the end of its headers
  double body_seconds = 30;    // and one more for each body_bytes_per_second that came
  uint64_t body_bytes_per_second = 16 << 10;
  double idle_seconds = 60;       // of a connection between requests
  double stalled_seconds = 60;    // without a byte of the reply being taken
  double keep_alive_seconds = 5;  // of a silent stream
};

// A connection counts as this much at least: small requests and replies, which find room so long as it is open.
inline constexpr uint64_t kConnectionBytes = 16 << 10;

struct HttpPlace {
  std::string host;       // an address or a name
  uint16_t port = 0;      // 0: any free one
  std::string unix_path;  // a UNIX socket in place of the two
};

class HttpServer {
 public:
  // Binds to all places. The handler outlives the server.
  static Result<std::unique_ptr<HttpServer>> listen(const std::vector<HttpPlace>& places, const HttpLimits& limits,
                                                    HttpHandler& handler);
  virtual ~HttpServer() = default;
  virtual std::vector<std::string> addresses() const = 0;  // "http://127.0.0.1:8080", "unix:/run/sluice.sock"
  virtual uint64_t held_bytes() const = 0;                 // by connections, as HttpLimits::held_bytes. Of any thread
  // Serves until drain() or stop() has had its effect. The caller's thread is the server's.
  virtual void run() = 0;
  // Calls `task` on the server's thread every `seconds`, while run() runs.
  virtual void every(double seconds, std::function<void()> task) = 0;
  // Takes no more connections and closes idle ones; run() returns when the last reply is complete. Of the server's
  // thread, as is stop(), which drops what is under way.
  virtual void drain() = 0;
  virtual void stop() = 0;
};

}  // namespace sluice
