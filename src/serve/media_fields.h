// Pictures and sounds in requests: taken as they stand in a body, fetched where the body has a URL, decoded and
// prepared for the model's towers later, on the thread that renders the prompt.
//
// A message that shows some has a list of parts as its content, as chat templates take it; one that shows none has
// text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/media_parts.h"
#include "chat/media_source.h"
#include "serve/media_fetcher.h"
#include "serve/refusal.h"
#include "serve/request_memory.h"

namespace sluice {

struct ServedModel;

// A request comes from a stranger: less than files may have.
inline constexpr uint64_t kMaxServedPixels = 1u << 25;

struct GivenMedia {
  MediaKind kind{};        // a picture or a sound
  std::string where;       // the member of the request, for sentences
  std::string bytes = {};  // of the file
  std::string url = {};    // "http..." in place of the bytes
};

// Of base64 text.
Outcome<GivenMedia> given_media(MediaKind kind, std::string_view base64, const std::string& where);
// Of "data:image/png;base64,...", or of an http or https URL. Others are refused, because the server reads no files.
Outcome<GivenMedia> given_picture(std::string_view url, const std::string& where);

// Where a reader of OpenAI's parts puts what it finds. Both lists are the request's and outlive it.
struct MediaSink {
  std::vector<GivenMedia>* media = nullptr;
  std::vector<std::string>* ignored = nullptr;
  // The places of all pictures in a body of another API, in their order; empty: the parts are the body's own.
  std::vector<std::string> places = {};
};

// A part of OpenAI's chat or Responses API, of type image_url, input_image or input_audio. Its `detail` has no effect.
bool is_media_part(std::string_view type);
Checked add_openai_media(const Json& part, const std::string& where, MediaSink& sink);

// Joins a message's text and what it shows, in their order.
class ContentBuilder {
 public:
  void add_text(std::string_view text) { text_ += text; }
  void add(const GivenMedia& media);
  bool shows_media() const { return !parts_.empty(); }
  Json take();  // text, or a list of parts

 private:
  void end_text();

  std::string text_;
  Json::Array parts_;
};

// What preparing a decoded picture or sound takes at most, beside its own: resized pixels or frames, and the inputs.
inline constexpr uint64_t preparing_bytes(uint64_t input_bytes) { return 2 * input_bytes; }

// In the order of the messages. The lease grows by what decoding takes, and in the end by what they hold. Each is
// refused with a sentence that names its place: what the model has no tower for, what is no picture or sound, and what
// is too large. Together they take less than the context.
Outcome<std::vector<PreparedMedia>> prepare_all(const std::vector<GivenMedia>& given, const ServedModel& model,
                                                MemoryLease& lease, RemoteMedia remote = {});

}  // namespace sluice
