// Measured errors of another implementation against goldens. Bars of fast arithmetic follow from them (verify_bars.h).
#pragma once

#include <string_view>

#include "app/verify/file_kind.h"

namespace sluice {

struct PeerError {
  std::string_view golden_model{};
  Format format{};     // of a quantised file; bf16 stands for every file of the golden's own weights
  double mean_kl = 0;  // over the golden's text and chat cases
  int cases = 0;       // how many those are
};

// Null: nobody has measured it.
const PeerError* find_peer_error(std::string_view golden_model, const FileKind& file);

}  // namespace sluice
