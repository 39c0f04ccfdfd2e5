#include "app/files/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <memory>

#include "app/cli/environment.h"
#include "app/cli/interrupt.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr long kMaxRedirects = 10;
constexpr long kMaxConnectSeconds = 30;
constexpr uint64_t kMostWaitSeconds = 300;  // of what a server asks for
constexpr long kOk = 200, kPartial = 206, kRangeNotSatisfiable = 416;

using Clock = std::chrono::steady_clock;
using Handle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;
using UrlHandle = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

std::optional<uint64_t> parse_size(std::string_view text) {
  const std::optional<int64_t> size = parse_integer(text);
  return size && *size >= 0 ? std::optional<uint64_t>(static_cast<uint64_t>(*size)) : std::nullopt;
}

// One transfer; curl calls back into it.
class Transfer {
 public:
  Transfer(const HttpRequest& request, HttpBody& body) : request_(request), body_(body) {}

  Result<HttpReply> run();

 private:
  static size_t on_header(char* line, size_t size, size_t count, void* self);
  static size_t on_body(char* bytes, size_t size, size_t count, void* self);
  static curl_socket_t on_socket(void* self, curlsocktype, curl_sockaddr* address);
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);

  void set_up(CURL* curl, const Headers& headers);
  void set_bounds(CURL* curl);
  Headers header_list() const;
  void take_header(std::string_view line);
  Status take_body(std::span<const std::byte> piece);
  bool wants_body() const { return reply_.status == kOk || reply_.status == kPartial; }
  Status begin();
  Error transport_error(CURLcode code) const;
  Status check_status() const;

  const HttpRequest& request_;
  HttpBody& body_;
  HttpReply reply_;
  bool begun_ = false;
  bool silent_ = false;
  bool is_refused_ = false;                      // an address was
  UrlHandle url_{curl_url(), curl_url_cleanup};  // of a bounded request
  Clock::time_point heard_ = Clock::now();
  Status failed_;  // of the body's taker
  char detail_[CURL_ERROR_SIZE] = {};
};

size_t Transfer::on_header(char* line, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.take_header({line, size * count});
  transfer.heard_ = Clock::now();
  return size * count;
}

size_t Transfer::on_body(char* bytes, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.failed_ = transfer.take_body(std::as_bytes(std::span(bytes, size * count)));
  transfer.heard_ = Clock::now();  // the disk's time is not the server's
  return transfer.failed_ ? size * count : CURL_WRITEFUNC_ERROR;
}

curl_socket_t Transfer::on_socket(void* self, curlsocktype, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.request_.bounds->allows(address->addr))
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  transfer.is_refused_ = true;
  return CURL_SOCKET_BAD;
}

// About once a second. curl's own limit on slowness looks at an average over several seconds.
int Transfer::on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.silent_ = Clock::now() - transfer.heard_ > std::chrono::seconds(transfer.request_.timeout_seconds);
  return transfer.silent_ || interrupted(transfer.request_.stop) ? 1 : 0;
}

void Transfer::take_header(std::string_view line) {
  line = trimmed(line);
  if (starts_with(line, "HTTP/")) {
    reply_ = {};  // of the next reply, after a redirect
    const size_t space = line.find(' ');
    const auto status = space == std::string_view::npos ? std::nullopt : parse_size(line.substr(space + 1, 3));
    reply_.status = static_cast<int>(status.value_or(0));
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string name = lower(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "etag")
    reply_.etag = value;
  else if (name == "last-modified")
    reply_.last_modified = value;
  else if (name == "content-type")
    reply_.content_type = lower(value);
  else if (name == "content-length")
    reply_.body_bytes = parse_size(value);
  else if (name == "content-range")
    read_content_range(value, reply_);
  else if (name == "retry-after" && request_.retry_after != nullptr)
    *request_.retry_after = static_cast<uint32_t>(std::min(parse_size(value).value_or(0), kMostWaitSeconds));
}

Status Transfer::begin() {
  begun_ = true;
  return body_.begin(reply_);
}

Status Transfer::take_body(std::span<const std::byte> piece) {
  if (!wants_body()) return {};
  if (!begun_) TRY_STATUS(begin());
  return body_.take(piece);
}

Headers Transfer::header_list() const {
  std::vector<std::string> lines = request_.headers;
  if (request_.from > 0 && !request_.if_range.empty()) lines.push_back("If-Range: " + request_.if_range);
  curl_slist* list = nullptr;
  for (const std::string& line : lines) list = curl_slist_append(list, line.c_str());
  return {list, curl_slist_free_all};
}

void Transfer::set_up(CURL* curl, const Headers& headers) {
  const auto timeout = static_cast<long>(request_.timeout_seconds);
  const std::string range = cat(request_.from, '-');
  const bool https = starts_with(lower(request_.url), "https:");
  curl_easy_setopt(curl, CURLOPT_URL, request_.url.c_str());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "sluice");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, redirect_protocols(https ? "https" : "http"));
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, kMaxRedirects);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, std::min(timeout, kMaxConnectSeconds));
  curl_easy_setopt(curl, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
  if (const std::string netrc = netrc_variable(); !netrc.empty())
    curl_easy_setopt(curl, CURLOPT_NETRC_FILE, netrc.c_str());  // copied
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail_);
  if (request_.from > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());  // copied
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, this);
}

// Both parsers of the URL, this one's and the one that told its host, are parse_url()'s.
void Transfer::set_bounds(CURL* curl) {
  curl_easy_setopt(curl, CURLOPT_URL, nullptr);
  curl_easy_setopt(curl, CURLOPT_CURLU, url_.get());
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(request_.bounds->seconds * 1000) + 1);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, &Transfer::on_socket);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, this);
}

