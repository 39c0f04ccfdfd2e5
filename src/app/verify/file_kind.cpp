#include "app/verify/file_kind.h"

#include "checkpoint/mlx_quantization.h"

namespace sluice {

// Floats of 16 bits and more keep a golden's weights. A golden of an MLX folder was computed with the numbers that its
// few bits stand for.
FileKind kind_of_format(Format format) {
  const FormatInfo& info = format_info(format);
  const bool is_float = info.decodable && info.block_elements == 1;
  return {.format = format, .quantised = !is_float && !is_affine_format(format)};
}

}  // namespace sluice
