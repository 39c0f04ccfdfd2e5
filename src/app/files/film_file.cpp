#include "app/files/film_file.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "app/files/child.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/text.h"

namespace sluice {
namespace {

constexpr double kProbeSeconds = 60, kDecodeSeconds = 600;
constexpr size_t kMaxProbeBytes = 1 << 16;
constexpr double kUnknownRate = 24;  // as the reference implementation assumes

// None of them opens another file but the one that it is given.
constexpr const char* kFormats =
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,asf,ogg,gif,apng,ivf,mxf,nut,yuv4mpegpipe";

std::vector<std::string> command(const char* program, std::vector<std::string> options) {
  std::vector<std::string> words = {program, "-v", "error", "-protocol_whitelist", "file,pipe", "-format_whitelist",
                                    kFormats};
  words.insert(words.end(), std::make_move_iterator(options.begin()), std::make_move_iterator(options.end()));
  return words;
}

// How the program ended, as a sentence where it failed.
Status end_of(Child& program, const std::string& path) {
  TRY(const ChildEnd end, program.finish());
  if (end.status == 0) return {};
  std::string_view said = end.last_line;
  const std::string prefix = cat("file:", path, ": ");
  if (starts_with(said, prefix)) said.remove_prefix(prefix.size());
  return error(ErrorKind::corrupt, path, ": ",
               end.signal != 0 ? cat("ffmpeg was ended by signal ", end.signal)
               : said.empty()  ? cat("ffmpeg ended with status ", end.status)
                               : printable(said, 200),
               ": want a film that ffmpeg reads");
}

Error in_film(const std::string& path, const Error& error) { return Error{error.kind, cat(path, ": ", error.text)}; }

Result<Child> started(const std::string& path, const std::vector<std::string>& words, double seconds) {
  Result<Child> child = Child::start(words, seconds);
  if (child) return child;
  if (child.error().kind != ErrorKind::not_found) return in_film(path, child.error());
  return error(ErrorKind::not_found, path, ": ", words[0], " is not installed: want the programs ffmpeg and ffprobe, ",
               "which decode films");
}

// "25/1", "30000/1001"; 0 where it says nothing.
double ratio(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return parse_number(text).value_or(0);
  const double above = parse_number(text.substr(0, slash)).value_or(0);
  const double below = parse_number(text.substr(slash + 1)).value_or(0);
  return above > 0 && below > 0 ? above / below : 0;
}

// A member of ffprobe's answer, which writes most numbers as texts.
std::string member(const Json* object, const char* name) {
  const Json* found = object == nullptr ? nullptr : object->find(name);
  if (found == nullptr) return "";
  return found->is_string() ? found->as_string() : write_json(*found);
}

Result<FilmFacts> facts_of(const Json& probed, const std::string& path) {
  const Json* streams = probed.find("streams");
  if (streams == nullptr || !streams->is_array() || streams->as_array().empty())
    return error(ErrorKind::unsupported, path, ": has no moving picture: want a film");
  const Json* stream = &streams->as_array()[0];
  const int64_t width = parse_integer(member(stream, "width")).value_or(0);
  const int64_t height = parse_integer(member(stream, "height")).value_or(0);
  const int64_t frames = parse_integer(member(stream, "nb_read_packets")).value_or(0);
  const int64_t side = kMaxPictureSide;
  if (width <= 0 || height <= 0 || frames <= 0) return error(ErrorKind::corrupt, path, ": has no frames: want a film");
  if (width > side || height > side || static_cast<uint64_t>(width * height) > kMaxPicturePixels)
    return error(ErrorKind::unsupported, path, ": frames of ", width, " x ", height, " pixels: want at most ",
                 kMaxPicturePixels, " pixels");
  FilmFacts facts{.frames = static_cast<uint64_t>(frames), .rate = ratio(member(stream, "avg_frame_rate"))};
  const double seconds = parse_number(member(probed.find("format"), "duration")).value_or(0);
  if (!(facts.rate > 0)) facts.rate = seconds > 0 ? static_cast<double>(frames) / seconds : kUnknownRate;
  const double lasts = static_cast<double>(frames) / facts.rate;
  if (!(lasts <= kMaxFilmSeconds))
    return error(ErrorKind::unsupported, path, ": lasts ", lasts, " s: want at most ", kMaxFilmSeconds, " s");
  return facts;
}

// The frames that ffmpeg writes: PPM files (https://netpbm.sourceforge.net/doc/ppm.html) one after another.
class PpmReader {
 public:
  PpmReader(Child& child, const std::string& path) : child_(child), path_(path) {}

