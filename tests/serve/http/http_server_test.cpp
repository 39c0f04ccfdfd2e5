// The HTTP server over raw sockets: what is taken, what is refused, and what happens to clients that misbehave.
#include "serve/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/text.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::HasSubstr;

TestReply reply_to(const TestServer& server, const std::string& bytes) {
  TestClient client(server.port());
  client.send(bytes);
  return client.read();
}

TEST(HttpServer, AConnectionTakesOneRequestAfterAnother) {
  const TestServer server;
  TestClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.send(request_text("GET", "/health"));
    const TestReply reply = client.read();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "{\"status\": \"ok\"}\n");
    EXPECT_EQ(reply.header("connection"), "keep-alive");
  }
}

TEST(HttpServer, RequestsThatComeAtOnceAreAnsweredInTheirOrder) {
  const TestServer server;
  TestClient client(server.port());
  client.send(request_text("GET", "/health") + request_text("GET", "/v1/models") + request_text("HEAD", "/health") +
              request_text("GET", "/nope"));
  EXPECT_THAT(client.read().body, HasSubstr("ok"));
  EXPECT_THAT(client.read().body, HasSubstr("demo"));
  EXPECT_EQ(client.read(/*has_body=*/false).header("content-length"), "17");
  EXPECT_EQ(client.read().status, 404);
}

TEST(HttpServer, OldAndClosingClientsAreClosed) {
  const TestServer server;
  for (const char* request : {"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n",
                              "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"}) {
    TestClient client(server.port());
    client.send(request);
    EXPECT_EQ(client.read().status, 200);
    EXPECT_TRUE(client.is_closed());
  }
}

TEST(HttpServer, WhatIsNoHttpIsRefused) {
  const TestServer server;
  const std::string host = "Host: localhost\r\n";
  for (const std::string& bytes :
       {std::string("nonsense\r\n\r\n"), "GET /health HTTP/9.9\r\n" + host + "\r\n",
        "GET  HTTP/1.1\r\n" + host + "\r\n", "GET health HTTP/1.1\r\n" + host + "\r\n",
        "GET /%zz HTTP/1.1\r\n" + host + "\r\n",
        "POST /v1/completions HTTP/1.1\r\n" + host + "Content-Length: x\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\n" + host + "Content-Length: -2\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        "POST /v1/completions HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
        "POST /v1/completions HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n"}) {
    const TestReply reply = reply_to(server, bytes);
    EXPECT_EQ(reply.status, 400) << bytes;
    EXPECT_EQ(reply.header("connection"), "close") << bytes;
    EXPECT_TRUE(reply.json().find("error")) << bytes;
  }
}

TEST(HttpServer, HeadersAndBodiesHaveLimits) {
  const TestServer server({.limits = {.header_bytes = 1000, .headers = 5, .body_bytes = 1000}});
  EXPECT_EQ(reply_to(server, request_text("GET", "/" + std::string(2000, 'a'))).status, 431);
  std::string many;
  for (int i = 0; i < 10; ++i) many += cat("A", i, ": b\r\n");
  EXPECT_EQ(reply_to(server, request_text("GET", "/health", "", many)).status, 431);
  EXPECT_EQ(reply_to(server, request_text("POST", "/v1/completions", std::string(2000, ' '))).status, 413);
  const std::string chunked = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(reply_to(server, chunked + "7d0\r\n" + std::string(2000, ' ') + "\r\n0\r\n\r\n").status, 413);
}

TEST(HttpServer, AClientThatGoesOnSendingGetsItsRefusal) {
  const TestServer server({.limits = {.body_bytes = 1000}});
  EXPECT_EQ(reply_to(server, request_text("POST", "/v1/completions", std::string(8 << 20, ' '))).status, 413);
}

