#include "train/media_rows.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

// Each content once.
std::map<MediaDigest, const MediaInput*> contents_of(std::span<const TrainMedia* const> shown) {
  std::map<MediaDigest, const MediaInput*> contents;
  for (const TrainMedia* one : shown) contents.emplace(one->input.content, &one->input);
  return contents;
}

}  // namespace

uint64_t MediaRows::bytes(const Model& model, std::span<const TrainMedia* const> shown) {
  uint64_t rows = 0;
  for (const auto& [content, input] : contents_of(shown)) rows += input->inputs->rows;
  return rows * model.facts().hidden * sizeof(float);
}

Result<std::unique_ptr<MediaRows>> MediaRows::compute(const Model& model, Device& device, Budget& budget,
                                                      Arithmetic arithmetic, std::span<const TrainMedia* const> shown) {
  std::unique_ptr<MediaRows> made(new MediaRows(model.facts().hidden));
  TRY(made->reserved_, budget.reserve(Domain::host, Purpose::staging, bytes(model, shown)));
  TRY(const TextModel text, text_model(model));
  std::map<ProgramKind, std::vector<const MediaInput*>> by_tower;
  for (const auto& [content, input] : contents_of(shown)) by_tower[input->tower].push_back(input);
  for (const auto& [kind, inputs] : by_tower) {
    const auto tower = std::ranges::find(text.towers, kind, &TowerModel::kind);
    if (tower == text.towers.end())
      return error(ErrorKind::unsupported, "training: the model has no ", program_name(kind),
                   ": want examples of text alone");
    TRY_STATUS(made->compute_by(*tower, device, budget, arithmetic, inputs));
  }
  return made;
}

Status MediaRows::compute_by(const TowerModel& model, Device& device, Budget& budget, Arithmetic arithmetic,
                             const std::vector<const MediaInput*>& inputs) {
  uint32_t most = 0;
  for (const MediaInput* input : inputs) most = std::max(most, input->inputs->rows);
  TRY(const std::unique_ptr<Tower> tower, Tower::create(model, device, budget, arithmetic, most));
  for (const MediaInput* input : inputs) {
    std::vector<float>& rows = rows_[input->content];
    rows.resize(size_t{input->inputs->rows} * columns_);
    TRY_STATUS(tower->run(*input->inputs, rows));
  }
  return {};
}

const float* MediaRows::row(const MediaRow& media) const {
  const std::vector<float>& rows = rows_.at(media.content);
  CHECK(rows.size() >= size_t{media.row + 1} * columns_);
  return rows.data() + size_t{media.row} * columns_;
}

}  // namespace sluice
