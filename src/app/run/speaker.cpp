#include "app/run/speaker.h"

#include "app/cli/interrupt.h"
#include "base/unicode.h"

namespace sluice {

std::string harmless(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f)
      append_utf8(out, 0xfffd);
    else
      out += c;
  }
  return out;
}

Speaker::Speaker(Console& console, bool silent) : console_(&console), silent_(silent) {
  progress_.emplace(console, "reading the prompt", "tokens");
}

ReplyWatch Speaker::watch() {
  ReplyWatch watch;
  watch.show = [this](Channel channel, const std::string& text) { show(channel, text); };
  watch.keep_going = [this](uint32_t computed, uint32_t prompt) {
    if (progress_) progress_->update(computed, prompt);
    return !interrupted() && console_->status().ok();
  };
  return watch;
}

void Speaker::turn(Channel channel) {
  if (channel_ == channel) return;
  if (channel_ == Channel::thinking) {
    console_->err(at_line_start_ ? "" : "\n");
    console_->err(console_->err_is_terminal() ? kPlain : "");
  } else if (channel_ == Channel::answer && !at_line_start_) {
    console_->out("\n");
  }
  if (channel == Channel::thinking && console_->err_is_terminal()) console_->err(kDim);
  channel_ = channel;
  at_line_start_ = true;
}

void Speaker::show(Channel channel, const std::string& text) {
  progress_.reset();
  if (silent_) return;
  turn(channel);
  if (channel == Channel::thinking)
    console_->err(console_->err_is_terminal() ? harmless(text) : text);
  else
    console_->out(console_->out_is_terminal() ? harmless(text) : text);
  at_line_start_ = text.back() == '\n';
}

void Speaker::finish() {
  progress_.reset();
  if (!channel_) return;
  if (channel_ == Channel::thinking)
    turn(Channel::answer);
  else if (!at_line_start_)
    console_->out("\n");
  channel_.reset();
}

}  // namespace sluice
