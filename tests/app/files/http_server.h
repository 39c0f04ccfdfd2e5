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

struct LocalRequest {
  std::string path;
  std::map<std::string, std::string> headers;  // names in lower case
};

struct LocalReply {
  int status = 200;
  std::vector<std::string> headers;
  std::string body;
  int64_t said_bytes = -1;       // Content-Length; -1: the body's
  size_t sent_bytes = SIZE_MAX;  // of the body, before the connection is closed
  bool stalls = false;           // then keeps the connection open in silence, until the client leaves
};

class LocalServer {
 public:
  using Answer = std::function<LocalReply(const LocalRequest&)>;
  explicit LocalServer(Answer answer);
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  std::string host() const;  // "127.0.0.1:40001"
  std::string url(const std::string& path) const { return "http://" + host() + path; }
  std::vector<LocalRequest> requests() const;  // so far

 private:
  void serve();
  void talk(int connection);

  Answer answer_;
  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<LocalRequest> requests_;
  std::thread thread_;
};

// A file as well-behaved servers give it: with an ETag, and ranges when they are asked for and If-Range fits.
LocalReply file_reply(const LocalRequest& request, const std::string& content, const std::string& etag);

}  // namespace sluice
