// Fetches one file over HTTP. It continues where an earlier attempt or process stopped, and checks length and SHA-256.
// The finished name appears only when both are right. A part with a wrong digest is thrown away.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/progress.h"
#include "base/result.h"

namespace sluice {

struct FetchOptions {
  uint32_t timeout_seconds = 60;  // without a byte
  uint32_t retries = 5;           // attempts in a row that bring no byte, after failures that may be temporary
  const std::atomic<bool>* stop = nullptr;  // set by another thread, ends the transfer as Ctrl-C does; may be null
};

struct DownloadRequest {
  std::string url;
  std::string path;               // the finished file; its folder must exist
  std::string sha256;             // 64 digits; "": unknown
  std::optional<uint64_t> bytes;  // the length that it must have; none: unknown
  FetchOptions options;
  std::vector<std::string> headers = {};
};

struct Downloaded {
  uint64_t bytes = 0;
  uint64_t fetched = 0;  // bytes of this call; the rest was there before
  std::string sha256;    // of the whole file
};

Result<Downloaded> download(const DownloadRequest& request, ShownProgress& progress);

// The SHA-256 of an existing file. `stop` as that of FetchOptions.
Result<std::string> file_sha256(const std::string& path, ShownProgress& progress,
                                const std::atomic<bool>* stop = nullptr);

// Fetches a small document of at most `limit` bytes, with the retries of downloads.
Result<std::string> fetch_text(const std::string& url, const std::vector<std::string>& headers, uint64_t limit,
                               const FetchOptions& options);

}  // namespace sluice
