// MediaFetcher: pictures that requests name by their URL. The program gives the server one where --allow-urls names
// hosts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace sluice {

// The longest that the fetches of one request may take together.
inline constexpr std::chrono::seconds kFetchSeconds{10};

struct FetchTerms {
  std::chrono::steady_clock::time_point end;
  const std::atomic<bool>* gone = nullptr;         // set when the client has left; may be null
  std::function<Status(uint64_t bytes)> has_room;  // asked before so many bytes are held
};

class MediaFetcher {
 public:
  virtual ~MediaFetcher() = default;
  // The bytes behind a URL. Cancelled when the client has left or the program is about to end; other errors are one
  // sentence about the URL. Any thread may call it.
  virtual Result<std::string> fetch(const std::string& url, const FetchTerms& terms) const = 0;
};

// How a request's URLs are fetched.
struct RemoteMedia {
  const MediaFetcher* fetcher = nullptr;    // null: they are refused
  const std::atomic<bool>* gone = nullptr;  // as FetchTerms::gone
};

}  // namespace sluice
