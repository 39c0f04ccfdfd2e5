// Pictures that requests name by URL, with a fetcher that touches no network. Costs 0.3 s in each change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/files/file.h"
#include "base/text.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// What the reference model answers (tests/data/gemma4/golden.json, image1).
constexpr const char* kSeen = "A red circle on the left and a blue square on the right.";
constexpr const char* kText = R"({"type": "text", "text": "What is in this picture?"})";

class FakeFetcher final : public MediaFetcher {
 public:
  Result<std::string> fetch(const std::string& url, const FetchTerms& terms) const override {
    ++asked;
    if (ends_with(url, "/silent")) {
      while (!*terms.gone) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++left;
      return error(ErrorKind::cancelled, url, ": stopped");
    }
    if (ends_with(url, "/none")) return error(ErrorKind::not_found, url, ": not on the server (status 404)");
    if (ends_with(url, "/text")) return std::string("<html>");
    TRY_STATUS(terms.has_room(ends_with(url, "/large") ? uint64_t{1} << 30 : 10'000));
    return read_file(cat(SLUICE_TEST_DATA, "/gemma4/picture1.png"), 1 << 20);
  }
  mutable std::atomic<int> asked = 0, left = 0;
};

std::string openai(const std::string& url) {
  return cat(R"({"temperature": 0, "max_tokens": 40, "messages": [{"role": "user", "content": [{"type": "image_url", )",
             R"("image_url": {"url": ")", url, R"("}}, )", kText, "]}]}");
}
std::string anthropic(const std::string& url) {
  return cat(R"({"temperature": 0, "max_tokens": 40, "messages": [{"role": "user", "content": [{"type": "image", )",
             R"("source": {"type": "url", "url": ")", url, R"("}}, )", kText, "]}]}");
}
std::string response(const std::string& url) {
  return cat(R"({"temperature": 0, "input": [{"role": "user", "content": [{"type": "input_image", "image_url": ")", url,
             R"("}, )", kText, "]}]}");
}

TEST(PicturesByUrl, AreSeenInTheApisThatHaveThem) {
  const FakeFetcher fetcher;
  TestServer server({.fetcher = &fetcher, .request_bytes = 100'000'000});
  EXPECT_THAT(ask(server, "/v1/chat/completions", openai("https://example.org/a.png")).body, HasSubstr(kSeen));
  EXPECT_THAT(ask(server, "/v1/responses", response("HTTP://example.org/a.png")).body, HasSubstr(kSeen));
  EXPECT_THAT(ask(server, "/v1/messages", anthropic("http://example.org/a.png")).body, HasSubstr(kSeen));
  EXPECT_EQ(ask(server, "/v1/messages/count_tokens", anthropic("http://example.org/a.png")).status, 200);
  EXPECT_EQ(fetcher.asked, 4);
  while (server.request_memory().used() > 0) std::this_thread::yield();  // readers leave a moment after the reply
}

TEST(PicturesByUrl, AreRefusedByTheirPlace) {
  const FakeFetcher fetcher;
  const TestServer server({.fetcher = &fetcher, .request_bytes = 100'000'000});
  const std::string place = "messages[0].content[0].image_url";
  const auto said = [&](const std::string& url) {
    const TestReply reply = ask(server, "/v1/chat/completions", openai(url));
    EXPECT_EQ(reply.status, 400) << url;
    const Json json = reply.json();
    EXPECT_EQ(json.find("error")->find("param")->as_string(), place);
    return json.find("error")->find("message")->as_string();
  };
  EXPECT_EQ(said("http://a/none"), place + ": http://a/none: not on the server (status 404)");
  EXPECT_EQ(said("http://a/text"),
            place + ": begins with bytes 3c 68 74 6d 6c 3e: want a PNG, JPEG, WebP, GIF or BMP picture");
  EXPECT_EQ(said("http://a/large"), place + ": the request takes 1.1 GB of memory to read: want at most 100.0 MB");
  EXPECT_THAT(said("file:///etc/passwd"), HasSubstr("is no data: URL"));
  const TestReply message = ask(server, "/v1/messages", anthropic("http://a/none"));
  EXPECT_EQ(message.status, 400);
  EXPECT_THAT(message.body, HasSubstr("messages[0].content[0].source.url: http://a/none: not on the server"));
}

TEST(PicturesByUrl, AreNoLongerFetchedForAClientThatHasLeft) {
  const FakeFetcher fetcher;
  const TestServer server({.fetcher = &fetcher});
  ask(server, "/v1/completions", R"({"prompt": "a", "max_tokens": 1})");  // loads the model
  {
    TestClient client(server.port());
    client.send(request_text("POST", "/v1/chat/completions", openai("http://a/silent")));
    while (fetcher.asked == 0) std::this_thread::yield();
    EXPECT_EQ(get(server, "/health").status, 200);
  }
  while (fetcher.left == 0) std::this_thread::yield();
  EXPECT_EQ(server.running(), 0u);
}

}  // namespace
}  // namespace sluice
