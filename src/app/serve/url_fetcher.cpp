#include "app/serve/url_fetcher.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "app/files/http.h"
#include "base/text.h"
#include "serve/access_rules.h"

namespace sluice {
namespace {

constexpr int kMaxRedirects = 3;
constexpr size_t kMostUrlBytes = 4096;

struct Range4 {
  uint8_t a, b, c;
  int bits;  // of the prefix
};
constexpr Range4 kSpecial4[] = {{0, 0, 0, 8},      {10, 0, 0, 8},     {100, 64, 0, 10}, {127, 0, 0, 8},
                                {169, 254, 0, 16}, {172, 16, 0, 12},  {192, 0, 0, 24},  {192, 0, 2, 24},
                                {192, 88, 99, 24}, {192, 168, 0, 16}, {198, 18, 0, 15}, {198, 51, 100, 24},
                                {203, 0, 113, 24}, {224, 0, 0, 4},    {240, 0, 0, 4}};

bool is_public4(uint32_t address) {
  for (const Range4& range : kSpecial4) {
    const uint32_t prefix = uint32_t{range.a} << 24 | uint32_t{range.b} << 16 | uint32_t{range.c} << 8;
    if ((address ^ prefix) >> (32 - range.bits) == 0) return false;
  }
  return true;
}

uint32_t word_at(const in6_addr& address, size_t byte) {
  uint32_t word = 0;
  std::memcpy(&word, address.s6_addr + byte, sizeof word);
  return ntohl(word);
}

// Of the unicast addresses in use, 2000::/3, but those that stand for other addresses.
bool is_public6(const in6_addr& address) {
  const uint32_t first = word_at(address, 0);
  const bool is_mapped = first == 0 && word_at(address, 4) == 0 && word_at(address, 8) == 0xffff;
  const bool is_translated = first == 0x64ff9b && word_at(address, 4) == 0 && word_at(address, 8) == 0;
  if (is_mapped || is_translated) return is_public4(word_at(address, 12));
  if (first >> 29 != 1) return false;
  if (first >> 16 == 0x2002) return false;  // 6to4
  return (first >> 9) != (0x20010000U >> 9) && first != 0x20010db8U &&
         first >> 12 != 0x3fff0;  // protocols, documentation
}

bool is_loopback_address(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr) != 0;
}

// "example.org:80" -> "example.org", "[::1]:80" -> "::1".
std::string name_of(const std::string& host) {
  if (starts_with(host, "[")) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_address(const std::string& name) {
  in6_addr ignored = {};
  return inet_pton(AF_INET, name.c_str(), &ignored) == 1 || inet_pton(AF_INET6, name.c_str(), &ignored) == 1;
}

// The port behind a host's name, if it has one.
std::optional<uint16_t> port_of(std::string_view host) {
  const size_t colon = host.rfind(':');
  if (colon == std::string_view::npos || host.find(']', colon) != std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> port = parse_integer(host.substr(colon + 1));
  return port && *port > 0 && *port <= UINT16_MAX ? std::optional(static_cast<uint16_t>(*port)) : std::nullopt;
}

// An address that the user has named is what curl connects to; a name of this machine may lead to nothing else.
std::function<bool(const sockaddr&)> addresses_of(const std::string& host) {
  const std::string name = name_of(host);
  if (is_address(name)) return [](const sockaddr&) { return true; };
  if (is_loopback(name)) return is_loopback_address;
  return is_public_address;
}

class Taken final : public HttpBody {
 public:
  Taken(const std::string& url, const FetchTerms& terms) : url_(url), terms_(terms) {}

  Status begin(const HttpReply& reply) override { return make_room(reply.body_bytes.value_or(0)); }
  Status take(std::span<const std::byte> piece) override {
    TRY_STATUS(make_room(bytes.size() + piece.size()));
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return {};
  }

  std::string bytes;

 private:
  Status make_room(uint64_t size) {
    if (size > kMostFetchedBytes)
      return error(ErrorKind::unsupported, printable(url_, 200), ": is larger than ", format_bytes(kMostFetchedBytes),
                   ": want a smaller file");
    if (size <= bytes.capacity()) return {};
    const uint64_t most = std::min(std::max<uint64_t>(size, 2 * bytes.capacity()), kMostFetchedBytes);
    TRY_STATUS(terms_.has_room(most));
    bytes.reserve(most);
    return {};
  }

  const std::string& url_;
  const FetchTerms& terms_;
};

}  // namespace

bool is_public_address(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return is_public4(ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr));
  return address.sa_family == AF_INET6 && is_public6(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

Result<std::unique_ptr<UrlFetcher>> UrlFetcher::create(const std::vector<std::string>& hosts) {
  auto fetcher = std::make_unique<UrlFetcher>();
  for (const std::string& host : hosts) {
    const auto malformed = error(ErrorKind::invalid, "--allow-urls ", printable(host),
                                 ": want a host such as example.org or example.org:8443");
    const Result<Url> url = parse_url("http://" + host + "/");
    const bool has_more = host.find_first_of("/?#@\\* ") != std::string::npos;
    if (!url || has_more || url->host.empty()) return malformed;
    fetcher->sites_.push_back({.name = name_of(url->host), .port = port_of(host)});
  }
  return fetcher;
}

Result<std::string> UrlFetcher::fetch(const std::string& url, const FetchTerms& terms) const {
  std::string next = url;
  bool is_https = false;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    if (next.size() > kMostUrlBytes)
      return error(ErrorKind::invalid, "the URL has ", next.size(), " bytes: want at most ", kMostUrlBytes);
    TRY(const Url parts, parse_url(next));
    const uint16_t usual = parts.scheme == "https" ? 443 : 80;
    const auto is_it = [&, name = name_of(parts.host), port = port_of(parts.host).value_or(usual)](const Site& site) {
      return site.name == name && site.port.value_or(usual) == port;
    };
    if (std::ranges::none_of(sites_, is_it))
      return error(ErrorKind::invalid, printable(next, 200), ": the server fetches nothing from ",
                   printable(parts.host), ": want a host that --allow-urls names");
    if (is_https && parts.scheme != "https")
      return error(ErrorKind::invalid, printable(url, 200), ": redirects from https to http: want https to stay");
    is_https = parts.scheme == "https";
    const double seconds = std::chrono::duration<double>(terms.end - std::chrono::steady_clock::now()).count();
    if (seconds <= 0)
      return error(ErrorKind::io, printable(next, 200), ": takes longer than the time that is left for it");
    const HttpBounds bounds{.allows = addresses_of(parts.host), .seconds = seconds};
    Taken taken(next, terms);
    HttpRequest request;
    request.url = next;
    request.stop = terms.gone;
    request.bounds = &bounds;
    TRY(const HttpReply reply, http_get(request, taken));
    if (reply.redirect.empty()) return std::move(taken.bytes);
    next = reply.redirect;
  }
  return error(ErrorKind::invalid, printable(url, 200), ": more than ", kMaxRedirects, " redirects: want fewer");
}

}  // namespace sluice
