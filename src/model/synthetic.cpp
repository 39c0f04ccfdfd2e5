#include "model/synthetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

#include "base/random.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr uint64_t kUnit = 256;                       // a whole number of blocks of every format
constexpr uint64_t kPatternUnits = 1021;              // prime, so that the rows of a matrix begin at different units
constexpr uint64_t kPattern = kPatternUnits * kUnit;  // elements

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Normal numbers for one pattern, by the Box-Muller method.
std::vector<float> normal_numbers() {
  std::vector<float> numbers;
  numbers.reserve(kPattern);
  constexpr double kStep = 1.0 / 4294967296.0;
  for (uint32_t i = 0; numbers.size() < kPattern; ++i) {
    const PhiloxCounter bits = philox4x32({i, 0, 0, 0}, {0, 0});
    const double radius = std::sqrt(-2 * std::log((bits[0] + 0.5) * kStep));
    const double angle = 2 * std::numbers::pi * (bits[1] * kStep);
    numbers.push_back(static_cast<float>(radius * std::cos(angle)));
    numbers.push_back(static_cast<float>(radius * std::sin(angle)));
  }
  return numbers;
}

// The number of standard deviations that a normal number exceeds with probability p, for 0 < p < 0.5.
double exceeded_with(double p) {
  double low = 0, high = 40;
  for (int i = 0; i < 64; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::numbers::sqrt2) / 2 > p ? low : high) = middle;
  }
  return low;
}

// The value of every element of a vector, with which training begins. None: the row is a matrix with one row.
std::optional<float> vector_value(const WeightRow& row) {
  if (row.shape.rows != 1 || row.shape.experts != 1) return std::nullopt;
  const SourceName& source = row.hugging_face.front();
  if (source.transform == Transform::plus_one) return 1.0f;
  if (source.transform == Transform::minus_exp) return -1.0f;
  if (ends_with(source.name, "bias")) return 0.0f;
  if (contains(source.name, "norm") || contains(source.name, "scal")) return 1.0f;
  return std::nullopt;
}

uint32_t experts_used(const std::vector<GgufMetadata::Entry>& keys) {
  for (const GgufMetadata::Entry& key : keys)
    if (const auto* used = std::get_if<uint32_t>(&key.value);
        used != nullptr && ends_with(key.name, ".expert_used_count"))
      return *used;
  return 0;
}

// The factor by which each expert's row of a router is multiplied.
std::vector<float> router_factors(const Routing& routing, uint32_t experts, uint32_t used) {
  const std::vector<double> shares = chosen_shares(routing, experts, used);
  uint32_t stride = static_cast<uint32_t>(experts * 0.618) | 1u;
  while (std::gcd(stride, experts) != 1) stride += 2;
  std::vector<float> factors(experts);
  for (uint32_t rank = 0; rank < experts; ++rank)
    factors[static_cast<size_t>(uint64_t{rank} * stride % experts)] =
        static_cast<float>(1 / exceeded_with(std::min(shares[rank], kMostChosen)));
  return factors;
}

uint64_t aligned(uint64_t bytes) {
  return (bytes + SyntheticModel::kAlignment - 1) / SyntheticModel::kAlignment * SyntheticModel::kAlignment;
}

}  // namespace

Result<Routing> parse_routing(const std::string& text) {
  constexpr std::string_view kZipf = "zipf:";
  constexpr double kMostExponent = 4;
  if (text == "uniform") return Routing{};
  const auto exponent =
      starts_with(text, kZipf) ? parse_number(std::string_view(text).substr(kZipf.size())) : std::nullopt;
  if (exponent && *exponent >= 0 && *exponent <= kMostExponent) return Routing{.exponent = *exponent};
  return error(ErrorKind::invalid, "routing ", printable(text), ": want uniform, or zipf:S with S from 0 to ",
               kMostExponent);
}

