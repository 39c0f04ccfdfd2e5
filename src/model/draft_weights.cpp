#include "model/draft_weights.h"

#include "format/format.h"

namespace sluice {
namespace {

constexpr const char* kJoin = "draft.fc";
constexpr const char* kEmbeddingHalf = "draft.fc.embedding";
constexpr const char* kHiddenHalf = "draft.fc.hidden";

// The first or second half of the columns. Fails when the middle of a row falls inside a block.
Result<TensorSource> half(const TensorSource& whole, uint32_t which) {
  const uint32_t columns = whole.shape.columns / 2, first = which * columns;
  TensorSource half = whole;
  half.shape.columns = columns;
  bool whole_blocks = columns % format_info(whole.format).block_elements == 0 && !whole.grid;
  for (const WeightPart& part : whole.parts) whole_blocks = whole_blocks && !part.grid && part.groups.empty();
  if (whole_blocks) half.bytes += row_bytes(whole.format, first);
  for (WeightPart& part : half.parts) {
    if (!whole_blocks) break;
    const uint32_t numbers = first / part.block_columns;
    if (part.block_columns >= whole.shape.columns) continue;  // both halves share the row's number
    whole_blocks =
        whole_blocks && columns % part.block_columns == 0 && numbers % format_info(part.format).block_elements == 0;
    part.bytes += row_bytes(part.format, numbers);
  }
  if (whole_blocks) return half;
  return error(ErrorKind::unsupported, "draft head: ", kJoin, " is ", format_name(whole.format), " with rows of ",
               whole.shape.columns, ": want halves of whole blocks");
}

}  // namespace

Value join_for_draft(Recorder& recorder, Value e, Value h, uint32_t rows) {
  const WeightShape half = matrix(rows, static_cast<uint32_t>(e.type().columns()));
  return add(linear(e, recorder.weight(kEmbeddingHalf, half)), linear(h, recorder.weight(kHiddenHalf, half)));
}

Result<TensorSource> DraftWeights::find(const std::string& name) const {
  if (name == kEmbeddingHalf || name == kHiddenHalf) {
    TRY(const TensorSource whole, own_->find(kJoin));
    return half(whole, name == kHiddenHalf ? 1 : 0);
  }
  return own_->shape_of(name) != nullptr ? own_->find(name) : text_->find(name);
}

}  // namespace sluice
