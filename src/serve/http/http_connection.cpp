#include "serve/http/http_connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

#include "base/text.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr size_t kWatchBytes = 4096;         // of a read that watches for a client's leaving
constexpr size_t kMostReadAhead = 64 << 10;  // of requests that came before a reply was complete
constexpr double kLeaveSeconds = 2;          // for a refused client to stop sending
constexpr const char* kMemoryFull = "connections hold all the memory that they may: want the same request later";

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

bool HeldBytes::resize(uint64_t bytes) {
  if (bytes == bytes_) return true;
  if (bytes > bytes_) {
    const uint64_t more = bytes - bytes_;
    if (shared_->held.fetch_add(more) + more > shared_->limits.held_bytes) {
      shared_->held -= more;
      return false;
    }
  } else {
    shared_->held -= bytes_ - bytes;
  }
  bytes_ = bytes;
  return true;
}

HttpConnection::HttpConnection(Socket socket, bool is_local, HttpShared& shared)
    : socket_(std::move(socket)),
      is_local_(is_local),
      shared_(&shared),
      timer_(shared.io),
      buffers_(shared),
      body_(shared),
      buffer_(shared.limits.header_bytes + kMostReadAhead) {
  shared_->open.insert(this);
  make_room(0);
}

void HttpConnection::close() {
  if (phase_ == Phase::closed) return;
  if (phase_ == Phase::answering) client_left();
  phase_ = Phase::closed;
  shared_->open.erase(this);
  ++armed_;
  timer_.cancel();
  ErrorCode ignored;
  ignored = socket_.shutdown(Socket::shutdown_both, ignored);
  ignored = socket_.close(ignored);
}

void HttpConnection::arm(double seconds, void (HttpConnection::*then)()) {
  arm_at(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)), then);
}

void HttpConnection::arm_at(Clock::time_point end, void (HttpConnection::*then)()) {
  timer_.expires_at(end);
  timer_.async_wait([self = shared_from_this(), then, number = ++armed_](const ErrorCode& failed) {
    if (!failed && number == self->armed_) (self.get()->*then)();
  });
}

// ---- a request

void HttpConnection::next_request() {
  if (shared_->draining && buffer_.size() == 0) return close();
  phase_ = Phase::waiting;
  if (buffer_.size() > 0) return read_head();
  arm(shared_->limits.idle_seconds, &HttpConnection::close);
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const ErrorCode& failed) {
    if (self->phase_ != Phase::waiting) return;
    if (failed) return self->close();
    self->read_head();
  });
}

void HttpConnection::read_head() {
  phase_ = Phase::reading;
  begun_ = Clock::now();
  parser_.emplace();
  parser_->header_limit(shared_->limits.header_bytes);
  parser_->body_limit(shared_->limits.body_bytes);
  request_ = {};
  if (!buffers_.resize(std::max(kConnectionBytes, uint64_t{2} * shared_->limits.header_bytes)))
    return refuse_for_memory();
  arm(shared_->limits.header_seconds, &HttpConnection::close);
  http::async_read_header(socket_, buffer_, *parser_, [self = shared_from_this()](const ErrorCode& failed, size_t) {
    if (self->phase_ != Phase::reading) return;
    if (failed) return self->read_failed(failed);
    self->take_head();
  });
}

void HttpConnection::take_head() {
  const auto& head = parser_->get();
  request_.method = view(head.method_string());
  request_.is_local = is_local_;
  keeps_alive_ = parser_->keep_alive();
  for (const auto& field : head)
    request_.headers.push_back({lower(view(field.name_string())), std::string(view(field.value()))});
  if (request_.headers.size() > shared_->limits.headers)
    return refuse(shared_->handler.failure(
        request_, 431,
        cat("the request has ", request_.headers.size(), " headers: want at most ", shared_->limits.headers)));
  head_bytes_ = 0;
  for (const HttpHeader& field : request_.headers)
    head_bytes_ += sizeof(HttpHeader) + field.name.size() + field.value.size();
  if (!split_target(view(head.target()), request_))
    return refuse(shared_->handler.failure(request_, 400, "the request's target is no path: want /..."));
  if (std::optional<ServerReply> refused = shared_->handler.refuse_head(request_)) return refuse(*std::move(refused));
  read_body();
}

// Clients with large bodies wait for leave to send them.
void HttpConnection::read_body() {
  if (!make_room_for_body()) return refuse_for_memory();
  const std::string* expects = request_.header("expect");
  if (expects != nullptr && lower(*expects) == "100-continue" && !parser_->is_done()) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    ErrorCode failed;
    asio::write(socket_, asio::buffer(kContinue), failed);
    if (failed) return close();
  }
  parser_->eager(true);
  begun_body_ = Clock::now();
  read_more();
}

