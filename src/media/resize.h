// Resizes pictures bit for bit as the image processors of models do: antialiased bicubic interpolation (a = -0.5) of
// 8-bit numbers, columns first, then rows, each pass rounded to 8 bits. Pillow and torchvision differ only in the
// precision of the weights: Pillow uses 22 bits, torchvision as many bits as let the largest weight fit into 16 bits.
// All sums are integers, so every machine computes the same picture.
#pragma once

#include "media/picture.h"

namespace sluice {

// `Image.resize` with BICUBIC. Both sizes are at least 1.
Picture resize_bicubic(const Picture& picture, uint32_t width, uint32_t height);

// `torchvision.transforms.functional.resize` of a uint8 tensor, with BICUBIC and antialias.
Picture resize_bicubic_torch(const Picture& picture, uint32_t width, uint32_t height);

}  // namespace sluice
