#include "app/plan/planned_model.h"

#include <memory>
#include <optional>
#include <utility>

#include "app/open/open.h"
#include "app/plan/file_header.h"

namespace sluice {

Result<PlannedModel> open_planned(const ModelFiles& found, const Arguments& arguments) {
  const std::string& path = found.path;
  TRY(std::optional<HeaderOnly> header, open_header(path));
  if (!header) {
    TRY(Model model, open_model(found, arguments));
    WeightFiles files = weight_files(model);
    return PlannedModel{std::move(model), std::move(files)};
  }
  const std::byte* const first = header->zeros;
  TRY(Model model, resolve(std::make_shared<const Checkpoint>(std::move(header->checkpoint))));
  WeightFiles files{.paths = {path}, .place = [first](const std::byte* byte) {
                      return std::optional(FilePlace{0, static_cast<uint64_t>(byte - first)});
                    }};
  return PlannedModel{std::move(model), std::move(files), true};
}

}  // namespace sluice
