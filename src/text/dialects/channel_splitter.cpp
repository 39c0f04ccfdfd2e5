#include "text/dialects/channel_splitter.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace sluice {

ChannelSplitter::ChannelSplitter(const ChatDialect& dialect, Channel start, Markers markers)
    : dialect_(dialect), markers_(markers), channel_(start), in_header_(start == Channel::thinking) {}

std::vector<ChannelText> ChannelSplitter::push(std::string_view piece, bool is_token) {
  const bool marker = is_token && !piece.empty() && (piece == dialect_.open || piece == dialect_.close);
  if (marker) {
    pass(held_);
    held_.clear();
    turn(piece == dialect_.open ? Channel::thinking : Channel::answer);
  } else {
    held_ += piece;
    scan();
  }
  return take();
}

std::vector<ChannelText> ChannelSplitter::flush() {
  pass(held_);
  held_.clear();
  in_header_ = false;
  emit(std::exchange(head_, {}));
  append(std::exchange(newlines_, {}));
  skip_newlines_ = false;
  return take();
}

std::vector<ChannelText> ChannelSplitter::take() { return std::exchange(out_, {}); }

// The length of the longest end of the held text that may be the beginning of a marker.
size_t ChannelSplitter::marker_prefix() const {
  const size_t longest = std::max(dialect_.open.size(), dialect_.close.size());
  for (size_t n = std::min(held_.size(), longest - std::min<size_t>(longest, 1)); n > 0; --n) {
    const std::string_view end = std::string_view(held_).substr(held_.size() - n);
    if (starts_with(dialect_.open, end) || starts_with(dialect_.close, end)) return n;
  }
  return 0;
}

// Passes on the beginning of the held text that cannot belong to a marker any more.
void ChannelSplitter::scan() {
  if (dialect_.open.empty() || markers_ == Markers::as_tokens) {
    pass(held_);
    held_.clear();
    return;
  }
  for (;;) {
    const size_t open = held_.find(dialect_.open);
    const size_t close = held_.find(dialect_.close);
    const size_t at = std::min(open, close);
    if (at == std::string::npos) break;
    pass(std::string_view(held_).substr(0, at));
    held_.erase(0, at + (open < close ? dialect_.open : dialect_.close).size());
    turn(open < close ? Channel::thinking : Channel::answer);
  }
  const size_t settled = held_.size() - marker_prefix();
  pass(std::string_view(held_).substr(0, settled));
  held_.erase(0, settled);
}

// Handles a marker. Text that was held as the beginning of a header belongs to the thought after all. Newlines before
// `close` are dropped.
void ChannelSplitter::turn(Channel channel) {
  in_header_ = false;
  emit(std::exchange(head_, {}));
  if (channel == Channel::answer) newlines_.clear();
  channel_ = channel;
  in_header_ = channel == Channel::thinking;
  skip_newlines_ = channel == Channel::answer && dialect_.own_lines;
}

// Passes on text of the current channel without the header of a thought.
void ChannelSplitter::pass(std::string_view text) {
  if (!in_header_) {
    emit(text);
    return;
  }
  head_ += text;
  const bool whole = starts_with(head_, dialect_.header);
  if (!whole && starts_with(dialect_.header, head_)) return;
  in_header_ = false;
  const std::string head = std::exchange(head_, {});
  emit(std::string_view(head).substr(whole ? dialect_.header.size() : 0));
}

// Appends text of the current channel without the newlines around closing markers.
void ChannelSplitter::emit(std::string_view text) {
  if (skip_newlines_) text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  if (text.empty()) return;
  skip_newlines_ = false;
  std::string whole = std::exchange(newlines_, {}) + std::string(text);
  if (channel_ == Channel::thinking && dialect_.own_lines) {
    const size_t last = whole.find_last_not_of('\n');
    newlines_ = whole.substr(last == std::string::npos ? 0 : last + 1);
    whole.resize(whole.size() - newlines_.size());
  }
  append(whole);
}

void ChannelSplitter::append(std::string_view text) {
  if (text.empty()) return;
  if (out_.empty() || out_.back().channel != channel_) out_.push_back({channel_, {}});
  out_.back().text += text;
}

}  // namespace sluice
