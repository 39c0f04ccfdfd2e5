// What kind of file verify looks at: one of the golden's own weights, or of quantised ones.
#pragma once

#include "format/format.h"

namespace sluice {

// What the model file holds, as far as bars go.
struct FileKind {
  Format format{};         // of most of its weights' bytes
  bool quantised = false;  // else its weights are the golden's, up to what a 16-bit format keeps of them
};
FileKind kind_of_format(Format format);

}  // namespace sluice
