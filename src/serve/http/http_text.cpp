#include "serve/http/http_text.h"

#include <ctime>

#include "base/text.h"

namespace sluice {
namespace {

std::string date_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  char text[40];
  const size_t length = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return {text, length};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    default: return "Status";
  }
}

std::string head_text(const ServerReply& reply, BodyForm form, size_t body_bytes, bool keeps_alive) {
  std::string text = cat("HTTP/1.1 ", reply.status, ' ', reason_phrase(reply.status), "\r\ndate: ", date_text(),
                         "\r\nserver: sluice\r\nx-content-type-options: nosniff\r\n");
  for (const HttpHeader& header : reply.headers) text += cat(header.name, ": ", header.value, "\r\n");
  if (form == BodyForm::chunked) text += "transfer-encoding: chunked\r\n";
  if (form == BodyForm::sized && reply.status != 204 && reply.status != 304)
    text += cat("content-length: ", body_bytes, "\r\n");
  text += keeps_alive && form != BodyForm::until_close ? "connection: keep-alive\r\n\r\n" : "connection: close\r\n\r\n";
  return text;
}

std::string chunk_text(std::string_view bytes) {
  if (bytes.empty()) return {};
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  std::string text = size;
  text += bytes;
  return text += "\r\n";
}

bool split_target(std::string_view target, ServerRequest& request) {
  if (target == "*") {  // OPTIONS
    request.path = "*";
    return true;
  }
  if (!starts_with(target, "/")) return false;
  const size_t end = target.find('?');
  if (end != std::string_view::npos) request.query = target.substr(end + 1);
  const std::string_view raw = target.substr(0, end);
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '%') {
      request.path += raw[i];
      continue;
    }
    const int high = i + 2 < raw.size() ? hex_digit(raw[i + 1]) : -1, low = high < 0 ? -1 : hex_digit(raw[i + 2]);
    if (low < 0) return false;
    request.path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

}  // namespace sluice
