// Fetches one file over HTTP: goes on where an earlier attempt or process stopped, checks length and SHA-256, and lets
// the finished name appear only when all of it is right. A part whose digest is wrong is thrown away.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/progress.h"
#include "base/result.h"

namespace sluice {

struct FetchOptions {
  uint32_t timeout_seconds = 60;  // without a byte
  uint32_t retries = 5;           // in a row without getting further, after failures that may pass
};

struct DownloadRequest {
  std::string url;
  std::string path;               // the finished file; its folder is there
  std::string sha256;             // 64 digits; "": unknown
  std::optional<uint64_t> bytes;  // what it must have; nothing: unknown
  FetchOptions options;
};

struct Downloaded {
  uint64_t bytes = 0;
  uint64_t fetched = 0;  // of them in this call, the rest was there
  std::string sha256;    // of the whole
};

Result<Downloaded> download(const DownloadRequest& request, ProgressLine& progress);

// The SHA-256 of a file that is there.
Result<std::string> file_sha256(const std::string& path, ProgressLine& progress);

// A small document of at most `limit` bytes, tried again as downloads are.
Result<std::string> fetch_text(const std::string& url, const std::vector<std::string>& headers, uint64_t limit,
                               const FetchOptions& options);

}  // namespace sluice
