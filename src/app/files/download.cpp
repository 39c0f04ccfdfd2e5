#include "app/files/download.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "app/cli/interrupt.h"
#include "app/files/http.h"
#include "app/files/part_file.h"
#include "base/files/file.h"
#include "base/sha256.h"

namespace sluice {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;
constexpr uint32_t kMaxPauseSeconds = 30;

// Waits before a retry: not at all, then 1, 2, 4 ... seconds, and as long as the server asks. Ends early after Ctrl-C.
void pause_before_retry(uint32_t failures, uint32_t asked, const std::atomic<bool>* stop) {
  using std::chrono::milliseconds;
  const uint32_t own = failures < 2 ? 0 : std::min(1u << std::min(failures - 2, 5u), kMaxPauseSeconds);
  const uint32_t seconds = std::max(own, asked);
  for (uint32_t tenth = 0; tenth < 10 * seconds && !interrupted(stop); ++tenth)
    std::this_thread::sleep_for(milliseconds(100));
}

uint64_t free_bytes(const std::string& path) {
  struct statvfs facts = {};
  return ::statvfs(path.c_str(), &facts) == 0 ? static_cast<uint64_t>(facts.f_bavail) * facts.f_frsize : UINT64_MAX;
}

// The validator with which a later request gets the rest of the same file. A weak ETag promises too little.
std::string validator_of(const HttpReply& reply) {
  if (!reply.etag.empty() && !starts_with(reply.etag, "W/")) return reply.etag;
  return reply.last_modified;
}

Status add_file(const std::string& path, Sha256& sum, ShownProgress& progress, const std::atomic<bool>* stop) {
  TRY(const auto source, FileSource::open(path));
  std::vector<std::byte> piece(kPieceBytes);
  for (uint64_t at = 0; at < source->size();) {
    const auto bytes = std::span(piece).first(static_cast<size_t>(std::min(kPieceBytes, source->size() - at)));
    TRY_STATUS(source->read_at(at, bytes));
    sum.add(bytes);
    at += bytes.size();
    progress.update(at, source->size());
    if (interrupted(stop)) return error(ErrorKind::cancelled, path, ": stopped");
  }
  return {};
}

// Takes replies into a part.
class Download final : public HttpBody {
 public:
  Download(const DownloadRequest& request, PartFile part, ShownProgress& progress)
      : request_(request), part_(std::move(part)), progress_(progress) {}

  Result<Downloaded> run();
  Status begin(const HttpReply& reply) override;
  Status take(std::span<const std::byte> piece) override;

 private:
  Status take_up();
  Status fetch();
  Status try_once();
  Status begin_anew(const HttpReply& reply);
  Status begin_rest(const HttpReply& reply);
  Status check_room(uint64_t bytes);
  Status no_more(const HttpReply& reply);
  Status restart(const PartNote& note);

  // A failure of our own disk, which trying again does not mend.
  Status ours(Status status) {
    disk_failed_ = disk_failed_ || !status;
    return status;
  }
  PartNote nothing_yet() const { return {request_.url, "", request_.bytes}; }
  bool complete() const { return total_ && part_.size() == *total_; }
  template <class... Parts>
  Error fault(ErrorKind kind, const Parts&... parts) const {
    return error(kind, request_.url, ": ", parts...);
  }

