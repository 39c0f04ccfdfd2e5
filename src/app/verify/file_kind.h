// The kind of file that verify checks: one with the golden's own weights, or with quantised ones.
#pragma once

#include "format/format.h"

namespace sluice {

// The properties of a model file on which bars depend.
struct FileKind {
  Format format{};         // of most of its weights' bytes
  bool quantised = false;  // else its weights are the golden's, up to what a 16-bit format keeps of them
};
FileKind kind_of_format(Format format);

}  // namespace sluice
