// The pictures and sounds of a golden's cases, prepared for the model's towers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/verify/golden.h"
#include "base/result.h"
#include "chat/media_parts.h"
#include "model/model.h"

namespace sluice {

struct CaseMedia {
  std::vector<PreparedMedia> media;
  std::vector<MediaSpan> spans;  // among the case's ids
};

// Whether cases of that kind show pictures or sounds.
bool shows_media(const GoldenCase& golden_case);
// Why the model cannot compute the case; none if it can.
std::optional<std::string> reason_without_towers(const Model& model, const GoldenCase& golden_case);
// Reads the case's files, which are beside the golden; a case without pictures and sounds has none. Without a limit in
// the options, a picture has the limit of the model's files, or, if the case then has another number of tokens for it,
// that number.
Result<CaseMedia> open_case_media(const Model& model, const Golden& golden, const GoldenCase& golden_case,
                                  const PictureOptions& options);

}  // namespace sluice
