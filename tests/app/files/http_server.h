// A web server on the loopback for one test: answers each request as the test says, also with lies and cut short.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice {

struct ServerRequest {
  std::string path;
  std::map<std::string, std::string> headers;  // names in lower case
};

struct ServerReply {
  int status = 200;
  std::vector<std::string> headers;
  std::string body;
  int64_t said_bytes = -1;       // Content-Length; -1: the body's
  size_t sent_bytes = SIZE_MAX;  // of the body, before the connection is closed
  bool stalls = false;           // then keeps the connection open in silence, until the client leaves
};

class HttpServer {
 public:
  using Answer = std::function<ServerReply(const ServerRequest&)>;
  explicit HttpServer(Answer answer);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string host() const;  // "127.0.0.1:40001"
  std::string url(const std::string& path) const { return "http://" + host() + path; }
  std::vector<ServerRequest> requests() const;  // so far

 private:
  void serve();
  void talk(int connection);

  Answer answer_;
  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<ServerRequest> requests_;
  std::thread thread_;
};

// A file as well-behaved servers give it: with an ETag, and ranges when they are asked for and If-Range fits.
ServerReply file_reply(const ServerRequest& request, const std::string& content, const std::string& etag);

}  // namespace sluice
