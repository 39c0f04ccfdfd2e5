#include "serve/access_rules.h"

#include <algorithm>

#include "base/text.h"

namespace sluice {
namespace {

constexpr size_t kLeastKeyBytes = 8;

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

// "localhost:8080" -> "localhost", "[::1]:8080" -> "::1".
std::string host_name(std::string_view host) {
  if (starts_with(host, "[")) return lower(host.substr(1, host.find(']') - 1));
  return lower(host.substr(0, host.find(':')));
}

bool is_address(std::string_view host) {
  if (host.find(':') != std::string_view::npos) return true;  // of IPv6: no name has a colon
  return !host.empty() && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

// Takes the same time wherever the two differ.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < b.size(); ++i)
    different |= static_cast<unsigned char>(a.empty() ? 0 : a[i % a.size()]) ^ static_cast<unsigned char>(b[i]);
  return different == 0;
}

std::string_view given_key(const ServerRequest& request) {
  constexpr std::string_view kBearer = "bearer ";
  if (const std::string* header = request.header("authorization"))
    if (lower(header->substr(0, kBearer.size())) == kBearer) return std::string_view(*header).substr(kBearer.size());
  const std::string* header = request.header("x-api-key");
  return header == nullptr ? std::string_view() : std::string_view(*header);
}

}  // namespace

bool is_loopback(std::string_view host) {
  const std::string name = lower(host);
  return name == "localhost" || ends_with(name, ".localhost") || name == "::1" ||
         (starts_with(name, "127.") && is_address(name));
}

std::optional<Refusal> AccessRules::refuse(const ServerRequest& request, bool is_public) const {
  const std::string* host = request.header("host");
  const std::string name = host == nullptr ? "" : host_name(*host);
  const auto is_named = [&](const std::string& one) { return std::ranges::find(hosts, one) != hosts.end(); };
  if (!request.is_local && !is_address(name) && !is_loopback(name) && !is_named(name))
    return Refusal{.status = 403,
                   .message = cat("host ", printable(name), " is not allowed: want --allow-host for it")};
  if (const std::string* origin = request.header("origin")) {
    const size_t scheme = origin->find("://");
    const std::string_view site = scheme == std::string::npos ? "" : std::string_view(*origin).substr(scheme + 3);
    const bool same = host != nullptr && lower(site) == lower(*host);
    const std::string page = host_name(site);
    if (!same && !is_loopback(page) && !is_named(page))
      return Refusal{.status = 403,
                     .message = cat("origin ", printable(*origin), " is not allowed: want --allow-host for its host")};
  }
  if (is_public || client_of(request)) return std::nullopt;
  return Refusal{.status = 401,
                 .message = given_key(request).empty() ? "the request has no API key: want Authorization: Bearer KEY"
                                                       : "the request's API key is not known",
                 .code = "invalid_api_key"};
}

// Compares with all keys, so that the time does not tell which one is near.
std::optional<size_t> AccessRules::client_of(const ServerRequest& request) const {
  if (keys.empty()) return 0;
  const std::string_view given = given_key(request);
  std::optional<size_t> client;
  for (size_t i = 0; i < keys.size(); ++i)
    if (equal_in_constant_time(given, keys[i])) client = i;
  return client;
}

Result<std::vector<std::string>> read_keys(std::string_view text, std::string_view where) {
  std::vector<std::string> keys;
  for (std::string& line : split(text, '\n')) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    const bool printable_key = std::ranges::all_of(line, [](char c) { return c > ' ' && c <= '~'; });
    if (line.size() < kLeastKeyBytes || !printable_key)
      return error(ErrorKind::invalid, where, ": a key is short or has blanks: want at least ", kLeastKeyBytes,
                   " letters and digits");
    keys.push_back(std::move(line));
  }
  if (keys.empty()) return error(ErrorKind::invalid, where, ": has no key: want one a line");
  return keys;
}

std::vector<HttpHeader> cors_headers(const ServerRequest& request) {
  const std::string* origin = request.header("origin");
  if (origin == nullptr) return {};
  return {{"access-control-allow-origin", *origin},
          {"access-control-expose-headers", "x-sluice-ignored, retry-after, request-id"},
          {"vary", "origin"}};
}

}  // namespace sluice
