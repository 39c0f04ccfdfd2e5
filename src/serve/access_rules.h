// AccessRules: who may ask. Host and Origin are checked against DNS rebinding and against other sites' pages; keys are
// compared in constant time.
//
// A request's Host must be an address, localhost, or a name that was allowed. Its Origin, which browsers add, must be
// absent, the same as Host, of this machine, or of an allowed name. Over a UNIX socket the Host does not matter.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/http/http.h"
#include "serve/refusal.h"

namespace sluice {

struct AccessRules {
  std::vector<std::string> hosts = {};  // names beyond localhost, in lower case
  std::vector<std::string> keys = {};   // one of them must be given; empty: none is asked for

  // None: the request may go on. `is_public`: its path needs no key.
  std::optional<Refusal> refuse(const ServerRequest& request, bool is_public) const;
  // The index of the key that the request gives; 0 where keys are not asked for, none where it is not known.
  std::optional<size_t> client_of(const ServerRequest& request) const;
  size_t clients() const { return keys.empty() ? 1 : keys.size(); }
};

// Whether clients at the address are on this machine: 127.x.x.x, ::1, localhost.
bool is_loopback(std::string_view host);

// The keys in a file's text: one a line; lines that are empty or begin with # do not count.
Result<std::vector<std::string>> read_keys(std::string_view text, std::string_view where);

// The headers that let a page of an allowed origin read the reply; none without an Origin.
std::vector<HttpHeader> cors_headers(const ServerRequest& request);

}  // namespace sluice
