// Splits generated text into thinking and answer while it streams in, whatever the pieces' borders.
//
// A marker sets the channel and never comes out; text that may be the beginning of a marker is held back until it is
// clear. Where the caller knows which pieces are tokens of their own, only those are markers, so that an answer may
// talk about "<think>" in plain letters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/dialects/dialect.h"

namespace sluice {

enum class Channel : uint8_t { thinking, answer };

struct ChannelText {
  Channel channel;
  std::string text;
  bool operator==(const ChannelText&) const = default;
};

class ChannelSplitter {
 public:
  enum class Markers : uint8_t { in_text, as_tokens };

  // The dialect must outlive the splitter. `start` is thinking where starts_thinking(dialect, prompt).
  explicit ChannelSplitter(const ChatDialect& dialect, Channel start = Channel::answer,
                           Markers markers = Markers::in_text);

  // What the piece settles: neighbours differ in their channel, no text is empty. `is_token`: the piece is the whole
  // text of one of the vocabulary's special or added tokens.
  std::vector<ChannelText> push(std::string_view piece, bool is_token = false);
  // What was held back; then the splitter is as new, in the channel it is in.
  std::vector<ChannelText> flush();

  Channel channel() const { return channel_; }

 private:
  void scan();
  void pass(std::string_view text);
  void emit(std::string_view text);
  void append(std::string_view text);
  void turn(Channel channel);
  size_t marker_prefix() const;
  std::vector<ChannelText> take();

  const ChatDialect& dialect_;
  Markers markers_;
  Channel channel_;
  std::string held_;        // may begin a marker
  std::string head_;        // may be the header of a thought
  std::string newlines_;    // at the end of a thought, where they may belong to its closing marker
  bool in_header_ = false;  // nothing but (part of) a header has come since the opening marker
  bool skip_newlines_ = false;
  std::vector<ChannelText> out_;
};

}  // namespace sluice
