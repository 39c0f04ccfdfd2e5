#include "app/verify/peer_errors.h"

#include <algorithm>
#include <iterator>

namespace sluice {
namespace {

// llama.cpp v0.5.0 on the CPU, F32 caches.
constexpr PeerError kPeerErrors[] = {
    {.golden_model = "gemma4", .format = Format::bf16, .mean_kl = 1.5e-5, .cases = 11},
    {.golden_model = "gemma4", .format = Format::q8_0, .mean_kl = 6.5e-4, .cases = 11},
};

}  // namespace

const PeerError* find_peer_error(std::string_view golden_model, const FileKind& file) {
  const Format format = file.quantised ? file.format : Format::bf16;
  const auto* const found = std::ranges::find_if(
      kPeerErrors, [&](const PeerError& one) { return one.golden_model == golden_model && one.format == format; });
  return found == std::end(kPeerErrors) ? nullptr : found;
}

}  // namespace sluice