Error Transfer::transport_error(CURLcode code) const {
  const std::string& url = request_.url;
  if (is_refused_)
    return error(ErrorKind::invalid, url, ": leads to an address of this machine or its network: want a public one");
  if (request_.bounds != nullptr && code == CURLE_OPERATION_TIMEDOUT)
    return error(ErrorKind::io, url, ": takes longer than the time that is left for it");
  if (silent_ || code == CURLE_OPERATION_TIMEDOUT)
    return error(ErrorKind::io, url, ": the server says nothing for ", request_.timeout_seconds, " s");
  switch (code) {
    case CURLE_ABORTED_BY_CALLBACK: return error(ErrorKind::cancelled, url, ": stopped");
    case CURLE_TOO_MANY_REDIRECTS:
      return error(ErrorKind::invalid, url, ": more than ", kMaxRedirects, " redirects: want fewer");
    case CURLE_UNSUPPORTED_PROTOCOL:
      return error(ErrorKind::invalid, url, ": redirects to another protocol: want http or https, and https to stay");
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR: return error(ErrorKind::io, url, ": the connection ends before the file does");
    case CURLE_OUT_OF_MEMORY: return error(ErrorKind::out_of_memory, url, ": out of memory");
    default: break;
  }
  return error(ErrorKind::io, url, ": ", detail_[0] != '\0' ? detail_ : curl_easy_strerror(code));
}

Status Transfer::check_status() const {
  const std::string& url = request_.url;
  const int status = reply_.status;
  if (!reply_.redirect.empty()) return {};
  switch (status) {
    case kOk:
    case kPartial:
    case kRangeNotSatisfiable: return {};
    case 401:
    case 403:
    case 407: return error(ErrorKind::invalid, url, ": the server refuses it (status ", status, ")");
    case 404:
    case 410: return error(ErrorKind::not_found, url, ": not on the server (status ", status, ")");
    default: break;
  }
  if (status == 429 || status >= 500) return error(ErrorKind::io, url, ": the server fails (status ", status, ")");
  return error(ErrorKind::unsupported, url, ": status ", status, ": want 200");
}

Result<HttpReply> Transfer::run() {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  const Handle curl(curl_easy_init(), curl_easy_cleanup);
  if (ready != CURLE_OK || curl == nullptr)
    return error(ErrorKind::out_of_memory, request_.url, ": cannot set up libcurl");
  const Headers headers = header_list();
  set_up(curl.get(), headers);
  if (request_.bounds != nullptr) {
    if (url_ == nullptr ||
        curl_url_set(url_.get(), CURLUPART_URL, request_.url.c_str(), CURLU_DISALLOW_USER) != CURLUE_OK)
      return error(ErrorKind::invalid, request_.url, ": want a URL without a login");
    set_bounds(curl.get());
  }
  const CURLcode code = curl_easy_perform(curl.get());
  TRY_STATUS(failed_);
  if (code != CURLE_OK) return transport_error(code);
  char* redirect = nullptr;
  if (request_.bounds != nullptr && curl_easy_getinfo(curl.get(), CURLINFO_REDIRECT_URL, &redirect) == CURLE_OK &&
      redirect != nullptr)
    reply_.redirect = redirect;
  TRY_STATUS(check_status());
  if (wants_body() && !begun_) TRY_STATUS(begin());
  return std::move(reply_);
}

// A part of a URL; "" when it has none.
std::string url_part(CURLU* url, CURLUPart part, unsigned flags) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  std::string copy = text;
  curl_free(text);
  return copy;
}

// %20 and the like; nothing when that leaves control characters.
std::optional<std::string> decoded(const std::string& part) {
  int bytes = 0;
  const std::unique_ptr<char, decltype(&curl_free)> text(
      curl_easy_unescape(nullptr, part.c_str(), static_cast<int>(part.size()), &bytes), curl_free);
  if (text == nullptr) return std::nullopt;
  std::string out(text.get(), static_cast<size_t>(bytes));
  const bool control = std::any_of(out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return control ? std::nullopt : std::optional(std::move(out));
}

}  // namespace

const char* redirect_protocols(std::string_view scheme) { return scheme == "https" ? "https" : "http,https"; }

void read_content_range(std::string_view value, HttpReply& reply) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t slash = value.find('/');
  if (!starts_with(lower(value.substr(0, kUnit.size())), kUnit) || slash == std::string_view::npos) return;
  reply.range_total = parse_size(value.substr(slash + 1));
  const std::string_view range = value.substr(kUnit.size(), slash - kUnit.size());
  reply.range_from = parse_size(range.substr(0, range.find('-')));
}

Result<HttpReply> http_get(const HttpRequest& request, HttpBody& body) { return Transfer(request, body).run(); }

Result<Url> parse_url(const std::string& url) {
  const UrlHandle handle(curl_url(), curl_url_cleanup);
  const Error malformed =
      error(ErrorKind::invalid, printable(url, 200), ": want a URL that begins with http:// or https://");
  if (handle == nullptr || curl_url_set(handle.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return malformed;
  Url parts;
  parts.scheme = url_part(handle.get(), CURLUPART_SCHEME, 0);
  if (parts.scheme != "http" && parts.scheme != "https") return malformed;
  const std::string port = url_part(handle.get(), CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
  parts.host = lower(url_part(handle.get(), CURLUPART_HOST, 0)) + (port.empty() ? "" : ":" + port);
  for (const std::string& part : split(url_part(handle.get(), CURLUPART_PATH, 0).substr(1), '/')) {
    std::optional<std::string> plain = decoded(part);
    if (!plain) return malformed;
    parts.path.push_back(*std::move(plain));
  }
  return parts;
}

}  // namespace sluice
