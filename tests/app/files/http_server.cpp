#include "tests/app/files/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>

#include "base/check.h"
#include "base/text.h"

namespace sluice {
namespace {

LocalRequest parse_request(const std::string& text) {
  LocalRequest request;
  const std::vector<std::string> lines = split(text, '\n');
  request.path = split(lines[0], ' ').at(1);
  for (const std::string& line : lines) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    request.headers[name] = line.substr(colon + 2, line.size() - colon - 3);
  }
  return request;
}

std::string receive_request(int connection) {
  std::string text;
  char piece[4096];
  while (text.find("\r\n\r\n") == std::string::npos) {
    const ssize_t got = ::recv(connection, piece, sizeof piece, 0);
    if (got <= 0) return "";
    text.append(piece, static_cast<size_t>(got));
  }
  return text;
}

void send_all(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (put <= 0) return;  // the client has gone
    text.remove_prefix(static_cast<size_t>(put));
  }
}

constexpr auto kLook = std::chrono::milliseconds(10);  // between looks at a client that is kept waiting

bool has_left(int connection) {
  char byte = 0;
  return ::recv(connection, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace

LocalServer::LocalServer(Answer answer) : answer_(std::move(answer)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(::listen(listener_, 16) == 0);
  CHECK(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

LocalServer::~LocalServer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

std::string LocalServer::host() const { return cat("127.0.0.1:", port_); }

std::vector<LocalRequest> LocalServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void LocalServer::serve() {
  while (true) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    talk(connection);
    ::close(connection);
  }
}

void LocalServer::talk(int connection) {
  const std::string text = receive_request(connection);
  if (text.empty()) return;
  const LocalRequest request = parse_request(text);
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  const LocalReply reply = answer_(request);
  const int64_t said = reply.said_bytes < 0 ? static_cast<int64_t>(reply.body.size()) : reply.said_bytes;
  std::string head = cat("HTTP/1.1 ", reply.status, " x\r\nConnection: close\r\nContent-Length: ", said, "\r\n");
  for (const std::string& header : reply.headers) head += header + "\r\n";
  send_all(connection, head + "\r\n");
  send_all(connection, std::string_view(reply.body).substr(0, reply.sent_bytes));
  std::unique_lock lock(mutex_);
  while (reply.stalls && !has_left(connection) && !wake_.wait_for(lock, kLook, [&] { return stopping_; })) continue;
}

LocalReply file_reply(const LocalRequest& request, const std::string& content, const std::string& etag) {
  LocalReply reply;
  reply.headers = {"ETag: " + etag};
  reply.body = content;
  const auto range = request.headers.find("range");
  const auto condition = request.headers.find("if-range");
  if (range == request.headers.end() || (condition != request.headers.end() && condition->second != etag)) return reply;
  // "bytes=FROM-" or "bytes=FROM-LAST"
  const std::vector<std::string> ends = split(std::string_view(range->second).substr(6), '-');
  const auto from = static_cast<size_t>(*parse_integer(ends.at(0)));
  if (from >= content.size()) return {416, {cat("Content-Range: bytes */", content.size())}, ""};
  const auto asked = static_cast<size_t>(parse_integer(ends.at(1)).value_or(INT64_MAX));
  const size_t last = std::min(asked, content.size() - 1);
  reply.status = 206;
  reply.headers.push_back(cat("Content-Range: bytes ", from, "-", last, "/", content.size()));
  reply.body = content.substr(from, last - from + 1);
  return reply;
}

}  // namespace sluice