// Shares are clamped to kMostChosen, and the other shares grow so that the sum stays `used`.
std::vector<double> chosen_shares(const Routing& routing, uint32_t experts, uint32_t used) {
  std::vector<double> shares(experts);
  CHECK(routing.recorded.empty() || routing.recorded.size() == experts);
  const double most = std::max(kMostChosen, static_cast<double>(used) / experts);
  std::vector<double> odds = routing.recorded;
  for (uint32_t rank = 0; rank < experts && routing.recorded.empty(); ++rank)
    odds.push_back(std::pow(rank + 1.0, -routing.exponent));
  const auto fill = [&](double factor) {
    for (uint32_t rank = 0; rank < experts; ++rank) shares[rank] = std::min(most, factor * odds[rank]);
    return std::accumulate(shares.begin(), shares.end(), 0.0);
  };
  double low = 0, high = 1 / odds.back();
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (fill(middle) < used ? low : high) = middle;
  }
  return shares;
}

namespace {

Checkpoint checkpoint_of(const std::string& name, Json config) {
  return make_checkpoint({.dialect = Dialect::hugging_face,
                          .name = name,
                          .documents = {{"config.json", std::move(config)}},
                          .metadata = {},
                          .tensors = {},
                          .memory = nullptr});
}

// The inputs of each output; of a convolution those of all taps.
uint64_t columns_of(const OutlinedTensor& tensor) {
  const std::vector<int64_t>& shape = tensor.shape;
  if (shape.size() < 3 || tensor.row.shape.experts > 1) return static_cast<uint64_t>(shape.back());
  uint64_t columns = 1;
  for (size_t i = 1; i < shape.size(); ++i) columns *= static_cast<uint64_t>(shape[i]);
  return columns;
}

}  // namespace

SyntheticModel SyntheticModel::begin(const ShapeConfig& shape, std::vector<GgufMetadata::Entry> keys) {
  SyntheticModel model;
  model.name_ = shape.name;
  model.shape_ = shape.shape;
  model.keys_ = std::move(keys);
  model.normal_ = normal_numbers();
  return model;
}

SyntheticModel::Content SyntheticModel::content_of(OutlinedTensor& tensor) {
  Content content;
  const std::optional<float> value = tensor.values.empty() ? vector_value(tensor.row) : std::nullopt;
  if (!tensor.values.empty()) {
    content.values = std::move(tensor.values);
  } else if (value) {
    content.values.assign(static_cast<size_t>(tensor.shape.back()), *value);
  } else {
    const auto index = static_cast<uint32_t>(tensors_.size());
    content.pattern = &pattern(tensor.format, columns_of(tensor));
    content.start = row_bytes(tensor.format, philox4x32({index, 1, 0, 0}, {0, 0})[0] % kPatternUnits * kUnit);
  }
  return content;
}

void SyntheticModel::add(OutlinedTensor& tensor, Content content) {
  const auto bytes = tensor_bytes(tensor.format, tensor.shape);
  CHECK(bytes.has_value());
  tensors_.push_back({std::move(tensor.name), tensor.format, std::move(tensor.shape), *bytes});
  contents_.push_back(std::move(content));
}

Result<SyntheticModel> SyntheticModel::make(const ShapeConfig& shape, const Mix& mix, const Routing& routing) {
  TRY(GgufOutline outline, outline_gguf(checkpoint_of(shape.name, shape.config), mix));
  SyntheticModel model = begin(shape, std::move(outline.keys));
  for (OutlinedTensor& tensor : outline.tensors) {
    Content content = model.content_of(tensor);
    if (content.pattern != nullptr && ends_with(tensor.row.name, ".router")) {
      const uint32_t experts = tensor.row.shape.rows;
      if (!routing.recorded.empty() && routing.recorded.size() != experts)
        return error(ErrorKind::invalid, "routing: recorded of ", routing.recorded.size(), " experts: want the ",
                     experts, " of ", shape.name);
      content.factors = router_factors(routing, experts, experts_used(model.keys_));
    }
    model.add(tensor, std::move(content));
  }
  return model;
}

