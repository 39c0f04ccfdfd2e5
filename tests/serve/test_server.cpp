#include "tests/serve/test_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "base/text.h"
#include "base/threads.h"
#include "device/cpu/cpu.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

constexpr timeval kPatience{.tv_sec = 120, .tv_usec = 0};  // under ThreadSanitizer answers take long

bool wait_for(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPatience.tv_sec);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

int connected(int socket, const sockaddr* address, socklen_t bytes) {
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  CHECK(connect(socket, address, bytes) == 0);
  return socket;
}

// The body of a chunked reply at the beginning of `text`, which is removed; none while it is not complete.
std::optional<std::string> take_chunks(std::string& text) {
  std::string body;
  size_t at = 0;
  for (;;) {
    const size_t line = text.find("\r\n", at);
    if (line == std::string::npos) return std::nullopt;
    const size_t bytes = std::stoul(text.substr(at, line - at), nullptr, 16);
    if (text.size() < line + 2 + bytes + 2) return std::nullopt;
    body += text.substr(line + 2, bytes);
    at = line + 2 + bytes + 2;
    if (bytes == 0) break;
  }
  text.erase(0, at);
  return body;
}

}  // namespace

namespace {

Device& demo_device() {
  static ThreadPool pool(2);
  static const std::unique_ptr<Device> device = make_cpu_device({.pool = &pool});
  return *device;
}

}  // namespace

ChatModel& demo_model() {
  static Budget budget;
  static const std::unique_ptr<ChatModel> model = [] {
    const auto options = [](const ChatModel&) -> Result<EngineOptions> {
      return EngineOptions{.context = 1024, .sequences = 4};
    };
    ModelFiles files = files_at("assets/demo-gemma4-q8_0.gguf");
    files.projector = "assets/mmproj-demo-gemma4.gguf";
    return unwrap(open_chat_model({.files = files, .options = options}, demo_device(), budget, /*bounds=*/{}));
  }();
  return *model;
}

ServedModel served_demo() {
  const ChatModel& model = demo_model();
  ServedModel served;
  served.names = {"demo", "other"};
  served.text = &model.text;
  served.model = &model.model;
  served.describe(model.model, model.text);
  served.input_bytes = largest_input_bytes(unwrap(tower_rooms(model.model, demo_device(), Arithmetic::fast)));
  served.context = model.engine->context();
  served.sampling = model.settings.sampling;
  served.version = "0";
  return served;
}

ModelRecipe demo_recipe(uint32_t running) {
  return {.cards = {served_demo()}, .running = running, .load = [](bool) -> Result<std::unique_ptr<LoadedModel>> {
            auto loaded = std::make_unique<LoadedModel>();
            loaded->opened = std::shared_ptr<ChatModel>(&demo_model(), [](ChatModel*) {});
            loaded->variants = {served_demo()};
            return loaded;
          }};
}

TestServer::TestServer(TestServerSetup setup)
    : memory_(budget_, setup.request_bytes),
      shelf_(setup.recipes.empty() ? std::vector<ModelRecipe>{demo_recipe(setup.running)} : std::move(setup.recipes)),
      queue_(shelf_, setup.waiting, setup.access.clients()),
      service_(shelf_, queue_,
               {.access = std::move(setup.access),
                .version = "0",
                .log = {},
                .page = setup.page,
                .memory = &memory_,
                .store = setup.store,
                .fetcher = setup.fetcher}) {
  std::vector<HttpPlace> places;
  for (const std::string& host : setup.hosts)
    if (setup.unix_path.empty()) places.push_back({.host = host, .port = 0, .unix_path = {}});
  if (places.empty()) places.push_back({.host = {}, .port = 0, .unix_path = setup.unix_path});
  server_ = unwrap(HttpServer::listen(places, setup.limits, service_));
  for (const std::string& address : server_->addresses())
    if (setup.unix_path.empty())
      ports_.push_back(static_cast<uint16_t>(std::stoul(address.substr(address.rfind(':') + 1))));
  server_->every(0.002, [this] {
    const int wanted = wanted_.exchange(0);
    if (wanted == 1) service_.drain();
    if (wanted == 1) server_->drain();
    if (wanted == 2) server_->stop();
  });
  sockets_ = std::thread([this] {
    server_->run();
    service_.finish();
    queue_.close();
    ended_ = true;
  });
  engine_ = std::thread([this] { queue_.run(); });
}

