// HTTP and HTTPS GET over libcurl, which no other file uses. Each failure is one sentence that begins with the URL.
//
// Source: RFC 9110 (https://www.rfc-editor.org/rfc/rfc9110), sections 13.1.5 (If-Range) and 14 (ranges). Redirects are
// followed, from https to https only; certificates are checked; proxies are those of curl's environment variables. A
// host that ~/.netrc names gets the login there. Headers and logins go to no other host that a redirect leads to.
// Transfers with HttpBounds do without redirects, proxies and logins.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

// For a URL that a stranger has given. It may have no login.
struct HttpBounds {
  // Asked of the address itself before each connection, so that no second look-up of the name can change it.
  std::function<bool(const sockaddr& address)> allows;
  double seconds = 0;  // for the whole transfer
};

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;  // "Accept: text/plain"
  uint64_t from = 0;                 // asks for the bytes from here to the end
  std::string if_range;              // the ETag or date of the existing part; "": none
  uint32_t timeout_seconds = 60;     // without a byte
  uint32_t* retry_after = nullptr;   // gets the seconds that a server asks to wait for before the next try; may be null
  const std::atomic<bool>* stop = nullptr;  // set by another thread, ends the transfer as Ctrl-C does; may be null
  const HttpBounds* bounds = nullptr;       // null: none
};

// The head of the last reply, after redirects.
struct HttpReply {
  int status = 0;        // 200, 206 or 416, with bounds also a redirect; all others are errors
  std::string redirect;  // with bounds: the URL that the reply leads to, whole; "": none
  std::string etag, last_modified, content_type;
  std::optional<uint64_t> body_bytes;  // Content-Length
  // From Content-Range: the first byte (206) and the size of the whole, if given.
  std::optional<uint64_t> range_from, range_total;
};

// Takes the body of a reply with status 200 or 206. An error ends the transfer, and http_get returns it.
class HttpBody {
 public:
  virtual ~HttpBody() = default;
  virtual Status begin(const HttpReply& reply) = 0;  // once, before the first piece, also of an empty body
  virtual Status take(std::span<const std::byte> piece) = 0;
};

// Ends with kind cancelled after Ctrl-C (interrupt.h). Kind io: trying again may help.
Result<HttpReply> http_get(const HttpRequest& request, HttpBody& body);

struct Url {
  std::string scheme;             // "http" or "https"
  std::string host;               // with its port, unless that is the scheme's; IPv6 addresses in brackets
  std::vector<std::string> path;  // parts, decoded
};
Result<Url> parse_url(const std::string& url);
// The protocols that a redirect may lead to, as curl takes them: "https" stays https.
const char* redirect_protocols(std::string_view scheme);

// Reads "bytes 5-9/10" or "bytes */10" into the reply. Anything else is ignored.
void read_content_range(std::string_view value, HttpReply& reply);

}  // namespace sluice
