#include "serve/media_fields.h"

#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "base/text.h"
#include "media/decode/picture_file.h"
#include "media/decode/sound_file.h"
#include "serve/fields.h"
#include "serve/served_model.h"

namespace sluice {
namespace {

Refusal no_data_url(const std::string& where) {
  return refuse(where, where, " is no data: URL: want data:image/png;base64,..., since pictures are not fetched");
}

bool is_web_url(std::string_view url) {
  const size_t colon = std::min(url.find(':'), size_t{6});
  std::string scheme(url.substr(0, colon));
  std::ranges::transform(scheme, scheme.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return scheme == "http" || scheme == "https";
}

Result<PreparedMedia> prepare_one(const GivenMedia& given, std::string_view file, const ServedModel& served,
                                  MemoryLease& lease) {
  const Model& model = *served.model;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(file.data(), file.size()));
  const auto room = [&, held = lease.bytes()](uint64_t decoding) {
    return lease.resize(held + decoding + preparing_bytes(served.input_bytes), given.where);
  };
  if (given.kind == MediaKind::sound) {
    TRY(const Sound sound, decode_sound(bytes, given.where, {.room = room}));
    return prepare_media(model, sound);
  }
  TRY(const Picture picture, decode_picture(bytes, given.where, {.pixels = kMaxServedPixels, .room = room}));
  return prepare_media(model, picture, served.pictures);
}

// The bytes behind a URL, which the lease counts. Whatever is wrong with the URL is the client's fault.
Outcome<std::string> fetched(const GivenMedia& given, MemoryLease& lease, RemoteMedia remote,
                             std::chrono::steady_clock::time_point end) {
  if (remote.fetcher == nullptr) return no_data_url(given.where);
  const auto has_room = [&, held = lease.bytes()](uint64_t bytes) { return lease.resize(held + bytes, given.where); };
  Result<std::string> bytes = remote.fetcher->fetch(given.url, {.end = end, .gone = remote.gone, .has_room = has_room});
  if (bytes) return *std::move(bytes);
  const Error& failed = bytes.error();
  if (failed.kind == ErrorKind::out_of_memory || failed.kind == ErrorKind::cancelled) return failed;
  return refuse(given.where, starts_with(failed.text, given.where) ? "" : cat(given.where, ": "), failed.text);
}

uint64_t held_bytes(const PreparedMedia& media) {
  uint64_t words = 0;
  for (const TowerInput& input : media.input.inputs->inputs) words += input.words.size();
  return words * sizeof(uint32_t);
}

ProgramKind tower_of(MediaKind kind) { return kind == MediaKind::sound ? ProgramKind::audio : ProgramKind::vision; }

// "messages[].content[]" for "messages[0].content[1]".
std::string without_numbers(std::string_view where) {
  std::string out;
  for (size_t i = 0; i < where.size(); ++i) {
    out += where[i];
    if (where[i] == '[') i = std::min(where.find(']', i), where.size()) - 1;
  }
  return out;
}

// The server chooses the detail by itself, which "auto" asks for.
void note_detail(const Json* detail, const std::string& where, std::vector<std::string>& ignored) {
  if (detail == nullptr || detail->is_null() || (detail->is_string() && detail->as_string() == "auto")) return;
  const std::string name = without_numbers(where) + ".detail";
  if (std::ranges::find(ignored, name) == ignored.end()) ignored.push_back(name);
}

Outcome<GivenMedia> openai_sound(const Json* sound, const std::string& where) {
  const Json* data = sound == nullptr ? nullptr : sound->find("data");
  if (data == nullptr || !data->is_string())
    return refuse(where, where, " has no sound: want {\"input_audio\": {\"data\": BASE64, \"format\": \"wav\"}}");
  return given_media(MediaKind::sound, data->as_string(), where + ".input_audio.data");
}

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
  if (is_web_url(url)) return GivenMedia{.kind = MediaKind::picture, .where = where, .url = std::string(url)};
  if (!starts_with(url, "data:")) return no_data_url(where);
  if (!ends_with(head, ";base64"))
    return refuse(where, where, " is a data: URL without base64: want data:image/png;base64,...");
  return given_media(MediaKind::picture, url.substr(comma + 1), where);
}

bool is_media_part(std::string_view type) {
  return type == "image_url" || type == "input_image" || type == "input_audio";
}

Checked add_openai_media(const Json& part, const std::string& where, MediaSink& sink) {
  Fields fields(part, where + ".");
  TRY(const std::optional<std::string> type, fields.text("type"));
  if (type == "input_audio") {
    TRY(const Json* given, fields.object("input_audio"));
    TRY(GivenMedia sound, openai_sound(given, where));
    sink.media->push_back(std::move(sound));
    return Fine{};
  }
  // An object with the URL in the chat API, the URL itself in the Responses API; clients mix them.
  const Json* url = fields.find("image_url");
  note_detail(fields.find("detail"), where, *sink.ignored);
  if (url != nullptr && url->is_object()) {
    note_detail(url->find("detail"), where + ".image_url", *sink.ignored);
    url = url->find("url");
  }
  if (url == nullptr || !url->is_string())
    return refuse(where, where, " has no picture: want image_url with a data: URL, since files are not stored");
  const size_t number = sink.media->size();
  TRY(GivenMedia picture,
      given_picture(url->as_string(), number < sink.places.size() ? sink.places[number] : where + ".image_url"));
  sink.media->push_back(std::move(picture));
  return Fine{};
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

Outcome<std::vector<PreparedMedia>> prepare_all(const std::vector<GivenMedia>& given, const ServedModel& model,
                                                MemoryLease& lease, RemoteMedia remote) {
  const auto end = std::chrono::steady_clock::now() + kFetchSeconds;
  std::vector<PreparedMedia> all;
  uint64_t rows = 0;
  for (const GivenMedia& one : given) {
    if (!model.takes(tower_of(one.kind)))
      return refuse(one.where, one.where, ": ", printable(model.id()), " takes no ", media_kind_name(one.kind),
                    "s: want a model with a tower for them");
    const uint64_t held = lease.bytes();
    std::string file;
    if (!one.url.empty()) TRY_ASSIGN(file, fetched(one, lease, remote, end));
    Result<PreparedMedia> prepared = prepare_one(one, one.url.empty() ? one.bytes : file, model, lease);
    if (!prepared) {
      Refusal refused = refusal_of(prepared.error());
      refused.param = one.where;
      return refused;
    }
    std::string().swap(file);
    TRY_STATUS(lease.resize(held + held_bytes(*prepared), one.where));
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
