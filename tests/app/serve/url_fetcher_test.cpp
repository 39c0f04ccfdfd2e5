// What a server fetches for strangers, and what it refuses. Costs 0.3 s in each change.
#include "app/serve/url_fetcher.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <chrono>
#include <thread>

#include "base/text.h"
#include "tests/app/files/http_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Clock = std::chrono::steady_clock;

FetchTerms terms(double seconds = 10, const std::atomic<bool>* gone = nullptr) {
  return {.end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)),
          .gone = gone,
          .has_room = [](uint64_t) { return Status(); }};
}

std::string fetched(const std::vector<std::string>& hosts, const std::string& url, const FetchTerms& by = terms()) {
  const Result<std::string> bytes = unwrap(UrlFetcher::create(hosts))->fetch(url, by);
  return bytes ? *bytes : bytes.error().text;
}

LocalReply redirect(const std::string& to) { return {.status = 302, .headers = {"Location: " + to}, .body = "moved"}; }

class FetchedUrls : public testing::Test {
 protected:
  // Of a name, with the server's port: "localhost:40001".
  std::string named(const std::string& name) const { return name + server_.host().substr(server_.host().find(':')); }

  LocalServer server_{[this](const LocalRequest& asked) -> LocalReply {
    if (asked.path == "/once") return redirect("/picture?size=1");
    if (asked.path == "/other") return redirect(cat("http://", named("localhost"), "/picture"));
    if (asked.path == "/endless") return redirect("/endless");
    if (asked.path == "/file") return redirect("file:///etc/passwd");
    if (asked.path == "/large") return {.headers = {}, .body = "a", .said_bytes = int64_t{1} << 40};
    if (asked.path == "/silent") return {.headers = {}, .body = "abc", .sent_bytes = 1, .stalls = true};
    if (starts_with(asked.path, "/picture")) return {.headers = {}, .body = "bytes of " + asked.path};
    return {.status = 404, .headers = {}, .body = "not here"};
  }};
};

TEST_F(FetchedUrls, ComeFromHostsThatAreNamed) {
  EXPECT_EQ(fetched({server_.host()}, server_.url("/picture")), "bytes of /picture");
  EXPECT_EQ(fetched({server_.host()}, server_.url("/once")), "bytes of /picture?size=1");
  EXPECT_EQ(fetched({named("localhost")}, cat("HTTP://", named("LocalHost"), "/picture")), "bytes of /picture");
  EXPECT_EQ(fetched({server_.host()}, server_.url("/none")), server_.url("/none") + ": not on the server (status 404)");
}

TEST_F(FetchedUrls, ComeFromNoOtherHostPortOrProtocol) {
  const std::string why = ": want a host that --allow-urls names";
  for (const char* url : {"http://127.0.0.1/picture", "http://example.org/", "https://127.0.0.1:1/",
                          "http://2130706433/", "http://127.0.0.1.example.org/"})
    EXPECT_THAT(fetched({server_.host()}, url), HasSubstr(why)) << url;
  EXPECT_THAT(fetched({server_.host()}, server_.url("/other")), HasSubstr(why));
  EXPECT_THAT(fetched({"127.0.0.1"}, server_.url("/picture")), HasSubstr(why)) << "another port";
  for (const char* url :
       {"file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/", "//127.0.0.1/", "http://", ""})
    EXPECT_THAT(fetched({"127.0.0.1"}, url), HasSubstr("want a URL that begins with http:// or https://")) << url;
  EXPECT_THAT(fetched({server_.host()}, server_.url("/file")), HasSubstr("want a URL that begins with http://"));
  EXPECT_THAT(fetched({server_.host()}, cat("http://me:secret@", server_.host(), "/picture")),
              HasSubstr("want a URL without a login"));
  EXPECT_THAT(fetched({server_.host()}, cat("http://example.org\\@", server_.host(), "/picture")),
              HasSubstr(": want a"));
  EXPECT_THAT(fetched({"a"}, std::string(5000, 'a')), HasSubstr("the URL has 5000 bytes: want at most 4096"));
  EXPECT_THAT(fetched({server_.host()}, server_.url("/endless")), HasSubstr(": more than 3 redirects: want fewer"));
  EXPECT_EQ(server_.requests().size(), 6u) << "nothing else was asked for";
}

