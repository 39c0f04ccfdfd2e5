#include "serve/refusal.h"

namespace sluice {

// What the caller's text or the model's file is to blame for is a bad request; the rest is the server's fault.
Refusal refusal_of(const Error& error) {
  switch (error.kind) {
    case ErrorKind::invalid:
    case ErrorKind::unsupported:
    case ErrorKind::corrupt: return {.status = 400, .message = error.text};
    case ErrorKind::not_found: return {.status = 404, .message = error.text};
    case ErrorKind::out_of_memory: return {.status = 503, .message = error.text, .retry = true};
    case ErrorKind::cancelled: return {.status = 503, .message = error.text, .retry = true};
    case ErrorKind::io: break;
  }
  return {.status = 500, .message = error.text};
}

Refusal ends_soon() { return {.status = 503, .message = "the server is about to end", .retry = true}; }

}  // namespace sluice
