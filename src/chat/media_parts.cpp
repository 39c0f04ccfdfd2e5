#include "chat/media_parts.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"

namespace sluice {
namespace {

MediaDigest digest_of(ProgramKind tower, const TowerInputs& inputs) {
  Sha256 sha;
  sha.add(cat(program_name(tower), ' ', inputs.rows, ' ', inputs.grid[0], ' ', inputs.grid[1], ' ', inputs.grid[2]));
  for (const TowerInput& input : inputs.inputs) {
    sha.add(cat(' ', input.name, ' ', input.words.size(), ' '));
    sha.add(std::as_bytes(std::span(input.words)));
  }
  const std::array<uint8_t, 32> whole = sha.finish();
  MediaDigest digest;
  std::copy_n(whole.begin(), digest.size(), digest.begin());
  return digest;
}

PreparedMedia prepared(const Model& model, ProgramKind tower, TowerInputs inputs) {
  PreparedMedia media{.input = {}, .shape = {}, .tokens = model.tower_tokens(tower)};
  for (size_t i = 0; i < inputs.grid.size(); ++i) media.shape.grid[i] = static_cast<uint16_t>(inputs.grid[i]);
  media.shape.sees_ahead = model.sees_ahead(tower) ? 1 : 0;
  media.input.content = digest_of(tower, inputs);
  media.input.tower = tower;
  media.input.inputs = std::make_shared<const TowerInputs>(std::move(inputs));
  return media;
}

bool is_place_of(int32_t id, const PreparedMedia& media) { return id == media.tokens.row; }

MediaSpan span_at(size_t at, const PreparedMedia& media) {
  return {.at = static_cast<uint32_t>(at), .rows = media.rows(), .content = media.input.content, .shape = media.shape};
}

void add_token(std::vector<int32_t>& ids, int32_t token) {
  if (token >= 0) ids.push_back(token);
}

std::string text_of(const Tokenizer& tokenizer, int32_t token) {
  return token < 0 ? std::string() : std::string(tokenizer.text(token));
}

// Where a template wrote the token of a row, and with it the tokens around it.
struct Place {
  size_t at = std::string::npos, length = 0;
};
Place find_place(std::string_view text, size_t from, const TowerTokens& tokens, const Tokenizer& tokenizer) {
  const std::string begin = text_of(tokenizer, tokens.begin), row = text_of(tokenizer, tokens.row);
  const std::string around = cat(begin, row, text_of(tokenizer, tokens.end));
  const size_t at = row.empty() ? std::string_view::npos : text.find(row, from);
  if (at == std::string_view::npos) return {};
  if (at >= from + begin.size() && starts_with(text.substr(at - begin.size()), around))
    return {at - begin.size(), around.size()};
  return {at, row.size()};
}

// The next one of that tower that was not taken.
const PreparedMedia* take(const std::vector<PreparedMedia>& media, std::vector<bool>& taken, int32_t id) {
  for (size_t i = 0; i < media.size(); ++i) {
    if (taken[i] || !is_place_of(id, media[i])) continue;
    taken[i] = true;
    return &media[i];
  }
  return nullptr;
}

bool is_place(int32_t id, const std::vector<PreparedMedia>& media) {
  return std::ranges::any_of(media, [id](const PreparedMedia& one) { return is_place_of(id, one); });
}

Error wrong_number(size_t places, size_t media) {
  return error(ErrorKind::invalid, "the conversation has places for ", places, " pictures and sounds: want ", media,
               ", one for each that is given");
}

// As templates call it.
std::string_view type_of(const PreparedMedia& media) {
  if (media.film) return "video";
  return media.input.tower == ProgramKind::audio ? "audio" : "image";
}

std::string marker_of(const PreparedMedia& media) { return cat("<", type_of(media), ">"); }

Json part_of(const PreparedMedia& media) { return Json::Object{{"type", type_of(media)}}; }

// A film by its first step.
std::vector<PreparedMedia> whole_ones(const std::vector<PreparedMedia>& media) {
  std::vector<PreparedMedia> whole;
  std::ranges::copy_if(media, std::back_inserter(whole), &PreparedMedia::is_first);
  return whole;
}

void add_text(Json::Array& parts, std::string_view text) {
  if (!text.empty()) parts.push_back(Json::Object{{"type", "text"}, {"text", std::string(text)}});
}

size_t count_markers(std::string_view text, std::string_view marker) {
  size_t count = 0;
  for (size_t at = text.find(marker); at != std::string_view::npos; at = text.find(marker, at + marker.size())) ++count;
  return count;
}

// Where each one's marker stands in the text; npos: it has none, because there are fewer markers than pictures. Those
// are the first, so that the order stays.
std::vector<size_t> marker_positions(std::string_view text, const std::vector<PreparedMedia>& media) {
  std::vector<size_t> positions(media.size(), std::string_view::npos);
  for (const std::string_view marker : {"<image>", "<audio>", "<video>"}) {
    const auto is_marked = [&](const PreparedMedia& one) { return marker_of(one) == marker; };
    const auto shown = static_cast<size_t>(std::ranges::count_if(media, is_marked));
    const size_t markers = count_markers(text, marker);
    const size_t unmarked = shown - std::min(shown, markers);
    size_t from = 0, number = 0;
    for (size_t i = 0; i < media.size(); ++i) {
      if (!is_marked(media[i]) || number++ < unmarked) continue;
      positions[i] = text.find(marker, from);
      from = positions[i] + marker.size();
    }
  }
  return positions;
}

}  // namespace

const char* media_kind_name(MediaKind kind) {
  static constexpr const char* kNames[] = {"picture", "sound", "film"};
  return kNames[static_cast<size_t>(kind)];
}

Result<PreparedMedia> prepare_media(const Model& model, const Picture& picture, const PictureOptions& options) {
  TRY(TowerInputs inputs, model.prepare(picture, options));
  return prepared(model, ProgramKind::vision, std::move(inputs));
}

Result<PreparedMedia> prepare_media(const Model& model, const Sound& sound) {
  TRY(TowerInputs inputs, model.prepare(sound));
  return prepared(model, ProgramKind::audio, std::move(inputs));
}

Status FilmPreparer::add(Picture frame, double seconds) {
  frames_.push_back(std::move(frame));
  seconds_.push_back(seconds);
  const size_t full = model_->has(ProgramKind::vision) ? model_->film_rules().frames_per_step : 1;
  return frames_.size() < full ? Status() : end_step();
}

Status FilmPreparer::end_step() {
  TRY(TowerInputs inputs, model_->prepare(frames_, options_));
  const auto number = static_cast<uint32_t>(steps_.size());
  PreparedMedia& step = steps_.emplace_back(prepared(*model_, ProgramKind::vision, std::move(inputs)));
  step.film = FilmStep{number, model_->film_rules().stamp(seconds_, number == 0)};
  if (step.tokens.film_row >= 0) step.tokens.row = step.tokens.film_row;
  frames_.clear();
  seconds_.clear();
  return {};
}

Result<std::vector<PreparedMedia>> FilmPreparer::finish() {
  if (!frames_.empty()) TRY_STATUS(end_step());
  return std::move(steps_);
}

Result<std::vector<PreparedMedia>> prepare_film(const Model& model, std::span<const Picture> frames, double rate) {
  FilmPreparer film(model, static_cast<uint32_t>(frames.size()));
  for (size_t i = 0; i < frames.size(); ++i) TRY_STATUS(film.add(frames[i], static_cast<double>(i) / rate));
  return film.finish();
}

Result<std::string> expand_films(std::string text, const std::vector<PreparedMedia>& media,
                                 const Tokenizer& tokenizer) {
  size_t from = 0;
  for (size_t first = 0, end = 0; first < media.size(); first = end) {
    for (end = first + 1; end < media.size() && !media[end].is_first();) ++end;
    if (!media[first].film) continue;
    const TowerTokens& tokens = media[first].tokens;
    if (tokens.film_row < 0)
      return error(ErrorKind::unsupported, "films: the model has no token for them: want a model that takes films");
    const Place place = find_place(text, from, tokens, tokenizer);
    if (place.at == std::string::npos)
      return error(ErrorKind::invalid, "the conversation has fewer places for films than films: want one for each");
    std::string steps;
    for (size_t i = first; i < end; ++i)
      steps += cat(media[i].film->stamp, text_of(tokenizer, tokens.begin), tokenizer.text(tokens.row),
                   text_of(tokenizer, tokens.end));
    text.replace(place.at, place.length, steps);
    from = place.at + steps.size();
  }
  return text;
}

Result<PlacedMedia> place_media(const std::vector<int32_t>& ids, const std::vector<PreparedMedia>& media) {
  PlacedMedia placed;
  std::vector<bool> taken(media.size());
  size_t places = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!is_place(ids[i], media)) {
      placed.ids.push_back(ids[i]);
      continue;
    }
    ++places;
    const PreparedMedia* const one = take(media, taken, ids[i]);
    if (one == nullptr) continue;
    if (i == 0 || ids[i - 1] != one->tokens.begin) add_token(placed.ids, one->tokens.begin);
    placed.spans.push_back(span_at(placed.ids.size(), *one));
    placed.ids.insert(placed.ids.end(), one->rows(), one->tokens.row);
    if (i + 1 == ids.size() || ids[i + 1] != one->tokens.end) add_token(placed.ids, one->tokens.end);
  }
  if (places != media.size()) return wrong_number(places, media.size());
  return placed;
}

