#include "serve/media_fields.h"

#include <utility>

#include "base/base64.h"
#include "base/text.h"
#include "media/decode/picture_file.h"
#include "media/decode/sound_file.h"
#include "serve/fields.h"
#include "serve/served_model.h"

namespace sluice {
namespace {

Result<PreparedMedia> prepare_one(const GivenMedia& given, const ServedModel& served) {
  const Model& model = *served.model;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(given.bytes.data(), given.bytes.size()));
  if (given.kind == MediaKind::sound) {
    TRY(const Sound sound, decode_sound(bytes, given.where));
    return prepare_media(model, sound);
  }
  TRY(const Picture picture, decode_picture(bytes, given.where, {.pixels = kMaxServedPixels}));
  return prepare_media(model, picture, served.pictures);
}

ProgramKind tower_of(MediaKind kind) { return kind == MediaKind::sound ? ProgramKind::audio : ProgramKind::vision; }

}  // namespace

Outcome<GivenMedia> given_media(MediaKind kind, std::string_view base64, const std::string& where) {
  std::optional<std::string> bytes = decode_base64(base64);
  if (!bytes || bytes->empty())
    return refuse(where, where, " is no base64 text: want the bytes of a ", media_kind_name(kind), " in it");
  return GivenMedia{.kind = kind, .where = where, .bytes = *std::move(bytes)};
}

Outcome<GivenMedia> given_picture(std::string_view url, const std::string& where) {
  const size_t comma = url.find(',');
  const std::string_view head = url.substr(0, comma == std::string_view::npos ? 0 : comma);
  if (!starts_with(url, "data:"))
    return refuse(where, where, " is no data: URL: want data:image/png;base64,..., since pictures are not fetched");
  if (!ends_with(head, ";base64"))
    return refuse(where, where, " is a data: URL without base64: want data:image/png;base64,...");
  return given_media(MediaKind::picture, url.substr(comma + 1), where);
}

bool is_media_part(std::string_view type) {
  return type == "image_url" || type == "input_image" || type == "input_audio";
}

Outcome<GivenMedia> openai_media(const Json& part, const std::string& where) {
  Fields fields(part, where + ".");
  TRY(const std::optional<std::string> type, fields.text("type"));
  if (type == "input_audio") {
    TRY(const Json* sound, fields.object("input_audio"));
    const Json* data = sound == nullptr ? nullptr : sound->find("data");
    if (data == nullptr || !data->is_string())
      return refuse(where, where, " has no sound: want {\"input_audio\": {\"data\": BASE64, \"format\": \"wav\"}}");
    return given_media(MediaKind::sound, data->as_string(), where + ".input_audio.data");
  }
  // An object with the URL in the chat API, the URL itself in the Responses API; clients mix them.
  const Json* url = fields.find("image_url");
  if (url != nullptr && url->is_object()) url = url->find("url");
  if (url == nullptr || !url->is_string())
    return refuse(where, where, " has no picture: want image_url with a data: URL, since files are not stored");
  return given_picture(url->as_string(), where + ".image_url");
}

void ContentBuilder::end_text() {
  if (!text_.empty()) parts_.emplace_back(Json::Object{{"type", "text"}, {"text", std::exchange(text_, {})}});
}

void ContentBuilder::add(const GivenMedia& media) {
  end_text();
  parts_.emplace_back(Json::Object{{"type", media.kind == MediaKind::sound ? "audio" : "image"}});
}

Json ContentBuilder::take() {
  if (!shows_media()) return std::exchange(text_, {});
  end_text();
  return std::exchange(parts_, {});
}

Outcome<std::vector<PreparedMedia>> prepare_all(const std::vector<GivenMedia>& given, const ServedModel& model) {
  std::vector<PreparedMedia> all;
  uint64_t rows = 0;
  for (const GivenMedia& one : given) {
    if (!model.takes(tower_of(one.kind)))
      return refuse(one.where, one.where, ": ", printable(model.id()), " takes no ", media_kind_name(one.kind),
                    "s: want a model with a tower for them");
    Result<PreparedMedia> prepared = prepare_one(one, model);
    if (!prepared) {
      Refusal refused = refusal_of(prepared.error());
      refused.param = one.where;
      return refused;
    }
    rows += prepared->rows();
    // Before the next one takes memory.
    if (rows >= model.context)
      return Refusal{.status = 400,
                     .message = cat(one.where, ": pictures and sounds up to here take ", rows,
                                    " tokens: want less than the context of ", model.context, " tokens"),
                     .param = one.where,
                     .code = "context_length_exceeded"};
    all.push_back(*std::move(prepared));
  }
  return all;
}

}  // namespace sluice
