#include "app/run/speaker.h"

#include <utility>

#include "app/cli/interrupt.h"
#include "base/text.h"
#include "base/unicode.h"

namespace sluice {

constexpr size_t kMostNameBytes = 50;  // so that the line fits a terminal's and can be erased

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

std::string cut_note(const Reply& reply, size_t context) {
  if (reply.end != TurnEnd::length) return {};
  const size_t used = size_t{reply.usage.prompt_tokens} + reply.usage.answer_tokens;
  if (used >= context) return cat("the answer ends here: the context of ", context, " tokens is full");
  return cat("the answer ends here: --max-tokens ", reply.usage.answer_tokens);
}

Speaker::Speaker(Console& console, bool silent) : console_(&console), silent_(silent), wrap_(console.columns()) {
  look_at(nullptr);
}

void Speaker::end_progress() {
  progress_.reset();
  if (std::exchange(looking_, false)) console_->err(kClearLine);
}

// Null: the prompt is read.
void Speaker::look_at(const PreparedMedia* media) {
  if (media == nullptr || !console_->err_is_terminal()) {
    if (looking_ || !progress_) {
      end_progress();
      progress_.emplace(*console_, "reading the prompt", "tokens");
    }
    return;
  }
  end_progress();
  const bool is_sound = media->input.tower == ProgramKind::audio;
  const std::string name = media->label.empty() ? "it" : printable(media->label, kMostNameBytes);
  console_->err(cat(kDim, is_sound ? "listening to " : "looking at ", name, kPlain));
  looking_ = true;
}

TurnWatch Speaker::watch() {
  TurnWatch watch;
  watch.event = [this](const TurnEvent& event) {
    if (const auto* text = std::get_if<TextEvent>(&event)) show(Channel::answer, text->text);
    if (const auto* thinking = std::get_if<ThinkingEvent>(&event)) show(Channel::thinking, thinking->text);
    if (const auto* call = std::get_if<ToolCallEvent>(&event)) show_call(call->call);
  };
  watch.looking = [this](const PreparedMedia* media) { look_at(media); };
  watch.keep_going = [this](const Usage& usage) {
    if (progress_) progress_->update(usage.computed_tokens, usage.prompt_tokens);
    return !interrupted() && console_->status().ok();
  };
  return watch;
}

void Speaker::write(Channel channel, const std::string& text) {
  if (text.empty()) return;
  if (channel == Channel::thinking)
    console_->err(text);
  else
    console_->out(text);
  at_line_start_ = text.back() == '\n';
}

void Speaker::end_word() {
  if (channel_) write(*channel_, wrap_.finish());
}

void Speaker::turn(Channel channel) {
  if (channel_ == channel) return;
  end_word();
  wrap_ = WordWrap(console_->columns());
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
  end_progress();
  if (silent_) return;
  turn(channel);
  const bool terminal = channel == Channel::thinking ? console_->err_is_terminal() : console_->out_is_terminal();
  write(channel, terminal ? wrap_.add(harmless(text)) : text);
}

// A line of its own, which no terminal's width breaks.
void Speaker::show_call(const ToolCall& call) {
  end_progress();
  if (silent_) return;
  turn(Channel::answer);
  end_word();
  const char* begin = at_line_start_ ? "" : "\n";
  write(Channel::answer, harmless(cat(begin, printable(call.name), ' ', write_json(call.arguments), '\n')));
}

void Speaker::finish() {
  end_progress();
  if (!channel_) return;
  end_word();
  if (channel_ == Channel::thinking)
    turn(Channel::answer);
  else if (!at_line_start_)
    console_->out("\n");
  channel_.reset();
}

}  // namespace sluice
