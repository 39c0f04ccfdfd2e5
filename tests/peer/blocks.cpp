// peer_blocks LIBRARIES [MODEL.gguf]: every block format that Sluice decodes, decoded from random bytes by the peer's
// library and by Sluice: the same bits (one NaN is as good as another). Formats that Sluice also encodes: its root mean
// square error may be 2 % above the peer's, on random rows and on rows of MODEL's matrices.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "format/format.h"
#include "tests/peer/library.h"

namespace sluice {
namespace {

constexpr size_t kColumns = 2048;  // a whole number of any format's blocks
constexpr size_t kRows = 256;
constexpr double kMoreError = 1.02;

using Decode = void(const void*, float*, int64_t);
using Encode = size_t(int type, const float* from, void* to, int64_t start, int64_t rows, int64_t columns,
                      const float*);

// "q4_k" is dequantize_row_q4_K there.
std::string decoder_name(const FormatInfo& info) {
  std::string name = info.name;
  if (ends_with(name, "_k")) name.back() = 'K';
  return "dequantize_row_" + name;
}

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

size_t differing(const FormatInfo& info, Decode* decode) {
  std::vector<std::byte> bytes(kRows * row_bytes(info.format, kColumns));
  std::mt19937 draw(1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(draw() >> 24);
  std::vector<float> found(kRows * kColumns);
  std::vector<float> want(found.size());
  decode_row(info.format, bytes.data(), found.data(), found.size());
  decode(bytes.data(), want.data(), static_cast<int64_t>(want.size()));
  size_t count = 0;
  for (size_t i = 0; i < found.size(); ++i) count += same(found[i], want[i]) ? 0 : 1;
  return count;
}

double error_of(const FormatInfo& info, const std::vector<std::byte>& encoded, const std::vector<float>& from) {
  std::vector<float> decoded(from.size());
  decode_row(info.format, encoded.data(), decoded.data(), decoded.size());
  double sum = 0;
  for (size_t i = 0; i < from.size(); ++i) sum += std::pow(static_cast<double>(decoded[i]) - from[i], 2);
  return std::sqrt(sum / static_cast<double>(from.size()));
}

// Sluice's error over the peer's.
double error_ratio(const FormatInfo& info, Encode* encode, const std::vector<float>& rows) {
  const uint64_t bytes = row_bytes(info.format, rows.size());
  std::vector<std::byte> found(bytes);
  std::vector<std::byte> want(bytes);
  encode_row(info.format, rows.data(), found.data(), rows.size());
  encode(info.ggml_type, rows.data(), want.data(), 0, static_cast<int64_t>(rows.size() / kColumns), kColumns, nullptr);
  const double ours = error_of(info, found, rows);
  const double theirs = error_of(info, want, rows);
  return theirs == 0 ? (ours == 0 ? 1 : INFINITY) : ours / theirs;
}

// Normally distributed, some rows with an outlier in every hundred.
std::vector<float> random_rows() {
  std::vector<float> rows(kRows * kColumns);
  std::mt19937 draw(2);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool outlier = i / kColumns % 4 == 0 && draw() % 100 == 0;
    rows[i] = normal(draw) * (outlier ? 1.0f : 0.05f);
  }
  return rows;
}

// The first rows of each matrix, laid end to end and cut into rows of kColumns.
Result<std::vector<float>> model_rows(const std::string& path) {
  TRY(const Checkpoint checkpoint, open_checkpoint(path));
  std::vector<float> rows;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    const FormatInfo& info = format_info(tensor.format);
    size_t elements = 1;
    for (const int64_t dimension : tensor.shape) elements *= static_cast<size_t>(dimension);
    const size_t taken = std::min(elements, 4 * kColumns) / kColumns * kColumns;
    if (tensor.shape.size() < 2 || info.decode == nullptr || taken == 0) continue;
    rows.resize(rows.size() + taken);
    decode_row(tensor.format, tensor.bytes.data(), rows.data() + rows.size() - taken, taken);
  }
  return rows;
}

int run(const std::string& folder, const std::string& model) {
  const peer::Library library(folder + "/libggml-base.so");
  auto* encode = library.get<Encode>("ggml_quantize_chunk");
  std::vector<std::vector<float>> inputs = {random_rows()};
  if (!model.empty()) {
    auto rows = model_rows(model);
    if (!rows) {
      std::fprintf(stderr, "%s\n", rows.error().text.c_str());
      return 1;
    }
    inputs.push_back(*std::move(rows));
  }
  int decoded = 0;
  int encoded = 0;
  int failed = 0;
  double worst = 0;
  for (const FormatInfo& info : all_formats()) {
    auto* decode = library.find<Decode>(decoder_name(info));
    if (info.ggml_type < 0 || info.decode == nullptr || decode == nullptr) continue;
    ++decoded;
    const size_t wrong = differing(info, decode);
    if (wrong > 0) std::printf("%s: %zu of %zu decoded values differ\n", info.name, wrong, kRows * kColumns);
    failed += wrong > 0 ? 1 : 0;
    if (info.encode == nullptr) continue;
    ++encoded;
    for (const auto& rows : inputs) {
      const double ratio = error_ratio(info, encode, rows);
      worst = std::max(worst, ratio);
      if (ratio <= kMoreError) continue;
      std::printf("%s: the encoding's error is %.4f times the peer's\n", info.name, ratio);
      ++failed;
    }
  }
  std::printf("blocks: %d formats decoded to the bit, %d encoded with at most %.4f times the peer's error, %d differ\n",
              decoded, encoded, worst, failed);
  return decoded == 0 || failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "peer_blocks LIBRARIES [MODEL.gguf]\n");
    return 2;
  }
  return sluice::run(argv[1], argc == 3 ? argv[2] : "");
}