TestServer::~TestServer() {
  while (!ended_) {
    wanted_ = 2;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  sockets_.join();
  engine_.join();
}

bool TestServer::wait_for_running(uint32_t answers) const {
  return wait_for([&] { return queue_.running(0) == answers; });
}

bool TestServer::wait_for_waiting(size_t recipe, uint32_t requests) const {
  return wait_for([&] { return queue_.waiting(recipe) == requests; });
}

std::string TestReply::header(const std::string& name) const {
  const size_t at = head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return {};
  const size_t begin = at + name.size() + 4;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

Json TestReply::json() const { return unwrap(parse_json(body, "reply")); }

std::vector<Json> TestReply::events() const {
  std::vector<Json> all;
  for (const std::string& line : split(body, '\n'))
    if (starts_with(line, "data: ") && line != "data: [DONE]") all.push_back(unwrap(parse_json(line.substr(6), line)));
  return all;
}

TestClient::TestClient(const std::string& address, uint16_t port) {
  sockaddr_in four = {};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  if (inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1) {
    socket_ = connected(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), reinterpret_cast<const sockaddr*>(&four),
                        sizeof four);
    return;
  }
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  CHECK(inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) == 1);
  socket_ =
      connected(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), reinterpret_cast<const sockaddr*>(&six), sizeof six);
}

TestClient::TestClient(const std::string& unix_path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, unix_path.c_str(), sizeof address.sun_path - 1);
  socket_ = connected(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), reinterpret_cast<const sockaddr*>(&address),
                      sizeof address);
}

void TestClient::send(const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t now = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) return;  // the server has closed: what it replied is still to be read
    sent += static_cast<size_t>(now);
  }
}

bool TestClient::receive() {
  char bytes[4096];
  const ssize_t got = recv(socket_, bytes, sizeof bytes, 0);
  if (got <= 0) return false;
  received_.append(bytes, static_cast<size_t>(got));
  return true;
}

TestReply TestClient::read(bool has_body) {
  size_t end = 0;
  while ((end = received_.find("\r\n\r\n")) == std::string::npos)
    if (!receive()) return {};
  TestReply reply;
  reply.head = received_.substr(0, end + 2);
  reply.status = std::stoi(reply.head.substr(9, 3));
  received_.erase(0, end + 4);
  if (!has_body || reply.status < 200 || reply.status == 204 || reply.status == 304) return reply;
  if (reply.header("transfer-encoding") == "chunked") {
    std::optional<std::string> body;
    while (!(body = take_chunks(received_)))
      if (!receive()) break;
    reply.body = body ? *body : received_;
  } else if (const std::string length = reply.header("content-length"); !length.empty()) {
    while (received_.size() < std::stoul(length) && receive()) continue;
    reply.body = received_.substr(0, std::stoul(length));
    received_.erase(0, reply.body.size());
  } else {
    while (receive()) continue;
    reply.body = std::exchange(received_, {});
  }
  return reply;
}

bool TestClient::read_until(const std::string& text) {
  while (received_.find(text) == std::string::npos)
    if (!receive()) return false;
  return true;
}

bool TestClient::is_closed() {
  while (receive()) continue;
  char byte = 0;
  return recv(socket_, &byte, 1, MSG_DONTWAIT) == 0 || errno != EAGAIN;
}

void TestClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

std::string request_text(const std::string& method, const std::string& path, const std::string& body,
                         const std::string& headers) {
  const std::string length = body.empty() ? "" : cat("Content-Length: ", body.size(), "\r\n");
  return cat(method, ' ', path, " HTTP/1.1\r\nHost: 127.0.0.1\r\n", length, headers, "\r\n", body);
}

TestReply ask(const TestServer& server, const std::string& path, const std::string& body) {
  TestClient client(server.port());
  client.send(request_text("POST", path, body));
  return client.read();
}

TestReply get(const TestServer& server, const std::string& path, const std::string& headers) {
  TestClient client(server.port());
  client.send(request_text("GET", path, "", headers));
  return client.read();
}

}  // namespace sluice
