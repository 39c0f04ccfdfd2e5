#include "app/verify/verify_media.h"

#include <array>
#include <string_view>
#include <utility>

#include "app/files/media_file.h"
#include "base/files/file.h"
#include "base/text.h"

namespace sluice {
namespace {

// Which towers a kind of case needs.
struct MediaKindOfCase {
  std::string_view kind;
  bool pictures, sounds;
};
constexpr std::array<MediaKindOfCase, 4> kKinds = {
    {{"image", true, false}, {"audio", false, true}, {"mixed", true, true}, {"video", true, false}}};

const MediaKindOfCase* find_kind(std::string_view kind) {
  for (const MediaKindOfCase& one : kKinds)
    if (one.kind == kind) return &one;
  return nullptr;
}

Result<std::vector<Picture>> read_frames(const Golden& golden, const GoldenCase& golden_case) {
  std::vector<Picture> frames;
  for (const std::string& file : golden_case.files) {
    TRY(Picture frame, read_picture(join_path(golden.folder(), file)));
    frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace

bool shows_media(const GoldenCase& golden_case) { return find_kind(golden_case.kind) != nullptr; }

std::optional<std::string> reason_without_towers(const Model& model, const GoldenCase& golden_case) {
  const MediaKindOfCase* const kind = find_kind(golden_case.kind);
  if (kind == nullptr) return std::nullopt;
  for (const auto& [needed, tower] :
       {std::pair(kind->pictures, ProgramKind::vision), std::pair(kind->sounds, ProgramKind::audio)})
    if (needed && !model.has(tower)) return cat("the model has no ", program_name(tower));
  return std::nullopt;
}

Result<CaseMedia> open_case_media(const Model& model, const Golden& golden, const GoldenCase& golden_case,
                                  const PictureOptions& options) {
  CaseMedia found;
  if (!shows_media(golden_case)) return found;
  if (golden_case.kind == "video") {
    TRY(const std::vector<Picture> frames, read_frames(golden, golden_case));
    TRY(found.media, prepare_film(model, frames));
  } else {
    for (const std::string& file : golden_case.files) {
      TRY(PreparedMedia media, open_media(model, join_path(golden.folder(), file), options));
      found.media.push_back(std::move(media));
    }
  }
  Result<std::vector<MediaSpan>> spans = find_media(golden_case.input_ids, found.media);
  if (!spans) return error(spans.error().kind, "case ", golden_case.name, ": ", spans.error().text);
  found.spans = *std::move(spans);
  return found;
}

}  // namespace sluice