// Of a body whose length is announced all is counted from the beginning, so that a request that has begun finds room.
bool HttpConnection::make_room_for_body() {
  const uint64_t bytes =
      parser_->content_length() ? *parser_->content_length() : uint64_t{parser_->get().body().capacity()};
  return body_.resize(head_bytes_ + bytes) && make_room(0);
}

void HttpConnection::read_more() {
  const HttpLimits& limits = shared_->limits;
  const std::string& body = parser_->get().body();
  if (!make_room_for_body()) return refuse_for_memory();
  if (parser_->is_done()) return take_body();
  const double seconds =
      limits.body_seconds + static_cast<double>(body.size()) / static_cast<double>(limits.body_bytes_per_second);
  arm_at(begun_body_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)),
         &HttpConnection::close);
  http::async_read_some(socket_, buffer_, *parser_, [self = shared_from_this()](const ErrorCode& failed, size_t) {
    if (self->phase_ != Phase::reading) return;
    if (failed) return self->read_failed(failed);
    self->read_more();
  });
}

void HttpConnection::take_body() {
  request_.body = std::move(parser_->get().body());
  begin_exchange();
  shared_->handler.handle(exchange_);
}

void HttpConnection::read_failed(const ErrorCode& failed) {
  if (failed == http::error::end_of_stream ||
      failed.category() != http::make_error_code(http::error::bad_method).category())
    return close();
  const bool large_head = failed == http::error::header_limit || failed == http::error::buffer_overflow;
  if (failed == http::error::body_limit)
    return refuse(shared_->handler.failure(
        request_, 413, cat("the request's body is too large: want at most ", shared_->limits.body_bytes, " bytes")));
  if (large_head)
    return refuse(shared_->handler.failure(
        request_, 431,
        cat("the request's headers are too large: want at most ", shared_->limits.header_bytes, " bytes")));
  refuse(shared_->handler.failure(request_, 400, cat("the request is no HTTP/1.1: ", failed.message())));
}

// The rest of such a request is not looked at, so the connection ends with the reply.
void HttpConnection::refuse(ServerReply reply) {
  begin_exchange();
  keeps_alive_ = was_read_ = false;
  exchange_->reply(std::move(reply));
}

void HttpConnection::refuse_for_memory() { refuse(shared_->handler.failure(request_, 503, kMemoryFull)); }

// ---- its reply

// For `more` bytes beside those that the connection holds. False: the connections' memory is full.
bool HttpConnection::make_room(uint64_t more) {
  const uint64_t bytes = buffer_.capacity() + unsent_.capacity() + sending_.capacity() + more;
  return buffers_.resize(std::max(kConnectionBytes, bytes));
}

void HttpConnection::begin_exchange() {
  phase_ = Phase::answering;
  record_ = {};
  record_.method = request_.method;
  record_.path = request_.path;
  record_.bytes_in = request_.body.size();
  has_body_ = request_.method != "HEAD";
  was_read_ = true;
  const bool old = parser_->get().version() < 11;
  form_ = old ? BodyForm::until_close : BodyForm::chunked;
  reply_complete_ = begun_reply_ = false;
  keep_alive_.clear();
  last_byte_ = Clock::now();
  exchange_ = std::make_shared<HttpExchange>(shared_from_this(), std::exchange(request_, {}), body_, *shared_);
  parser_.reset();
  if (buffer_.size() == 0) buffer_.shrink_to_fit();
  make_room(0);
  arm(shared_->limits.keep_alive_seconds, &HttpConnection::tick);
  watch_client();
}

void HttpConnection::watch_client() {
  if (watching_ || buffer_.size() + kWatchBytes > kMostReadAhead) return;
  watching_ = true;
  const auto room = buffer_.prepare(kWatchBytes);
  socket_.async_read_some(room, [self = shared_from_this()](const ErrorCode& failed, size_t bytes) {
    self->watching_ = false;
    if (self->phase_ == Phase::closed) return;
    if (!failed) self->buffer_.commit(bytes);
    if (failed && failed != asio::error::operation_aborted) return self->close();
    if (self->phase_ == Phase::leaving) return self->drop_input();
    if (self->exchange_ == nullptr)
      return self->next_request();  // the reply is complete: end_exchange() waited for this
    self->watch_client();
  });
}

void HttpConnection::client_left() {
  if (exchange_ == nullptr) return;
  const std::shared_ptr<HttpExchange> left = std::exchange(exchange_, nullptr);
  left->is_over_ = true;
  record(false);
  if (left->tell_gone_) left->tell_gone_();
}

void HttpConnection::begin_reply(const ServerReply& reply, bool is_stream) {
  begun_reply_ = true;
  record_.status = reply.status;
  if (shared_->draining) keeps_alive_ = false;
  if (!is_stream) form_ = BodyForm::sized;
  if (form_ == BodyForm::until_close) keeps_alive_ = false;
  unsent_ += head_text(reply, form_, reply.body.size() + reply.lasting_body.size(), keeps_alive_);
  if (!is_stream && has_body_) {
    unsent_ += reply.body;
    lasting_ = reply.lasting_body;
    record_.bytes_out += reply.body.size() + lasting_.size();
  }
  send();
}

