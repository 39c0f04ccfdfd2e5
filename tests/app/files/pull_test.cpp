#include "app/files/pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "app/files/http.h"
#include "app/files/part_file.h"
#include "base/files/file.h"
#include "base/sha256.h"
#include "tests/app/files/http_server.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::IsEmpty;
using testing::StartsWith;

std::string hex_of(std::string_view content) {
  Sha256 sum;
  sum.add(content);
  return sum.finish_hex();
}

// Bytes that differ from place to place, so that a piece in the wrong place shows.
std::string long_content(size_t bytes = 300'000) {
  std::string content(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>((i * 2654435761u) >> 13);
  return content;
}

constexpr const char* kEtag = "\"one\"";

class Pull : public testing::Test {
 protected:
  Pull() { setenv("no_proxy", "127.0.0.1", 1); }

  PullRequest request(const std::string& url) const {
    return {.url = url, .sha256 = "", .folder = folder_.path(), .options = {.timeout_seconds = 20, .retries = 0}};
  }
  std::string refusal(const PullRequest& wanted) {
    const Result<Pulled> pulled = pull_file(wanted, console_);
    return pulled ? "pulled" : pulled.error().text;
  }
  std::vector<std::string> files() const { return *list_directory(folder_.path()); }
  std::string content(const std::string& name) const { return *read_file(folder_.path(name), 1 << 24); }

  // Stops after `sent` bytes once, then behaves.
  LocalServer::Answer cut_once(size_t sent, std::string etag_before = kEtag, std::string etag_after = kEtag) {
    return [this, sent, etag_before, etag_after](const LocalRequest& asked) {
      LocalReply reply = file_reply(asked, content_, cut_ ? etag_after : etag_before);
      if (!cut_) reply.sent_bytes = sent;
      cut_ = true;
      return reply;
    };
  }

  TemporaryFolder folder_;
  Console console_;
  const std::string content_ = long_content();
  bool cut_ = false;
};

// ---- one file

TEST_F(Pull, AFileComesWhole) {
  const LocalServer server([&](const LocalRequest& asked) { return file_reply(asked, content_, kEtag); });
  const Result<Pulled> pulled = pull_file(request(server.url("/models/m-Q4_0.gguf?download=true")), console_);
  ASSERT_TRUE(pulled.ok()) << pulled.error().text;
  EXPECT_EQ(pulled->path, folder_.path("m-Q4_0.gguf"));
  EXPECT_EQ(pulled->bytes, content_.size());
  EXPECT_EQ(pulled->fetched, content_.size());
  EXPECT_EQ(pulled->sha256, hex_of(content_));
  EXPECT_THAT(files(), ElementsAre("m-Q4_0.gguf"));
  EXPECT_EQ(content("m-Q4_0.gguf"), content_);
}

TEST_F(Pull, AnEmptyFileIsAFile) {
  const LocalServer server([&](const LocalRequest& asked) { return file_reply(asked, "", kEtag); });
  EXPECT_EQ(refusal(request(server.url("/empty.bin"))), "pulled");
  EXPECT_THAT(files(), ElementsAre("empty.bin"));
}

TEST_F(Pull, TheDigestIsHeld) {
  const LocalServer server([&](const LocalRequest& asked) { return file_reply(asked, content_, kEtag); });
  PullRequest wanted = request(server.url("/m.gguf"));
  wanted.sha256 = hex_of("another file");
  EXPECT_EQ(refusal(wanted),
            cat(wanted.url, ": SHA-256 is ", hex_of(content_), ": want ", wanted.sha256, "; nothing of it is kept"));
  EXPECT_THAT(files(), IsEmpty());
  wanted.sha256 = hex_of(content_);
  EXPECT_EQ(refusal(wanted), "pulled");
}

TEST_F(Pull, ACutDownloadGoesOnWhereItStopped) {
  const LocalServer server(cut_once(100'000));
  const PullRequest wanted = request(server.url("/m.gguf"));
  EXPECT_EQ(refusal(wanted), wanted.url +
                                 ": the connection ends before the file does (100.0 kB are kept: the same command goes "
                                 "on from there)");
  EXPECT_THAT(files(), ElementsAre("m.gguf.part", "m.gguf.part.json"));
  EXPECT_EQ(content("m.gguf.part"), content_.substr(0, 100'000));
  const Result<Pulled> pulled = pull_file(wanted, console_);
  ASSERT_TRUE(pulled.ok()) << pulled.error().text;
  EXPECT_EQ(pulled->fetched, content_.size() - 100'000);
  EXPECT_EQ(pulled->sha256, hex_of(content_));
  EXPECT_THAT(files(), ElementsAre("m.gguf"));
  EXPECT_EQ(content("m.gguf"), content_);
  EXPECT_EQ(server.requests()[1].headers.at("range"), "bytes=100000-");
  EXPECT_EQ(server.requests()[1].headers.at("if-range"), kEtag);
}

TEST_F(Pull, ItTriesAgainByItself) {
  const LocalServer server(cut_once(100'000));
  PullRequest wanted = request(server.url("/m.gguf"));
  wanted.options.retries = 1;
  wanted.sha256 = hex_of(content_);
  EXPECT_EQ(refusal(wanted), "pulled");
  EXPECT_EQ(content("m.gguf"), content_);
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST_F(Pull, ADownloadThatProgressesMayFailMoreOftenThanItsRetries) {
  const LocalServer server([&](const LocalRequest& asked) {
    LocalReply reply = file_reply(asked, content_, kEtag);
    reply.sent_bytes = 60'000;
    return reply;
  });
  PullRequest wanted = request(server.url("/m.gguf"));
  wanted.options.retries = 1;
  EXPECT_EQ(refusal(wanted), "pulled");
  EXPECT_EQ(content("m.gguf"), content_);
  EXPECT_EQ(server.requests().size(), 5u);
}

TEST_F(Pull, AServerWithoutRangesBeginsAnew) {
  const LocalServer server([&](const LocalRequest&) {
    LocalReply reply;
    reply.headers = {std::string("ETag: ") + kEtag};
    reply.body = content_;
    reply.sent_bytes = cut_ ? SIZE_MAX : 100'000;
    cut_ = true;
    return reply;
  });
  const PullRequest wanted = request(server.url("/m.gguf"));
  EXPECT_THAT(refusal(wanted), EndsWith("goes on from there)"));
  EXPECT_EQ(refusal(wanted), "pulled");
  EXPECT_EQ(content("m.gguf"), content_);
}

TEST_F(Pull, AFileThatChangedIsBegunAnew) {
  const LocalServer server(cut_once(100'000, "\"old\"", "\"new\""));
  EXPECT_THAT(refusal(request(server.url("/m.gguf"))), EndsWith("goes on from there)"));
  EXPECT_EQ(refusal(request(server.url("/m.gguf"))), "pulled");
  EXPECT_EQ(content("m.gguf"), content_);
}

TEST_F(Pull, AServerThatIgnoresIfRangeIsNotBelieved) {
  const LocalServer server([&](const LocalRequest& asked) {
    LocalRequest unconditional = asked;
    unconditional.headers.erase("if-range");
    const std::string old(content_.size(), 'x');
    LocalReply reply = file_reply(unconditional, cut_ ? content_ : old, cut_ ? "\"new\"" : "\"old\"");
    reply.sent_bytes = cut_ ? SIZE_MAX : 100'000;
    cut_ = true;
    return reply;
  });
  PullRequest wanted = request(server.url("/m.gguf"));
  EXPECT_THAT(refusal(wanted), EndsWith("goes on from there)"));
  EXPECT_EQ(refusal(wanted), wanted.url + ": the file on the server has changed");
  EXPECT_EQ(refusal(wanted), "pulled");
  EXPECT_EQ(content("m.gguf"), content_);
}

// Where nobody has said how long the file is, its ETag alone tells two apart.
TEST_F(Pull, AnotherEtagIsAnotherFileEvenWithoutALength) {
  const LocalServer server([&](const LocalRequest& asked) {
    LocalReply reply;
    const bool rest = asked.headers.contains("range");
    reply.status = rest ? 206 : 200;
    reply.headers = {"ETag: \"new\""};
    if (rest) reply.headers.emplace_back("Content-Range: bytes 100000-299999/*");
    reply.body = rest ? content_.substr(100'000) : content_;
    return reply;
  });
  PullRequest wanted = request(server.url("/m.gguf"));
  ASSERT_TRUE(write_file(folder_.path("m.gguf.part"), std::string(100'000, 'x')).ok());
  const std::string note = cat(R"({"url":")", wanted.url, R"(","validator":"\"old\""})");
  ASSERT_TRUE(write_file(folder_.path("m.gguf.part.json"), note).ok());
  EXPECT_EQ(refusal(wanted), wanted.url + ": the file on the server has changed");
  EXPECT_EQ(refusal(wanted), "pulled");
  EXPECT_EQ(content("m.gguf"), content_);
}

TEST_F(Pull, APartThatCannotBeToldIsBegunAnew) {
  const LocalServer server(cut_once(100'000, "W/\"weak\"", "W/\"weak\""));
  EXPECT_THAT(refusal(request(server.url("/m.gguf"))), EndsWith("goes on from there)"));
  EXPECT_EQ(refusal(request(server.url("/m.gguf"))), "pulled");
  EXPECT_EQ(server.requests()[1].headers.count("range"), 0u);
}

TEST_F(Pull, APartOfAnotherUrlIsBegunAnew) {
  const LocalServer server(cut_once(100'000));
  EXPECT_THAT(refusal(request(server.url("/a/m.gguf"))), EndsWith("goes on from there)"));
  EXPECT_EQ(refusal(request(server.url("/b/m.gguf"))), "pulled");
  EXPECT_EQ(server.requests()[1].headers.count("range"), 0u);
}

TEST_F(Pull, APartThatIsAlreadyWholeIsOnlyChecked) {
  const LocalServer server([&](const LocalRequest& asked) { return file_reply(asked, content_, kEtag); });
  const PullRequest wanted = request(server.url("/m.gguf"));
  ASSERT_TRUE(write_file(folder_.path("m.gguf.part"), content_).ok());
  const std::string note = cat(R"({"url":")", wanted.url, R"(","validator":"\"one\"")");
  ASSERT_TRUE(write_file(folder_.path("m.gguf.part.json"), note + "}").ok());  // its length unknown: answered by 416
  EXPECT_EQ(refusal(wanted), "pulled");
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(content("m.gguf"), content_);
}

TEST_F(Pull, APartLongerThanTheFileIsThrownAway) {
  const LocalServer server([&](const LocalRequest& asked) { return file_reply(asked, content_, kEtag); });
  PullRequest wanted = request(server.url("/m.gguf"));
  wanted.options.retries = 1;
  ASSERT_TRUE(write_file(folder_.path("m.gguf.part"), content_ + "more").ok());
  const std::string note = cat(R"({"url":")", wanted.url, R"(","validator":"\"one\"")");
  ASSERT_TRUE(write_file(folder_.path("m.gguf.part.json"), note + "}").ok());
  EXPECT_EQ(refusal(wanted), "pulled");
  EXPECT_EQ(content("m.gguf"), content_);
}

// ---- lies

TEST_F(Pull, AServerThatSaysTooMuchNeverGivesAFile) {
  const LocalServer server([&](const LocalRequest& asked) {
    LocalReply reply = file_reply(asked, content_, kEtag);
    reply.said_bytes = static_cast<int64_t>(reply.body.size()) + 1000;
    return reply;
  });
  PullRequest wanted = request(server.url("/m.gguf"));
  wanted.options.retries = 1;
  EXPECT_THAT(refusal(wanted), StartsWith(wanted.url + ": "));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("m.gguf")));
}

TEST_F(Pull, AServerThatSaysTooLittleIsFoundOutByTheDigest) {
  const LocalServer server([&](const LocalRequest& asked) {
    LocalReply reply = file_reply(asked, content_, kEtag);
    reply.said_bytes = 1000;
    return reply;
  });
  PullRequest wanted = request(server.url("/m.gguf"));
  wanted.sha256 = hex_of(content_);
  EXPECT_THAT(refusal(wanted), StartsWith(cat(wanted.url, ": SHA-256 is ", hex_of(content_.substr(0, 1000)))));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(Pull, BytesFromElsewhereAreRefused) {
  const LocalServer server([&](const LocalRequest& asked) {
    LocalReply reply = file_reply(asked, content_, kEtag);
    if (cut_) reply.headers[1] = cat("Content-Range: bytes 5-", content_.size() - 1, "/", content_.size());
    reply.sent_bytes = 100'000;
    cut_ = true;
    return reply;
  });
  const PullRequest wanted = request(server.url("/m.gguf"));
  EXPECT_THAT(refusal(wanted), EndsWith("goes on from there)"));
  EXPECT_EQ(refusal(wanted), wanted.url +
                                 ": the server sends bytes from 5: want them from 100000 (100.0 kB are kept: the same "
                                 "command goes on from there)");
  EXPECT_EQ(content("m.gguf.part"), content_.substr(0, 100'000));
}

TEST_F(Pull, AWebPageIsNoModel) {
  const LocalServer server([](const LocalRequest&) {
    LocalReply reply;
    reply.headers = {"Content-Type: text/html; charset=utf-8"};
    reply.body = "<html>";
    return reply;
  });
  EXPECT_EQ(refusal(request(server.url("/blob/main/m.gguf"))),
            server.url("/blob/main/m.gguf") + ": a web page: want the address of the file itself");
  EXPECT_THAT(files(), IsEmpty());
}

// ---- what servers say

TEST_F(Pull, EachStatusIsASentence) {
  int status = 0;
  const LocalServer server([&](const LocalRequest&) {
    LocalReply reply;
    reply.status = status;
    reply.body = "an explanation";
    return reply;
  });
  const std::string url = server.url("/m.gguf");
  const auto said = [&](int code) {
    status = code;
    return refusal(request(url));
  };
  EXPECT_EQ(said(404), url + ": not on the server (status 404)");
  EXPECT_EQ(said(403), url + ": the server refuses it (status 403)");
  EXPECT_EQ(said(500), url + ": the server fails (status 500)");
  EXPECT_EQ(said(429), url + ": the server fails (status 429)");
  EXPECT_EQ(said(418), url + ": status 418: want 200");
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(Pull, AFailingServerIsAskedAgainAMissingFileIsNot) {
  const LocalServer server(
      [](const LocalRequest& asked) { return LocalReply{asked.path == "/a" ? 503 : 404, {}, ""}; });
  PullRequest wanted = request(server.url("/a"));
  wanted.options.retries = 1;
  EXPECT_THAT(refusal(wanted), EndsWith("(status 503)"));
  EXPECT_EQ(server.requests().size(), 2u);
  wanted.url = server.url("/b");
  EXPECT_THAT(refusal(wanted), EndsWith("(status 404)"));
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST_F(Pull, RedirectsAreFollowedButNotForever) {
  const LocalServer server([&](const LocalRequest& asked) {
    if (asked.path == "/there") return file_reply(asked, content_, kEtag);
    const std::string to = asked.path == "/circle" ? "/circle"
                           : asked.path == "/file" ? "file:///etc/passwd"
                                                   : "/there";
    return LocalReply{302, {"Location: " + to}, "moved"};
  });
  EXPECT_EQ(refusal(request(server.url("/here"))), "pulled");
  EXPECT_EQ(content("here"), content_);
  EXPECT_EQ(refusal(request(server.url("/circle"))), server.url("/circle") + ": more than 10 redirects: want fewer");
  EXPECT_EQ(refusal(request(server.url("/file"))),
            server.url("/file") + ": redirects to another protocol: want http or https, and https to stay");
  EXPECT_THAT(files(), ElementsAre("here"));
}

TEST_F(Pull, FromHttpsOnlyToHttps) {
  EXPECT_STREQ(redirect_protocols("https"), "https");
  EXPECT_STREQ(redirect_protocols("http"), "http,https");
}

TEST_F(Pull, ASilentServerTimesOut) {
  const LocalServer server([&](const LocalRequest& asked) {
    LocalReply reply = file_reply(asked, content_, kEtag);
    reply.sent_bytes = 1000;
    reply.stalls = true;
    return reply;
  });
  PullRequest wanted = request(server.url("/m.gguf"));
  wanted.options.timeout_seconds = 1;
  EXPECT_THAT(refusal(wanted), StartsWith(wanted.url + ": the server says nothing for 1 s ("));
  EXPECT_EQ(content("m.gguf.part"), content_.substr(0, 1000));
}

TEST_F(Pull, NoServerIsASentence) {
  std::string url;
  {
    const LocalServer server([](const LocalRequest&) { return LocalReply(); });
    url = server.url("/m.gguf");
  }
  EXPECT_THAT(refusal(request(url)), StartsWith(url + ": Failed to connect to 127.0.0.1"));
  EXPECT_THAT(files(), IsEmpty());
}

// ---- names and disks

TEST_F(Pull, AUrlMustNameAFile) {
  for (const char* url :
       {"http://127.0.0.1:1/", "http://127.0.0.1:1", "http://127.0.0.1:1/a/", "http://127.0.0.1:1/a/..%2fb",
        "http://127.0.0.1:1/.bashrc", "http://127.0.0.1:1/a%2e%2e/%2e%2e"}) {
    EXPECT_EQ(refusal(request(url)), cat(url, ": names no file: want a URL that ends in a file's name"));
  }
  for (const char* url : {"", "m.gguf", "ftp://127.0.0.1/m.gguf", "file:///etc/passwd", "http://", "http://a/b%00c"})
    EXPECT_EQ(refusal(request(url)), cat(url, ": want a URL that begins with http:// or https://"));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(Pull, AFileThatIsThereIsNeverOverwritten) {
  const LocalServer server([&](const LocalRequest& asked) { return file_reply(asked, content_, kEtag); });
  PullRequest wanted = request(server.url("/m.gguf"));
  const std::string path = folder_.path("m.gguf");
  ASSERT_TRUE(write_file(path, "mine").ok());
  EXPECT_EQ(refusal(wanted), path + ": is there already: want another --to, or --sha256 to check it");
  wanted.sha256 = hex_of(content_);
  EXPECT_EQ(refusal(wanted), cat(path, ": is there already with SHA-256 ", hex_of("mine"), ": want ", wanted.sha256,
                                 " or another --to"));
  wanted.sha256 = hex_of("mine");
  EXPECT_EQ(refusal(wanted), "pulled");
  EXPECT_EQ(content("m.gguf"), "mine");
  EXPECT_THAT(server.requests(), IsEmpty());
}

TEST_F(Pull, TwoProcessesDoNotFetchTheSameFile) {
  const LocalServer server([&](const LocalRequest& asked) { return file_reply(asked, content_, kEtag); });
  const Result<PartFile> other = PartFile::open(folder_.path("m.gguf"));
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(refusal(request(server.url("/m.gguf"))),
            folder_.path("m.gguf.part") + ": another process is fetching it: want to be alone");
}

// Between opening a part and locking it another process may finish: the lock is then one on the finished file.
TEST_F(Pull, APartThatWasFinishedBeforeItsLockIsLeftWhole) {
  const std::string path = folder_.path("m.gguf");
  Result<PartFile> first = PartFile::open(path);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(first->restart({"http://127.0.0.1/m.gguf", kEtag, content_.size()}).ok());
  ASSERT_TRUE(first->append(std::as_bytes(std::span(content_))).ok());
  const Result<PartFile> second = PartFile::open(path, [&] { ASSERT_TRUE(first->commit().ok()); });
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().text, path + ".part: another process is fetching it: want to be alone");
  EXPECT_THAT(files(), ElementsAre("m.gguf"));
  EXPECT_EQ(content("m.gguf"), content_);
}

TEST_F(Pull, APartThatWasDroppedBeforeItsLockIsLeftToWhoBeganAnew) {
  const std::string path = folder_.path("m.gguf");
  Result<PartFile> first = PartFile::open(path);
  ASSERT_TRUE(first.ok());
  const auto begin_anew = [&] {
    first->discard();
    ASSERT_TRUE(write_file(path + ".part", "of a third process").ok());
    ASSERT_TRUE(write_file(path + ".part.json", "{}").ok());
  };
  const Result<PartFile> second = PartFile::open(path, begin_anew);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().text, path + ".part: another process is fetching it: want to be alone");
  EXPECT_THAT(files(), ElementsAre("m.gguf.part", "m.gguf.part.json"));
  EXPECT_EQ(content("m.gguf.part"), "of a third process");
}

// Between looking for the finished file and opening a part another process may have put it there.
TEST_F(Pull, AFileThatCameMeanwhileIsNotFetchedAgain) {
  const std::string path = folder_.path("m.gguf");
  const Result<PartFile> late = PartFile::open(path, [&] { ASSERT_TRUE(write_file(path, content_).ok()); });
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().text, path + ": another process has fetched it: want no second time");
  EXPECT_THAT(files(), ElementsAre("m.gguf"));
}

TEST_F(Pull, ADownloadLargerThanTheDiskIsNotBegun) {
  const LocalServer server([&](const LocalRequest& asked) {
    LocalReply reply = file_reply(asked, content_, kEtag);
    reply.said_bytes = int64_t{1} << 60;
    return reply;
  });
  PullRequest wanted = request(server.url("/m.gguf"));
  wanted.options.retries = 3;  // of no use here
  EXPECT_THAT(refusal(wanted), testing::MatchesRegex(".*/m.gguf: [0-9.]+ [kMGT]?B are free: want 1.2 EB"));
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_THAT(files(), IsEmpty());
}

// A limit on the size of files stands for the full disk: the same write fails.
TEST_F(Pull, AFullDiskKeepsThePartOfTheDownload) {
  const LocalServer server([&](const LocalRequest& asked) { return file_reply(asked, content_, kEtag); });
  PullRequest wanted = request(server.url("/m.gguf"));
  wanted.options.retries = 3;
  struct rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {200'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string said = refusal(wanted);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(said, folder_.path("m.gguf.part") +
                      ": cannot write: larger than files may be here (200.0 kB are kept: the same command goes on from "
                      "there)");
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(refusal(wanted), "pulled");
  EXPECT_EQ(content("m.gguf"), content_);
}

TEST_F(Pull, AFolderThatCannotBeMadeIsNamed) {
  ASSERT_TRUE(write_file(folder_.path("file"), "x").ok());
  PullRequest wanted = request("http://127.0.0.1:1/m.gguf");
  wanted.folder = folder_.path("file/below");
  EXPECT_EQ(refusal(wanted), wanted.folder + ": cannot create: Not a directory");
}

// ---- heads

TEST(HttpReply, ContentRangesAreRead) {
  const auto read = [](std::string_view value) {
    HttpReply reply;
    read_content_range(value, reply);
    return reply;
  };
  EXPECT_EQ(read("bytes 5-9/10").range_from, 5u);
  EXPECT_EQ(read("bytes 5-9/10").range_total, 10u);
  EXPECT_EQ(read("bytes */10").range_from, std::nullopt);
  EXPECT_EQ(read("bytes */10").range_total, 10u);
  EXPECT_EQ(read("bytes 0-9/*").range_total, std::nullopt);
  for (const char* value : {"", "bytes", "bytes ", "pages 1-2/3", "bytes -5-9/-10", "/"}) {
    EXPECT_EQ(read(value).range_from, std::nullopt) << value;
    EXPECT_EQ(read(value).range_total, std::nullopt) << value;
  }
}

TEST(ParseUrl, GivesHostAndPath) {
  const Result<Url> url = parse_url("https://Example.org:443/v2/a%20b/c?x=/y#z");
  ASSERT_TRUE(url.ok()) << url.error().text;
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->host, "example.org");
  EXPECT_THAT(url->path, ElementsAre("v2", "a b", "c"));
  EXPECT_EQ(parse_url("http://localhost:8080/")->host, "localhost:8080");
}

}  // namespace
}  // namespace sluice
