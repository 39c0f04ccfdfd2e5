#include "serve/http/http_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <utility>

#include "serve/http/http_connection.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using local = asio::local::stream_protocol;
using ErrorCode = boost::system::error_code;

constexpr std::string_view kFull =
    "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

class Acceptor {
 public:
  virtual ~Acceptor() = default;
  virtual void start() = 0;
  virtual void close() = 0;
  virtual std::string address() const = 0;
};

template <class Protocol>
class AcceptorOf final : public Acceptor, public std::enable_shared_from_this<AcceptorOf<Protocol>> {
 public:
  AcceptorOf(typename Protocol::acceptor acceptor, std::string unix_path, HttpShared& shared)
      : acceptor_(std::move(acceptor)), pause_(shared.io), unix_path_(std::move(unix_path)), shared_(&shared) {}

  void start() override {
    acceptor_.async_accept(
        [self = this->shared_from_this()](const ErrorCode& failed, typename Protocol::socket socket) {
          if (!self->acceptor_.is_open()) return;
          if (failed) return self->start_later();
          self->take(std::move(socket));
          self->start();
        });
  }
  void close() override {
    ErrorCode ignored;
    if (acceptor_.is_open() && !unix_path_.empty()) unlink(unix_path_.c_str());
    acceptor_.close(ignored);
    pause_.cancel();
  }
  std::string address() const override;

 private:
  // The process has no file descriptor left.
  void start_later() {
    pause_.expires_after(std::chrono::milliseconds(100));
    pause_.async_wait([self = this->shared_from_this()](const ErrorCode& failed) {
      if (!failed && self->acceptor_.is_open()) self->start();
    });
  }
  void take(typename Protocol::socket socket) {
    ErrorCode ignored;
    socket.non_blocking(true, ignored);
    if (!shared_->takes_more()) {
      socket.write_some(asio::buffer(kFull), ignored);
      return;
    }
    if constexpr (std::is_same_v<Protocol, tcp>) socket.set_option(tcp::no_delay(true), ignored);
    std::make_shared<HttpConnection>(HttpConnection::Socket(std::move(socket)), !unix_path_.empty(), *shared_)->start();
  }

  typename Protocol::acceptor acceptor_;
  asio::steady_timer pause_;
  std::string unix_path_;
  HttpShared* shared_;
};

template <>
std::string AcceptorOf<tcp>::address() const {
  ErrorCode ignored;
  const tcp::endpoint endpoint = acceptor_.local_endpoint(ignored);
  const std::string host = endpoint.address().to_string();
  return cat("http://", endpoint.address().is_v6() ? cat('[', host, ']') : host, ':', endpoint.port());
}

template <>
std::string AcceptorOf<local>::address() const {
  return cat("unix:", unix_path_);
}

template <class Protocol>
ErrorCode open_acceptor(typename Protocol::acceptor& acceptor, const typename Protocol::endpoint& endpoint) {
  ErrorCode failed;
  acceptor.open(endpoint.protocol(), failed);
  if constexpr (std::is_same_v<Protocol, tcp>) {
    if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
    if (!failed && endpoint.protocol() == tcp::v6()) acceptor.set_option(asio::ip::v6_only(true), failed);
  }
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  return failed;
}

Result<std::shared_ptr<Acceptor>> listen_at(const std::string& host, uint16_t port, HttpShared& shared) {
  ErrorCode failed;
  tcp::resolver resolver(shared.io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, failed);
  if (failed || found.empty())
    return error(ErrorKind::invalid, "address ", printable(host), ": ", failed.message(), ": want one of this machine");
  tcp::acceptor acceptor(shared.io);
  failed = open_acceptor<tcp>(acceptor, found.begin()->endpoint());
  if (failed) return error(ErrorKind::io, "address ", printable(host), " port ", port, ": ", failed.message());
  return std::shared_ptr<Acceptor>(std::make_shared<AcceptorOf<tcp>>(std::move(acceptor), "", shared));
}

// A socket that a server has left behind answers nobody and is replaced. Other files are not.
Result<std::shared_ptr<Acceptor>> listen_at(const std::string& path, HttpShared& shared) {
  ErrorCode failed;
  if (path.size() >= 100) return error(ErrorKind::invalid, "socket ", printable(path), ": want less than 100 bytes");
  struct stat info = {};
  if (lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) {
    local::socket other(shared.io);
    failed = other.connect(local::endpoint(path), failed);
    if (!failed) return error(ErrorKind::io, "socket ", printable(path), ": another server answers there");
    unlink(path.c_str());
  }
  local::acceptor acceptor(shared.io);
  const mode_t before = umask(0077);  // other users may not connect
  failed = open_acceptor<local>(acceptor, local::endpoint(path));
  umask(before);
  if (failed) return error(ErrorKind::io, "socket ", printable(path), ": ", failed.message());
  return std::shared_ptr<Acceptor>(std::make_shared<AcceptorOf<local>>(std::move(acceptor), path, shared));
}

class AsioServer final : public HttpServer {
 public:
  AsioServer(const HttpLimits& limits, HttpHandler& handler)
      : shared_{.io = io_, .limits = limits, .handler = handler}, io_(1) {}
  ~AsioServer() override { close_acceptors(); }

  Status listen(const std::vector<HttpPlace>& places) {
    for (const HttpPlace& place : places) {
      TRY(std::shared_ptr<Acceptor> acceptor,
          place.unix_path.empty() ? listen_at(place.host, place.port, shared_) : listen_at(place.unix_path, shared_));
      acceptors_.push_back(std::move(acceptor));
    }
    return {};
  }

  std::vector<std::string> addresses() const override {
    std::vector<std::string> list;
    list.reserve(acceptors_.size());
    for (const auto& acceptor : acceptors_) list.push_back(acceptor->address());
    return list;
  }

  uint64_t held_bytes() const override { return shared_.held; }

  void run() override {
    for (const auto& acceptor : acceptors_) acceptor->start();
    while (!stopped_ && !(shared_.draining && shared_.open.empty())) io_.run_one();
  }

  void every(double seconds, std::function<void()> task) override {
    auto timer = std::make_shared<asio::steady_timer>(io_);
    const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
    repeat(timer, pause, std::make_shared<std::function<void()>>(std::move(task)));
  }

  void drain() override {
    shared_.draining = true;
    close_acceptors();
    for (HttpConnection* connection : std::vector(shared_.open.begin(), shared_.open.end()))
      if (connection->is_waiting()) connection->close();
  }

  void stop() override {
    drain();
    stopped_ = true;
    for (HttpConnection* connection : std::vector(shared_.open.begin(), shared_.open.end())) connection->close();
  }

 private:
  void close_acceptors() {
    for (const auto& acceptor : acceptors_) acceptor->close();
  }
  static void repeat(const std::shared_ptr<asio::steady_timer>& timer, std::chrono::milliseconds pause,
                     const std::shared_ptr<std::function<void()>>& task) {
    timer->expires_after(pause);
    timer->async_wait([timer, pause, task](const ErrorCode& failed) {
      if (failed) return;
      (*task)();
      repeat(timer, pause, task);
    });
  }

  HttpShared shared_;  // outlives the connections, which end with io_
  asio::io_context io_;
  std::vector<std::shared_ptr<Acceptor>> acceptors_;
  bool stopped_ = false;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::vector<HttpPlace>& places, const HttpLimits& limits,
                                                       HttpHandler& handler) {
  auto server = std::make_unique<AsioServer>(limits, handler);
  TRY_STATUS(server->listen(places));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace sluice