// A name that the user has allowed may lead to a private address later.
TEST_F(FetchedUrls, ComeFromNoPrivateAddressBehindAName) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);  // of this machine, and so a private address in a container and most networks
  const std::string site = named(host);
  const std::string said = fetched({site}, cat("http://", site, "/picture"));
  if (said.find("Could not resolve") != std::string::npos) GTEST_SKIP() << "the machine's name has no address";
  EXPECT_THAT(said, HasSubstr("leads to an address of this machine or its network: want a public one"));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(FetchedUrls, AreBoundedInBytesAndTime) {
  const std::vector<std::string> hosts = {server_.host()};
  EXPECT_EQ(fetched(hosts, server_.url("/large")),
            server_.url("/large") + ": is larger than 33.6 MB: want a smaller file");
  FetchTerms no_room = terms();
  no_room.has_room = [](uint64_t) -> Status { return error(ErrorKind::out_of_memory, "no room"); };
  EXPECT_EQ(fetched(hosts, server_.url("/picture?long-enough-for-memory"), no_room), "no room");
  EXPECT_THAT(fetched(hosts, server_.url("/silent"), terms(0.1)), HasSubstr("takes longer than the time that is left"));
  EXPECT_THAT(fetched(hosts, server_.url("/picture"), terms(-1)), HasSubstr("takes longer than the time that is left"));
}

TEST_F(FetchedUrls, EndSoonWhenTheClientLeaves) {
  std::atomic<bool> gone = false;
  const Clock::time_point begun = Clock::now();
  std::thread client([&] {
    while (server_.requests().empty()) std::this_thread::yield();
    gone = true;
  });
  EXPECT_THAT(fetched({server_.host()}, server_.url("/silent"), terms(60, &gone)), HasSubstr(": stopped"));
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(10));
  client.join();
}

TEST(FetchedAddresses, ArePublic) {
  const auto is_public = [](const char* text) {
    sockaddr_in four = {};
    four.sin_family = AF_INET;
    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
      return is_public_address(reinterpret_cast<const sockaddr&>(four));
    sockaddr_in6 six = {};
    six.sin6_family = AF_INET6;
    CHECK(inet_pton(AF_INET6, text, &six.sin6_addr) == 1);
    return is_public_address(reinterpret_cast<const sockaddr&>(six));
  };
  for (const char* address : {"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "192.167.255.255", "2606:4700::1111",
                              "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808"})
    EXPECT_TRUE(is_public(address)) << address;
  for (const char* address : {"0.0.0.0",
                              "127.0.0.1",
                              "127.255.0.1",
                              "10.1.2.3",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.168.1.1",
                              "169.254.169.254",
                              "100.64.0.1",
                              "192.0.0.170",
                              "198.18.0.1",
                              "224.0.0.1",
                              "255.255.255.255",
                              "::",
                              "::1",
                              "fe80::1",
                              "fc00::1",
                              "fd12::1",
                              "ff02::1",
                              "::ffff:10.0.0.1",
                              "::ffff:127.0.0.1",
                              "64:ff9b::a9fe:a9fe",
                              "2002:7f00:1::",
                              "2001::1",
                              "2001:db8::1",
                              "::127.0.0.1",
                              "fec0::1",
                              "3fff::1"})
    EXPECT_FALSE(is_public(address)) << address;
}

TEST(FetchedHosts, AreNamesWithAPortOrNone) {
  for (const char* wrong :
       {"", "https://example.org", "example.org/", "*.example.org", "a b", "me@example.org", "::1", "a:b"})
    EXPECT_THAT(UrlFetcher::create({wrong}).error().text,
                StartsWith(cat("--allow-urls ", wrong, ": want a host such as")))
        << wrong;
  for (const char* right : {"example.org", "Example.ORG:8443", "[::1]:80", "192.168.0.1"})
    EXPECT_TRUE(UrlFetcher::create({right})) << right;
}

}  // namespace
}  // namespace sluice