void HttpConnection::append(std::string_view bytes) {
  if (bytes.empty() || !has_body_) return;
  record_.bytes_out += bytes.size();
  unsent_ += form_ == BodyForm::chunked ? chunk_text(bytes) : std::string(bytes);
  if (unsent_.size() > shared_->limits.unsent_bytes || !make_room(0)) return close();
  send();
}

void HttpConnection::send() {
  if (!being_sent_.empty()) return;
  sending_ = std::exchange(unsent_, {});
  being_sent_ = sending_.empty() ? std::exchange(lasting_, {}) : sending_;
  if (being_sent_.empty()) return;
  last_byte_ = Clock::now();
  struct Sender {
    std::shared_ptr<HttpConnection> self;
    void some() const {
      HttpConnection& c = *self;
      c.socket_.async_write_some(asio::buffer(c.being_sent_.data(), c.being_sent_.size()), *this);
    }
    void operator()(const ErrorCode& failed, size_t bytes) const {
      HttpConnection& c = *self;
      if (c.phase_ != Phase::answering) return;
      if (failed) return c.close();
      c.last_byte_ = Clock::now();
      c.being_sent_.remove_prefix(bytes);
      if (!c.being_sent_.empty()) return some();
      c.sending_ = {};
      c.make_room(0);
      c.send();
      c.end_exchange();
    }
  };
  Sender{shared_from_this()}.some();
}

void HttpConnection::end_reply() {
  reply_complete_ = true;
  if (begun_reply_ && form_ == BodyForm::chunked && has_body_) unsent_ += kLastChunk;
  send();
  end_exchange();
}

void HttpConnection::end_exchange() {
  if (!reply_complete_ || !being_sent_.empty() || !unsent_.empty() || exchange_ == nullptr) return;
  const std::shared_ptr<HttpExchange> done = std::exchange(exchange_, nullptr);
  done->is_over_ = true;
  done->tell_gone_ = nullptr;
  record(true);
  if (!was_read_) return leave();
  if (!keeps_alive_) return close();
  if (!watching_) return next_request();
  ErrorCode ignored;
  ignored = socket_.cancel(ignored);  // the read that watches goes on with next_request()
}

// Closing while bytes of the client are unread would reset the connection, and the client might lose the reply.
void HttpConnection::leave() {
  phase_ = Phase::leaving;
  ErrorCode ignored;
  ignored = socket_.shutdown(Socket::shutdown_send, ignored);
  arm(kLeaveSeconds, &HttpConnection::close);
  if (!watching_) drop_input();
}

void HttpConnection::drop_input() {
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(kWatchBytes), [self = shared_from_this()](const ErrorCode& failed, size_t) {
    if (self->phase_ != Phase::leaving) return;
    if (failed) return self->close();
    self->drop_input();
  });
}

void HttpConnection::record(bool complete) {
  record_.complete = complete;
  record_.seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
  shared_->handler.finished(std::exchange(record_, {}));
}

// Every few seconds while a request is answered.
void HttpConnection::tick() {
  if (phase_ != Phase::answering) return;
  const double silent = std::chrono::duration<double>(Clock::now() - last_byte_).count();
  if (!being_sent_.empty() && silent > shared_->limits.stalled_seconds) return close();
  if (!keep_alive_.empty() && being_sent_.empty() && silent >= 0.9 * shared_->limits.keep_alive_seconds)
    append(keep_alive_);
  if (phase_ == Phase::answering) arm(shared_->limits.keep_alive_seconds, &HttpConnection::tick);
}

// ---- the handler's side

void HttpExchange::reply(ServerReply reply) {
  if (is_over_) return;
  if (!connection_->make_room(reply.body.size()))
    reply = connection_->shared_->handler.failure(request_, 503, kMemoryFull);
  connection_->begin_reply(reply, /*is_stream=*/false);
  connection_->end_reply();
}

void HttpExchange::begin_stream(ServerReply head, std::string keep_alive) {
  if (is_over_) return;
  connection_->keep_alive_ = std::move(keep_alive);
  connection_->begin_reply(head, /*is_stream=*/true);
}

void HttpExchange::write(std::string_view bytes) {
  if (!is_over_) connection_->append(bytes);
}

void HttpExchange::end_stream() {
  if (is_over_) return;
  connection_->keep_alive_.clear();
  connection_->end_reply();
}

void HttpExchange::note(std::string name, int64_t value) {
  if (!is_over_) connection_->record_.notes.emplace_back(std::move(name), value);
}

void HttpExchange::post(std::function<void()> task) { boost::asio::post(connection_->shared_->io, std::move(task)); }

}  // namespace sluice