  const DownloadRequest& request_;
  PartFile part_;
  ShownProgress& progress_;
  Sha256 sum_;
  std::optional<uint64_t> total_;
  uint64_t fetched_ = 0;
  bool disk_failed_ = false;
  uint32_t wait_ = 0;  // seconds that the server asks for
};

// Goes on with a part of the same URL that can be told to be of the same file.
Status Download::take_up() {
  const PartNote& note = part_.note();
  const bool known = !note.validator.empty() || !request_.sha256.empty();
  const bool same = note.url == request_.url && (!request_.bytes || !note.total || *note.total == *request_.bytes);
  total_ = request_.bytes ? request_.bytes : note.total;
  if (part_.size() == 0 || !known || !same || part_.size() > total_.value_or(UINT64_MAX)) return restart(nothing_yet());
  return add_file(part_.part_path(), sum_, progress_, request_.options.stop);
}

Status Download::restart(const PartNote& note) {
  sum_ = {};
  total_ = note.total;
  return ours(part_.restart(note));
}

Status Download::check_room(uint64_t bytes) {
  const uint64_t room = free_bytes(part_.part_path());
  if (bytes <= room) return {};
  return ours(error(ErrorKind::io, request_.path, ": ", format_bytes(room), " are free: want ", format_bytes(bytes)));
}

Status Download::begin_anew(const HttpReply& reply) {
  if (request_.bytes && reply.body_bytes && *reply.body_bytes != *request_.bytes)
    return fault(ErrorKind::corrupt, "the server has ", *reply.body_bytes, " bytes: want ", *request_.bytes);
  const std::optional<uint64_t> total = request_.bytes ? request_.bytes : reply.body_bytes;
  TRY_STATUS(restart({request_.url, validator_of(reply), total}));
  return check_room(total.value_or(0));
}

Status Download::begin_rest(const HttpReply& reply) {
  if (reply.range_from != part_.size()) {
    return fault(ErrorKind::corrupt, "the server sends bytes from ", reply.range_from.value_or(0), ": want them from ",
                 part_.size());
  }
  const std::string& known = part_.note().validator;
  const bool another = !known.empty() && !validator_of(reply).empty() && known != validator_of(reply);
  if (another || (total_ && reply.range_total && *reply.range_total != *total_)) {
    TRY_STATUS(restart(nothing_yet()));
    return fault(ErrorKind::io, "the file on the server has changed");
  }
  total_ = total_ ? total_ : reply.range_total;
  return check_room(total_ ? *total_ - part_.size() : 0);
}

Status Download::begin(const HttpReply& reply) {
  if (starts_with(reply.content_type, "text/html"))
    return fault(ErrorKind::unsupported, "a web page: want the address of the file itself");
  return reply.status == 206 ? begin_rest(reply) : begin_anew(reply);
}

Status Download::take(std::span<const std::byte> piece) {
  if (total_ && piece.size() > *total_ - part_.size())
    return fault(ErrorKind::corrupt, "more than ", *total_, " bytes: want no more");
  TRY_STATUS(ours(part_.append(piece)));
  sum_.add(piece);
  fetched_ += piece.size();
  progress_.update(part_.size(), total_.value_or(0));
  return {};
}

// The server says that nothing follows what is there.
Status Download::no_more(const HttpReply& reply) {
  const std::optional<uint64_t> all = total_ ? total_ : reply.range_total;
  if (all == part_.size()) {
    total_ = all;
    return {};
  }
  TRY_STATUS(restart(nothing_yet()));
  return fault(ErrorKind::io, "the server has no bytes from where the part ends");
}

Status Download::try_once() {
  if (complete()) return {};
  const HttpRequest request = {
      request_.url, request_.headers,     part_.size(), part_.note().validator, request_.options.timeout_seconds,
      &wait_,       request_.options.stop};
  TRY(const HttpReply reply, http_get(request, *this));
  if (reply.status == 416) return no_more(reply);
  if (total_ && part_.size() != *total_) return fault(ErrorKind::io, "the connection ends before the file does");
  return {};
}

Status Download::fetch() {
  uint64_t furthest = part_.size();
  for (uint32_t failures = 0;;) {
    Status done = try_once();
    if (done) return done;
    failures = part_.size() > furthest ? 1 : failures + 1;
    furthest = std::max(furthest, part_.size());
    const bool may_pass = done.error().kind == ErrorKind::io && !disk_failed_ && !interrupted(request_.options.stop);
    if (may_pass && failures <= request_.options.retries) {
      pause_before_retry(failures, std::exchange(wait_, 0), request_.options.stop);
      continue;
    }
    if (part_.size() == 0) return done;
    return error(done.error().kind, done.error().text, " (", format_bytes(part_.size()),
                 " are kept: the same command goes on from there)");
  }
}

Result<Downloaded> Download::run() {
  TRY_STATUS(take_up());
  TRY_STATUS(fetch());
  const std::string found = sum_.finish_hex();
  if (!request_.sha256.empty() && found != request_.sha256) {
    part_.discard();
    return fault(ErrorKind::corrupt, "SHA-256 is ", found, ": want ", request_.sha256, "; nothing of it is kept");
  }
  const uint64_t bytes = part_.size();
  TRY_STATUS(part_.commit());
  return Downloaded{bytes, fetched_, found};
}

// A document in memory.
class TextBody final : public HttpBody {
 public:
  TextBody(std::string url, uint64_t limit) : url_(std::move(url)), limit_(limit) {}

  Status begin(const HttpReply&) override {
    text_.clear();
    return {};
  }
  Status take(std::span<const std::byte> piece) override {
    if (piece.size() > limit_ - text_.size())
      return error(ErrorKind::unsupported, url_, ": more than ", format_bytes(limit_), ": want less");
    text_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return {};
  }
  std::string text() { return std::move(text_); }

 private:
  std::string url_;
  uint64_t limit_;
  std::string text_;
};

}  // namespace

Result<Downloaded> download(const DownloadRequest& request, ShownProgress& progress) {
  TRY(PartFile part, PartFile::open(request.path));
  return Download(request, std::move(part), progress).run();
}

Result<std::string> file_sha256(const std::string& path, ShownProgress& progress, const std::atomic<bool>* stop) {
  Sha256 sum;
  TRY_STATUS(add_file(path, sum, progress, stop));
  return sum.finish_hex();
}

Result<std::string> fetch_text(const std::string& url, const std::vector<std::string>& headers, uint64_t limit,
                               const FetchOptions& options) {
  TextBody body(url, limit);
  uint32_t wait = 0;
  const HttpRequest request = {url, headers, 0, "", options.timeout_seconds, &wait, options.stop};
  for (uint32_t failures = 0;;) {
    const Result<HttpReply> reply = http_get(request, body);
    if (reply) return body.text();
    if (reply.error().kind != ErrorKind::io || ++failures > options.retries || interrupted(options.stop))
      return reply.error();
    pause_before_retry(failures, std::exchange(wait, 0), options.stop);
  }
}

}  // namespace sluice
