#include "checkpoint/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <unordered_set>

#include "base/checked.h"
#include "base/limits.h"

namespace sluice {

namespace {

template <class T>
void append_number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& out, std::string_view text) {
  append_number<uint64_t>(out, text.size());
  out += text;
}

template <class T>
void append_element(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, std::string>)
    append_string(out, value);
  else if constexpr (std::is_same_v<T, bool>)
    append_number<uint8_t>(out, value ? 1 : 0);
  else
    append_number(out, value);
}

template <class T>
void append_elements(std::string& out, const std::vector<T>& values) {
  for (auto&& value : values) append_element<T>(out, value);  // vector<bool> hands out values
}

void append_value(std::string& out, const GgufValue& value) {
  if (is_array(value)) append_number(out, GgufType::array);
  append_number(out, element_type(value));
  if (is_array(value)) append_number<uint64_t>(out, element_count(value));
  std::visit(
      [&]<class T>(const T& held) {
        if constexpr (requires { typename T::allocator_type; } && !std::is_same_v<T, std::string>)
          append_elements(out, held);
        else
          append_element(out, held);
      },
      value);
}

// The dimensions as GGUF stores them: innermost first, without outer dimensions of 1, at least one.
std::vector<int64_t> stored_dimensions(const std::vector<int64_t>& shape) {
  std::vector<int64_t> dimensions(shape.rbegin(), shape.rend());
  while (dimensions.size() > 1 && dimensions.back() == 1) dimensions.pop_back();
  if (dimensions.empty()) dimensions.push_back(1);
  return dimensions;
}

}  // namespace

void GgufWriter::add_key(std::string name, GgufValue value) {
  const std::string shown = printable(name);
  if (name.empty()) problem_ = "a key has no name";
  if (!keys_.add(std::move(name), std::move(value))) problem_ = cat("key ", shown, " stands twice");
}

void GgufWriter::add_tensor(std::string name, Format format, std::vector<int64_t> shape) {
  tensors_.push_back({std::move(name), format, std::move(shape), 0});
}

Status GgufWriter::check_alignment() {
  alignment_ = kGgufAlignment;
  if (keys_.find(kGgufAlignmentKey) == nullptr) return {};
  TRY(alignment_, keys_.get_u32(kGgufAlignmentKey));
  if (std::has_single_bit(alignment_)) return {};
  return error(ErrorKind::invalid, "GGUF: ", kGgufAlignmentKey, " is ", alignment_, ": want a power of two");
}

Status GgufWriter::check_tensor(Tensor& tensor) const {
  const std::string name = cat("GGUF: tensor ", printable(tensor.name));
  if (tensor.name.size() > kMaxGgufNameBytes) {
    return error(ErrorKind::invalid, name, " has a name of ", tensor.name.size(), " bytes: want at most ",
                 kMaxGgufNameBytes);
  }
  if (format_info(tensor.format).ggml_type < 0)
    return error(ErrorKind::invalid, name, " is ", format_name(tensor.format), ": want a format that GGUF has");
  const auto bytes = tensor_bytes(tensor.format, tensor.shape);
  if (!bytes || stored_dimensions(tensor.shape).size() > kMaxGgufDimensions) {
    return error(ErrorKind::invalid, name, " is ", format_name(tensor.format), " ", format_shape(tensor.shape),
                 ": want at most ", kMaxGgufDimensions, " dimensions and whole blocks of ",
                 format_info(tensor.format).block_elements);
  }
  tensor.bytes = *bytes;
  return {};
}

Status GgufWriter::check() {
  if (!problem_.empty()) return error(ErrorKind::invalid, "GGUF: ", problem_);
  TRY_STATUS(check_alignment());
  std::unordered_set<std::string> names;
  CheckedSize data = 0;
  for (Tensor& tensor : tensors_) {
    TRY_STATUS(check_tensor(tensor));
    data = (data + tensor.bytes).aligned(alignment_);
    if (!names.insert(tensor.name).second)
      return error(ErrorKind::invalid, "GGUF: tensor ", printable(tensor.name), " stands twice");
  }
  if (data.fits(INT64_MAX)) return {};
  return error(ErrorKind::invalid, "GGUF: the tensors together have more than 2^63 bytes");
}

std::string GgufWriter::header() const {
  std::string out = "GGUF";
  append_number<uint32_t>(out, 3);
  append_number<uint64_t>(out, tensors_.size());
  append_number<uint64_t>(out, keys_.entries().size());
  for (const auto& [name, value] : keys_.entries()) {
    append_string(out, name);
    append_value(out, value);
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    const auto dimensions = stored_dimensions(tensor.shape);
    append_string(out, tensor.name);
    append_number(out, static_cast<uint32_t>(dimensions.size()));
    for (const int64_t dimension : dimensions) append_number(out, dimension);
    append_number(out, int32_t{format_info(tensor.format).ggml_type});
    append_number(out, offset);
    offset += tensor.bytes + padding(tensor.bytes);  // check() has seen that the sum fits
  }
  return out;
}

uint64_t GgufWriter::padding(uint64_t bytes) const { return (alignment_ - bytes % alignment_) % alignment_; }

Status GgufWriter::put_zeros(uint64_t count) {
  static constexpr std::byte kZeros[4096]{};
  while (count > 0) {
    const uint64_t piece = std::min<uint64_t>(count, sizeof kZeros);
    TRY_STATUS(sink_->write(std::span(kZeros).first(static_cast<size_t>(piece))));
    count -= piece;
  }
  return {};
}

// Writes the padding behind a complete tensor, and goes on to the next tensor that has bytes.
Status GgufWriter::advance() {
  while (current_ < tensors_.size() && written_ == tensors_[current_].bytes) {
    TRY_STATUS(put_zeros(padding(written_)));
    written_ = 0;
    ++current_;
  }
  return {};
}

Status GgufWriter::begin(ByteSink& sink) {
  TRY_STATUS(check());
  sink_ = &sink;
  const std::string text = header();
  TRY_STATUS(sink_->write(std::as_bytes(std::span(text))));
  TRY_STATUS(put_zeros(padding(text.size())));
  return advance();
}

Status GgufWriter::write(std::span<const std::byte> piece) {
  if (piece.empty()) return {};
  CHECK(current_ < tensors_.size() && piece.size() <= tensors_[current_].bytes - written_);
  TRY_STATUS(sink_->write(piece));
  written_ += piece.size();
  return advance();
}

void GgufWriter::finish() const { CHECK(sink_ != nullptr && current_ == tensors_.size()); }

uint64_t GgufWriter::data_bytes() const {
  uint64_t sum = 0;
  for (const Tensor& tensor : tensors_) sum += tensor.bytes;
  return sum;
}

}  // namespace sluice
