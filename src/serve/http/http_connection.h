// One connection of HttpServer: requests one after another, each given to the handler as an Exchange. Internal to
// serve/http, because it includes Boost.
//
//   waiting -> reading (head, then body) -> answering -> waiting ...
//                                                     -> leaving -> closed
//
// While a request is answered a read is pending, so a client that leaves is noticed at once. What that read brings is
// the beginning of the next request.
#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "serve/http/http.h"
#include "serve/http/http_server.h"
#include "serve/http/http_text.h"

namespace sluice {

class HttpConnection;

// What the connections of a server share.
struct HttpShared {
  boost::asio::io_context& io;
  HttpLimits limits;
  HttpHandler& handler;
  bool draining = false;
  std::set<HttpConnection*> open = {};
  std::atomic<uint64_t> held = 0;  // at most limits.held_bytes; threads that drop exchanges give back

  bool takes_more() const { return open.size() < limits.connections && held + kConnectionBytes <= limits.held_bytes; }
};

// A part of HttpShared::held, given back on destruction.
class HeldBytes {
 public:
  explicit HeldBytes(HttpShared& shared) : shared_(&shared) {}
  ~HeldBytes() { shared_->held -= bytes_; }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

  // False: there is no room, and nothing has changed. Fewer bytes always have room.
  bool resize(uint64_t bytes);
  void take(HeldBytes& other) { bytes_ += std::exchange(other.bytes_, 0); }

 private:
  HttpShared* shared_;
  uint64_t bytes_ = 0;
};

class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // `shared` takes one more.
  HttpConnection(Socket socket, bool is_local, HttpShared& shared);
  // On any thread, because the handler's threads hold exchanges: only closed connections end so.
  ~HttpConnection() = default;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  void start() { next_request(); }
  bool is_waiting() const { return phase_ == Phase::waiting; }
  void close();

 private:
  friend class HttpExchange;
  enum class Phase : uint8_t { waiting, reading, answering, leaving, closed };
  using ErrorCode = boost::system::error_code;
  using Clock = std::chrono::steady_clock;

  void next_request();
  void read_head();
  void take_head();
  void read_body();
  void read_more();
  void take_body();
  bool make_room(uint64_t more);
  bool make_room_for_body();
  void read_failed(const ErrorCode& failed);
  void refuse(ServerReply reply);
  void refuse_for_memory();
  void arm_at(Clock::time_point end, void (HttpConnection::*then)());

  void begin_exchange();
  void watch_client();
  void client_left();
  void begin_reply(const ServerReply& reply, bool is_stream);
  void append(std::string_view bytes);
  void send();
  void end_reply();
  void end_exchange();
  void leave();
  void drop_input();
  void record(bool complete);
  void arm(double seconds, void (HttpConnection::*then)());
  void tick();

  Socket socket_;
  bool is_local_;
  HttpShared* shared_;
  Phase phase_ = Phase::waiting;
  boost::asio::steady_timer timer_;
  uint64_t armed_ = 0;  // counts arm(): a timer that was replaced may still call

  HeldBytes buffers_;  // all but requests

  // The request that is read.
  HeldBytes body_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  ServerRequest request_;
  uint64_t head_bytes_ = 0;  // of its headers
  Clock::time_point begun_, begun_body_;

  // The one that is answered.
  std::shared_ptr<class HttpExchange> exchange_;
  HttpRecord record_;
  bool keeps_alive_ = false;     // the connection, after this reply
  bool was_read_ = true;         // the whole request
  bool has_body_ = true;         // false: the answer to a HEAD request
  bool watching_ = false;        // a read is pending
  bool reply_complete_ = false;  // all of it is in unsent_ or was sent
  bool begun_reply_ = false;
  BodyForm form_ = BodyForm::sized;
  std::string keep_alive_;  // of the stream that runs; "": none
  std::string unsent_, sending_;
  std::string_view lasting_;     // follows unsent_: ServerReply::lasting_body
  std::string_view being_sent_;  // what is left of sending_ or of the lasting bytes
  Clock::time_point last_byte_;  // that was sent
};

// The Exchange of the connection's present request.
class HttpExchange final : public Exchange {
 public:
  // `body`: what the request holds.
  HttpExchange(std::shared_ptr<HttpConnection> connection, ServerRequest request, HeldBytes& body, HttpShared& shared)
      : connection_(std::move(connection)), request_(std::move(request)), held_(shared) {
    held_.take(body);
  }

  const ServerRequest& request() const override { return request_; }
  void reply(ServerReply reply) override;
  void begin_stream(ServerReply head, std::string keep_alive) override;
  void write(std::string_view bytes) override;
  void end_stream() override;
  void note(std::string name, int64_t value) override;
  bool is_gone() const override { return is_over_; }
  void on_gone(std::function<void()> tell) override { tell_gone_ = std::move(tell); }
  void post(std::function<void()> task) override;

 private:
  friend class HttpConnection;

  std::shared_ptr<HttpConnection> connection_;
  ServerRequest request_;
  HeldBytes held_;
  std::function<void()> tell_gone_;
  bool is_over_ = false;  // the reply is complete, or the client has left
};

}  // namespace sluice
