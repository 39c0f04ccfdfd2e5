// Pictures and sounds in results of tools. Qwen3.5's chat template shows them where they stand; others, such as those
// of Gemma 4 that write a result as a value, have no place for them. There they follow the results in a message of the
// user: the one that comes next, or one of their own.
#pragma once

#include "base/json.h"
#include "serve/served_model.h"

namespace sluice {

// The messages, with contents of tools' messages as the model's template takes them. The order of what they show stays.
Json place_result_media(const Json& messages, const ServedModel& model);

}  // namespace sluice
