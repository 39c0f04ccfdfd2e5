// The web page that the server offers: its files, their headers, and that a request reaches no other file. 0.1 s, in
// make test.
#include "serve/site_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// A page in a folder of its own, with a file beside the folder that nobody may read.
class Page {
 public:
  Page() : root_(fs::temp_directory_path() / cat("sluice_page_", ::getpid())) {
    fs::create_directories(folder() / "assets");
    write(root_ / "secret.txt", "secret");
    write(folder() / "index.html", "<p>page");
    write(folder() / ".hidden", "hidden");
    write(folder() / "assets" / "engine-1.wasm", std::string("\0asm", 4));
  }
  ~Page() { fs::remove_all(root_); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  fs::path folder() const { return root_ / "web"; }

 private:
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  fs::path root_;
};

TEST(SiteFiles, FilesComeWithTheirTypesAndThePagesPolicy) {
  const Page page;
  const SiteFiles files = unwrap(SiteFiles::read(page.folder().string()));
  EXPECT_EQ(files.bytes(), 11);
  const TestServer server({.page = &files});
  const TestReply index = get(server, "/", "Accept: text/html,*/*\r\n");
  EXPECT_EQ(index.status, 200);
  EXPECT_EQ(index.body, "<p>page");
  EXPECT_EQ(index.header("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(index.header("cache-control"), "no-cache");
  EXPECT_EQ(index.header("cross-origin-opener-policy"), "same-origin");
  EXPECT_EQ(index.header("cross-origin-embedder-policy"), "require-corp");
  EXPECT_EQ(index.header("content-security-policy"), "frame-ancestors 'none'");
  const TestReply module = get(server, "/assets/engine-1.wasm");
  EXPECT_EQ(module.body, std::string("\0asm", 4));
  EXPECT_EQ(module.header("content-type"), "application/wasm");
  EXPECT_EQ(module.header("cache-control"), "public, max-age=31536000, immutable");
}

TEST(SiteFiles, AClientThatHasAFileDoesNotGetItAgain) {
  const Page page;
  const SiteFiles files = unwrap(SiteFiles::read(page.folder().string()));
  const TestServer server({.page = &files});
  const TestReply first = get(server, "/index.html");
  const TestReply second = get(server, "/index.html", cat("If-None-Match: ", first.header("etag"), "\r\n"));
  EXPECT_EQ(second.status, 304);
  EXPECT_EQ(second.body, "");
  EXPECT_EQ(get(server, "/index.html", "If-None-Match: \"other\"\r\n").body, "<p>page");
}

TEST(SiteFiles, ARequestReachesNoOtherFile) {
  const Page page;
  const SiteFiles files = unwrap(SiteFiles::read(page.folder().string()));
  const TestServer server({.page = &files});
  for (const char* path : {"/../secret.txt", "/assets/../../secret.txt", "/%2e%2e/secret.txt", "//index.html",
                           "/.hidden", "/assets", "/assets/", "/index.html%00", "/secret.txt"})
    EXPECT_EQ(get(server, path).status, 404) << path;
}

TEST(SiteFiles, ProgramsStillLearnThatAServerRuns) {
  const Page page;
  const SiteFiles files = unwrap(SiteFiles::read(page.folder().string()));
  const TestServer server({.page = &files});
  EXPECT_EQ(get(server, "/", "Accept: */*\r\n").body, "Sluice is running\n");
  EXPECT_THAT(get(server, "/v1/models").body, HasSubstr("demo"));
}

TEST(SiteFiles, ThePageNeedsNoKeyButAnAllowedHost) {
  const Page page;
  const SiteFiles files = unwrap(SiteFiles::read(page.folder().string()));
  const TestServer server({.access = {.keys = {"correct-horse"}}, .page = &files});
  EXPECT_EQ(get(server, "/index.html").status, 200);
  EXPECT_EQ(get(server, "/v1/models").status, 401);
  TestClient other(server.port());
  other.send("GET /index.html HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(other.read().status, 403);
}

TEST(SiteFiles, AHeadHasTheLengthAlone) {
  const Page page;
  const SiteFiles files = unwrap(SiteFiles::read(page.folder().string()));
  const TestServer server({.page = &files});
  TestClient client(server.port());
  client.send(request_text("HEAD", "/index.html") + request_text("GET", "/index.html"));
  EXPECT_EQ(client.read(/*has_body=*/false).header("content-length"), "7");
  EXPECT_EQ(client.read().body, "<p>page");
}

TEST(SiteFiles, AFolderWithoutAPageIsRefused) {
  const Page page;
  const std::string folder = (page.folder() / "assets").string();
  EXPECT_EQ(SiteFiles::read(folder).error().text, folder + ": has no index.html: want the folder of a built page");
  EXPECT_FALSE(SiteFiles::read(folder + "/none").ok());
}

}  // namespace
}  // namespace sluice
