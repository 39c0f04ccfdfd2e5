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

TurnWatch Speaker::watch() {
  TurnWatch watch;
  watch.event = [this](const TurnEvent& event) {
    if (const auto* text = std::get_if<TextEvent>(&event)) show(Channel::answer, text->text);
    if (const auto* thinking = std::get_if<ThinkingEvent>(&event)) show(Channel::thinking, thinking->text);
  };
  watch.keep_going = [this](const Usage& usage) {
    if (progress_) progress_->update(usage.computed_tokens, usage.prompt_tokens);
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
