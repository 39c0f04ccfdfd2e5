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

// How many tokens each picture has among the ids, in their order.
std::vector<uint32_t> picture_runs(const Model& model, const std::vector<int32_t>& ids) {
  std::vector<uint32_t> runs;
  if (!model.has(ProgramKind::vision)) return runs;
  const int32_t row = model.tower_tokens(ProgramKind::vision).row;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != row) continue;
    if (i == 0 || ids[i - 1] != row) runs.push_back(0);
    ++runs.back();
  }
  return runs;
}

// llama.cpp's files do not say how many tokens the reference gave a picture, so the golden's ids do: the picture with
// the smallest limit that makes it as long as there. Without one: `media`, whose length find_media then refuses.
Result<PreparedMedia> fit_picture(const Model& model, const std::string& path, uint32_t rows, PreparedMedia media) {
  TRY(const Picture picture, read_picture(path));
  for (uint32_t limit = rows; limit <= 2 * rows; ++limit) {
    Result<PreparedMedia> fitted = prepare_media(model, picture, {.max_rows = limit});
    if (fitted && fitted->rows() == rows) return fitted;
  }
  return media;
}

Result<std::vector<PreparedMedia>> open_files(const Model& model, const Golden& golden, const GoldenCase& golden_case,
                                              const PictureOptions& options) {
  const std::vector<uint32_t> runs = picture_runs(model, golden_case.input_ids);
  std::vector<PreparedMedia> files;
  size_t pictures = 0;
  for (const std::string& file : golden_case.files) {
    const std::string path = join_path(golden.folder(), file);
    TRY(PreparedMedia media, open_media(model, path, options));
    if (media.input.tower == ProgramKind::vision && pictures < runs.size()) {
      const uint32_t rows = runs[pictures++];
      if (options.max_rows == 0 && media.rows() != rows)
        TRY_ASSIGN(media, fit_picture(model, path, rows, std::move(media)));
    }
    files.push_back(std::move(media));
  }
  return files;
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
    TRY_ASSIGN(found.media, open_files(model, golden, golden_case, options));
  }
  Result<std::vector<MediaSpan>> spans = find_media(golden_case.input_ids, found.media);
  if (!spans) return error(spans.error().kind, "case ", golden_case.name, ": ", spans.error().text);
  found.spans = *std::move(spans);
  return found;
}

}  // namespace sluice