Result<SyntheticModel> SyntheticModel::make_towers(const ShapeConfig& shape) {
  TRY(Json config, config_with_towers(shape));
  TRY(GgufOutline outline, outline_projector(checkpoint_of(shape.name, std::move(config))));
  SyntheticModel model = begin(shape, std::move(outline.keys));
  for (OutlinedTensor& tensor : outline.tensors) {
    Content content = model.content_of(tensor);
    model.add(tensor, std::move(content));
  }
  return model;
}

const std::vector<std::byte>& SyntheticModel::pattern(Format format, uint64_t columns) {
  auto& kept = patterns_[{format, columns}];
  if (kept != nullptr) return *kept;
  std::vector<float> numbers = normal_;
  const auto deviation = static_cast<float>(1 / std::sqrt(static_cast<double>(columns)));
  for (float& number : numbers) number *= deviation;
  auto encoded = std::make_unique<std::vector<std::byte>>(static_cast<size_t>(row_bytes(format, kPattern)));
  encode_row(format, numbers.data(), encoded->data(), numbers.size());
  kept = std::move(encoded);
  return *kept;
}

uint64_t SyntheticModel::bytes() const {
  uint64_t sum = 0;
  for (const Tensor& tensor : tensors_) sum += tensor.bytes;
  return sum;
}

uint64_t SyntheticModel::memory_bytes() const {
  uint64_t sum = 0;
  for (const Tensor& tensor : tensors_) sum += aligned(tensor.bytes);
  return sum;
}

void SyntheticModel::fill(size_t tensor, uint64_t first, std::span<std::byte> into) const {
  const Content& content = contents_[tensor];
  CHECK(first <= tensors_[tensor].bytes && into.size() <= tensors_[tensor].bytes - first);
  if (content.pattern == nullptr) {
    std::memcpy(into.data(), reinterpret_cast<const std::byte*>(content.values.data()) + first, into.size());
    return;
  }
  const std::vector<std::byte>& pattern = *content.pattern;
  for (size_t done = 0; done < into.size();) {
    const auto at = static_cast<size_t>((content.start + first + done) % pattern.size());
    const size_t count = std::min(into.size() - done, pattern.size() - at);
    std::memcpy(into.data() + done, pattern.data() + at, count);
    done += count;
  }
  if (content.factors.empty()) return;
  CHECK(first % sizeof(float) == 0 && into.size() % sizeof(float) == 0);
  const auto columns = static_cast<uint64_t>(tensors_[tensor].shape.back());
  for (size_t done = 0; done < into.size(); done += sizeof(float)) {
    float number;
    std::memcpy(&number, into.data() + done, sizeof number);
    number *= content.factors[static_cast<size_t>((first + done) / sizeof(float) / columns)];
    std::memcpy(into.data() + done, &number, sizeof number);
  }
}

Checkpoint SyntheticModel::checkpoint(std::span<const std::byte> memory, std::shared_ptr<const void> owner) const {
  CHECK(memory.size() >= memory_bytes());
  MadeCheckpoint made{.dialect = Dialect::gguf,
                      .name = name_,
                      .documents = {},
                      .metadata = GgufMetadata(name_),
                      .tensors = {},
                      .memory = std::move(owner)};
  for (const GgufMetadata::Entry& key : keys_) made.metadata.add(key.name, key.value);
  uint64_t offset = 0;
  made.tensors.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) {
    const auto held = memory.subspan(static_cast<size_t>(offset), static_cast<size_t>(tensor.bytes));
    made.tensors.push_back({tensor.name, tensor.format, tensor.shape, held, 0, offset});
    offset += aligned(tensor.bytes);
  }
  return make_checkpoint(std::move(made));
}

}  // namespace sluice