Result<std::vector<MediaSpan>> find_media(const std::vector<int32_t>& ids, const std::vector<PreparedMedia>& media) {
  std::vector<MediaSpan> spans;
  std::vector<bool> taken(media.size());
  for (size_t i = 0; i < ids.size();) {
    size_t end = i + 1;
    if (is_place(ids[i], media)) {
      while (end < ids.size() && ids[end] == ids[i]) ++end;
      const PreparedMedia* const one = take(media, taken, ids[i]);
      if (one == nullptr) return wrong_number(media.size() + 1, media.size());
      if (one->rows() != end - i) {
        return error(ErrorKind::invalid, "token ", i, ": ", end - i, " places of a picture or sound: want its ",
                     one->rows(), " rows");
      }
      spans.push_back(span_at(i, *one));
    }
    i = end;
  }
  if (spans.size() != media.size()) return wrong_number(spans.size(), media.size());
  return spans;
}

Json content_parts(const std::string& text, const std::vector<PreparedMedia>& all) {
  const std::vector<PreparedMedia> media = whole_ones(all);
  const std::vector<size_t> positions = marker_positions(text, media);
  Json::Array parts;
  for (size_t i = 0; i < media.size(); ++i)
    if (positions[i] == std::string_view::npos) parts.push_back(part_of(media[i]));
  std::vector<size_t> order;
  for (size_t i = 0; i < media.size(); ++i)
    if (positions[i] != std::string_view::npos) order.push_back(i);
  std::ranges::sort(order, {}, [&](size_t i) { return positions[i]; });
  size_t begin = 0;
  for (const size_t i : order) {
    add_text(parts, std::string_view(text).substr(begin, positions[i] - begin));
    parts.push_back(part_of(media[i]));
    begin = positions[i] + marker_of(media[i]).size();
  }
  add_text(parts, std::string_view(text).substr(begin));
  return parts;
}

}  // namespace sluice