TEST(HttpServer, BodiesOfAllConnectionsShareTheirMemory) {
  const TestServer server({.limits = {.held_bytes = 512 << 10}});
  const std::string body = cat(R"({"prompt": "a", "max_tokens": 1, "user": ")", std::string(200'000, 'b'), "\"}");
  const std::string request = request_text("POST", "/v1/completions", body);
  {
    TestClient slow(server.port());
    slow.send(request_text("POST", "/v1/completions", std::string(300'000, ' ')).substr(0, 299'000));
    while (server.held_bytes() < 298'000) std::this_thread::yield();
    const TestReply refused = reply_to(server, request);
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.header("retry-after"), "1");
    EXPECT_THAT(refused.body, HasSubstr("connections hold all the memory that they may"));
    EXPECT_EQ(ask(server, "/v1/completions", R"({"prompt": "a", "max_tokens": 1})").status, 200);
  }
  while (server.held_bytes() >= 100'000) std::this_thread::yield();
  EXPECT_EQ(reply_to(server, request).status, 200);
  while (server.held_bytes() > 0) std::this_thread::yield();
}

TEST(HttpServer, ConnectionsThatFindNoRoomAreTurnedAway) {
  const TestServer server({.limits = {.held_bytes = 2 * kConnectionBytes}});
  TestClient first(server.port()), second(server.port()), third(server.port());
  EXPECT_EQ(third.read().status, 503);
}

TEST(HttpServer, AChunkedBodyIsTakenAndLeaveToSendIsGiven) {
  const TestServer server;
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n";
  const std::string body = "f\r\n{\"prompt\": \"a\",\r\n11\r\n \"max_tokens\": 1}\r\n0\r\n\r\n";
  EXPECT_EQ(reply_to(server, head + "\r\n" + body).status, 200);
  TestClient client(server.port());
  client.send(head + "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  client.send(body);
  EXPECT_EQ(client.read().status, 200);
}

TEST(HttpServer, SlowAndIdleClientsAreDropped) {
  const TestServer server({.limits = {.header_seconds = 0.05, .body_seconds = 0.05, .idle_seconds = 0.05}});
  for (const char* beginning :
       {"", "GET /hea", "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"}) {
    TestClient client(server.port());
    client.send(beginning);
    EXPECT_TRUE(client.is_closed()) << beginning;
  }
}

bool has_ipv6() {
  const int tried = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool has = tried >= 0 && bind(tried, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (tried >= 0) close(tried);
  return has;
}

// 10 ms.
TEST(HttpServer, ListensAtSeveralAddresses) {
  std::vector<std::string> hosts = {"127.0.0.1", "127.0.0.2"};
  if (has_ipv6()) hosts.emplace_back("::1");
  const TestServer server({.hosts = hosts});
  ASSERT_EQ(server.ports().size(), hosts.size());
  for (size_t i = 0; i < hosts.size(); ++i) {
    TestClient client(hosts[i], server.ports()[i]);
    client.send(request_text("GET", "/health"));
    EXPECT_EQ(client.read().status, 200) << hosts[i];
  }
}

HttpPlace place_at(const char* host, uint16_t port = 0) { return {.host = host, .port = port, .unix_path = {}}; }

class NoHandler final : public HttpHandler {
 public:
  std::optional<ServerReply> refuse_head(const ServerRequest& /*head*/) override {
    return ServerReply{.status = 404, .headers = {}};
  }
  void handle(std::shared_ptr<Exchange> /*exchange*/) override {}
  ServerReply failure(const ServerRequest& /*head*/, int status, const std::string& /*message*/) override {
    return {.status = status, .headers = {}};
  }
  void finished(const HttpRecord& /*record*/) override {}
};

// Every IPv6 address leaves the port of the same number to IPv4. 1 ms.
TEST(HttpServer, OnePortServesBothFamilies) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 loopback";
  NoHandler handler;
  for (int tries = 0;; ++tries) {  // another program may have the port
    const auto four = unwrap(HttpServer::listen({place_at("0.0.0.0")}, {}, handler));
    const std::string address = four->addresses()[0];
    const auto port = static_cast<uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
    const auto six = HttpServer::listen({place_at("::", port)}, {}, handler);
    if (!six && tries < 20) continue;
    ASSERT_TRUE(six) << six.error().text;
    EXPECT_EQ((*six)->addresses()[0], cat("http://[::]:", port));
    break;
  }
}

// 203.0.113.0/24 is nobody's: RFC 5737.
TEST(HttpServer, OneAddressThatIsNotHereEndsTheStart) {
  NoHandler handler;
  const auto server = HttpServer::listen({place_at("127.0.0.1"), place_at("203.0.113.1")}, {}, handler);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().text, "address 203.0.113.1 port 0: Cannot assign requested address");
  EXPECT_THAT(HttpServer::listen({place_at("no such name")}, {}, handler).error().text,
              HasSubstr("address no such name: "));
}

TEST(HttpServer, TooManyConnectionsAreTurnedAway) {
  const TestServer server({.limits = {.connections = 2}});
  TestClient first(server.port()), second(server.port());
  for (TestClient* client : {&first, &second}) {
    client->send(request_text("GET", "/health"));
    EXPECT_EQ(client->read().status, 200);
  }
  TestClient third(server.port());
  EXPECT_EQ(third.read().status, 503);
}

TEST(HttpServer, StrangeHostsAndOriginsAreRefused) {
  const TestServer server({.access = {.hosts = {"box.lan"}}});
  const auto status = [&](const std::string& headers) {
    return reply_to(server, cat("GET /health HTTP/1.1\r\n", headers, "\r\n")).status;
  };
  for (const char* host : {"localhost", "127.0.0.1:8080", "[::1]:80", "192.168.1.7", "box.lan:80", "BOX.lan"})
    EXPECT_EQ(status(cat("Host: ", host, "\r\n")), 200) << host;
  for (const char* host : {"evil.example", "", "localhost.evil.example", "127.0.0.1.evil.example"})
    EXPECT_EQ(status(cat("Host: ", host, "\r\n")), 403) << host;
  EXPECT_EQ(status(""), 403);
  const std::string host = "Host: localhost:80\r\nOrigin: ";
  for (const char* origin : {"http://localhost:3000", "http://localhost:80", "https://box.lan"})
    EXPECT_EQ(status(cat(host, origin, "\r\n")), 200) << origin;
  for (const char* origin : {"https://evil.example", "null", "http://192.168.1.7", "http://127.0.0.1.evil.example"})
    EXPECT_EQ(status(cat(host, origin, "\r\n")), 403) << origin;
}

TEST(HttpServer, PagesOfThisMachineMayReadReplies) {
  const TestServer server;
  const TestReply reply = get(server, "/health", "Origin: http://localhost:3000\r\n");
  EXPECT_EQ(reply.header("access-control-allow-origin"), "http://localhost:3000");
  const TestReply asked =
      reply_to(server, request_text("OPTIONS", "/v1/chat/completions", "", "Origin: http://localhost:3000\r\n"));
  EXPECT_EQ(asked.status, 204);
  EXPECT_THAT(asked.header("access-control-allow-methods"), HasSubstr("POST"));
}

TEST(HttpServer, EveryPathButHealthWantsTheKey) {
  const TestServer server({.access = {.keys = {"first-key", "second-key"}}});
  EXPECT_EQ(get(server, "/health").status, 200);
  EXPECT_EQ(get(server, "/v1/models", "Authorization: Bearer second-key\r\n").status, 200);
  EXPECT_EQ(get(server, "/v1/models", "X-Api-Key: first-key\r\n").status, 200);
  for (const char* path : {"/v1/models", "/metrics", "/nope"})
    for (const char* headers : {"", "Authorization: Bearer first-kez\r\n", "Authorization: Bearer \r\n",
                                "Authorization: first-key\r\n", "X-Api-Key: first-keysecond-key\r\n"})
      EXPECT_EQ(get(server, path, headers).status, 401) << path << headers;
}

TEST(HttpServer, AUnixSocketIsServed) {
  const std::string path = testing::TempDir() + "sluice_serve_test.sock";
  {
    const TestServer server({.unix_path = path});
    TestClient client(path);
    client.send("GET /health HTTP/1.1\r\nHost: sluice\r\n\r\n");
    EXPECT_EQ(client.read().status, 200);
    EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms::group_all,
              std::filesystem::perms::none);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(AccessKeys, AreReadFromLines) {
  EXPECT_EQ(unwrap(read_keys("# ours\nfirst-key\r\n\nsecond-key\n", "keys")),
            (std::vector<std::string>{"first-key", "second-key"}));
  for (const char* text : {"", "# none\n", "short\n", "with blank in it\n"})
    EXPECT_FALSE(read_keys(text, "keys")) << text;
}

}  // namespace
}  // namespace sluice
