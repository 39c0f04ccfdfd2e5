// Splits generated text into thinking and answer while it streams in. The result does not depend on how the text is cut
// into pieces.
//
// A marker switches the channel and is not shown. Text that may begin a marker is held back until it is clear. If the
// caller knows which pieces are special tokens, only these count as markers, so that an answer may contain the letters
// "<think>".
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

  // The dialect must outlive the splitter. `start` is thinking if starts_thinking(dialect, prompt).
  explicit ChannelSplitter(const ChatDialect& dialect, Channel start = Channel::answer,
                           Markers markers = Markers::in_text);

  // Returns the text that can be shown after this piece. Neighbouring parts differ in their channel, and no part is
  // empty. `is_token`: the piece is the whole text of a special or added token.
  std::vector<ChannelText> push(std::string_view piece, bool is_token = false);
  // The text held back. Afterwards the splitter is as new, in its current channel.
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
  bool in_header_ = false;  // only a header, or a part of it, has come since the opening marker
  bool skip_newlines_ = false;
  std::vector<ChannelText> out_;
};

}  // namespace sluice
