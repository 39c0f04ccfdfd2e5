// UrlFetcher: pictures by http and https from hosts that the program's user has named (--allow-urls), for requests of
// strangers (server-side request forgery: OWASP's sheet
// https://cheatsheetseries.owasp.org/cheatsheets/Server_Side_Request_Forgery_Prevention_Cheat_Sheet.html).
//
// - A URL's host and port must be one of those named, and so must those of each redirect, of at most three.
// - The address that a name stands for is checked when it is connected to, so a second look-up cannot change it
//   (DNS rebinding). Addresses of this machine and of private networks are refused, unless the user named the address
//   itself, or localhost for this machine.
// - No proxy, login or cookie is used.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/media_fetcher.h"

namespace sluice {

// Of one file, as of a whole body.
inline constexpr uint64_t kMostFetchedBytes = 32 << 20;

class UrlFetcher final : public MediaFetcher {
 public:
  // `hosts`: "example.org", with the port that the scheme has, or "example.org:8443".
  static Result<std::unique_ptr<UrlFetcher>> create(const std::vector<std::string>& hosts);

  Result<std::string> fetch(const std::string& url, const FetchTerms& terms) const override;

 private:
  struct Site {
    std::string name;
    std::optional<uint16_t> port;  // none: that of the URL's scheme
  };
  std::vector<Site> sites_;
};

// Whether the address is one of the internet at large: not of this machine, a private or local network, a group, or of
// documentation (https://www.iana.org/assignments/iana-ipv4-special-registry, iana-ipv6-special-registry).
bool is_public_address(const sockaddr& address);

}  // namespace sluice