  // None at the end.
  Result<std::optional<Picture>> next() {
    TRY(const int first, byte());
    if (first < 0) return std::optional<Picture>();
    TRY(const int second, byte());
    if (first != 'P' || second != '6') return broken();
    TRY(const uint64_t width, number());
    TRY(const uint64_t height, number());
    TRY(const uint64_t most, number());
    if (width == 0 || height == 0 || width > kMaxPictureSide || height > kMaxPictureSide ||
        width * height > kMaxPicturePixels || most != 255)
      return broken();
    Picture picture{.width = static_cast<uint32_t>(width), .height = static_cast<uint32_t>(height), .pixels = {}};
    picture.pixels.resize(static_cast<size_t>(width * height * 3));
    TRY_STATUS(fill(picture.pixels));
    return std::optional(std::move(picture));
  }

 private:
  Error broken() const { return error(ErrorKind::corrupt, path_, ": ffmpeg gave no whole frame: want a film"); }

  // -1 at the end.
  Result<int> byte() {
    if (at_ == end_) {
      at_ = 0;
      TRY_ASSIGN(end_, child_.read(std::as_writable_bytes(std::span(buffer_))));
      if (end_ == 0) return -1;
    }
    return static_cast<int>(buffer_[at_++]);
  }
  // The next number, and the white space behind it.
  Result<uint64_t> number() {
    uint64_t value = 0;
    TRY(int next, byte());
    while (next >= 0 && std::isspace(next) != 0) TRY_ASSIGN(next, byte());
    for (; next >= '0' && next <= '9' && value <= kMaxPictureSide;) {
      value = value * 10 + static_cast<uint64_t>(next - '0');
      TRY_ASSIGN(next, byte());
    }
    if (next < 0 || std::isspace(next) == 0) return broken();
    return value;
  }
  Status fill(std::span<uint8_t> into) {
    while (!into.empty()) {
      if (at_ == end_) {
        at_ = 0;
        TRY_ASSIGN(end_, child_.read(std::as_writable_bytes(std::span(buffer_))));
        if (end_ == 0) return broken();
      }
      const size_t taken = std::min(into.size(), end_ - at_);
      std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(at_), taken, into.begin());
      at_ += taken;
      into = into.subspan(taken);
    }
    return {};
  }

  Child& child_;
  const std::string& path_;
  std::vector<uint8_t> buffer_ = std::vector<uint8_t>(1 << 16);
  size_t at_ = 0, end_ = 0;
};

// Keeps the chosen frames. Their times become 0, 1/25 s, 2/25 s and so on, so that no frame is doubled or dropped.
std::string filter_of(std::span<const uint64_t> numbers) {
  std::string choice;
  for (const uint64_t number : numbers) choice += cat(choice.empty() ? "" : "+", "eq(n,", number, ")");
  return cat("select='", choice, "',settb=1/25,setpts=N");
}

}  // namespace

Result<FilmFacts> probe_film(const std::string& path) {
  TRY(Child probe, started(path,
                           command("ffprobe", {"-select_streams", "V:0", "-count_packets", "-show_entries",
                                               "stream=width,height,avg_frame_rate,nb_read_packets:format=duration",
                                               "-of", "json", "-i", "file:" + path}),
                           kProbeSeconds));
  std::string answer(kMaxProbeBytes, '\0');
  size_t bytes = 0;
  for (size_t got = 1; got > 0 && bytes < answer.size(); bytes += got) {
    Result<size_t> read = probe.read(std::as_writable_bytes(std::span(answer)).subspan(bytes));
    if (!read) return in_film(path, read.error());
    got = *read;
  }
  answer.resize(bytes);
  TRY_STATUS(end_of(probe, path));
  TRY(const Json probed, parse_json(answer, cat(path, ": ffprobe's answer")));
  return facts_of(probed, path);
}

Status read_frames(const std::string& path, std::span<const uint64_t> numbers,
                   const std::function<Status(Picture frame, uint64_t number)>& take) {
  if (numbers.empty() || numbers.size() > kMaxFilmFrames)
    return error(ErrorKind::unsupported, path, ": ", numbers.size(), " frames to look at: want 1 to ", kMaxFilmFrames);
  TRY(Child decoder,
      started(path,
              command("ffmpeg", {"-nostdin", "-i", "file:" + path, "-map", "0:V:0", "-vf", filter_of(numbers), "-r",
                                 "25", "-frames:v", cat(numbers.size()), "-c:v", "ppm", "-f", "image2pipe", "pipe:1"}),
              kDecodeSeconds));
  PpmReader frames(decoder, path);
  size_t count = 0;
  while (count < numbers.size()) {
    Result<std::optional<Picture>> frame = frames.next();
    if (!frame) return frame.error().kind == ErrorKind::corrupt ? frame.error() : in_film(path, frame.error());
    if (!*frame) break;
    TRY_STATUS(take(**std::move(frame), numbers[count++]));
  }
  if (count == numbers.size()) return {};
  TRY_STATUS(end_of(decoder, path));
  if (count == 0) return error(ErrorKind::corrupt, path, ": ffmpeg gave no frame: want a film");
  return {};
}

}  // namespace sluice
