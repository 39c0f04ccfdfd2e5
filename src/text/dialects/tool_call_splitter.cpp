#include "text/dialects/tool_call_splitter.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace sluice {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// Length of the longest end of `text` that may begin `marker`, less than all of the marker.
size_t overlap(std::string_view text, std::string_view marker) {
  for (size_t n = std::min(text.size(), marker.size() - 1); n > 0; --n)
    if (starts_with(marker, text.substr(text.size() - n))) return n;
  return 0;
}

// A character that no text has. In a body it keeps letters that spell a marker from being read as the marker.
constexpr std::string_view kSpelled = "\xEF\xB7\x91";  // U+FDD1, which Unicode reserves for uses like this

void remove_guard(std::string& text) {
  for (size_t at = text.find(kSpelled); at != std::string::npos; at = text.find(kSpelled, at))
    text.erase(at, kSpelled.size());
}
void remove_guard(Json& value) {  // NOLINT(misc-no-recursion): the depth of a call's arguments is bounded
  if (value.is_string()) {
    std::string text = value.as_string();
    remove_guard(text);
    value = std::move(text);
  } else if (value.is_array()) {
    for (Json& one : value.as_array()) remove_guard(one);
  } else if (value.is_object()) {
    for (auto& [name, one] : value.as_object()) {
      remove_guard(name);
      remove_guard(one);
    }
  }
}

}  // namespace

ToolCallSplitter::ToolCallSplitter(const ToolSyntax& syntax, Json tools, Markers markers)
    : syntax_(syntax), tools_(std::move(tools)), markers_(markers), outside_({syntax.open, syntax.close}) {
  outside_.insert(outside_.end(), syntax.outer.begin(), syntax.outer.end());
}

bool ToolCallSplitter::is_marker(std::string_view token) const {
  return std::ranges::find(outside_, token) != outside_.end() ||
         std::ranges::find(syntax_.inner, token) != syntax_.inner.end();
}

std::vector<ToolPiece> ToolCallSplitter::push(std::string_view text, bool is_token) {
  if (is_token && is_marker(text)) {
    take_marker(text);
  } else if (markers_ == Markers::as_tokens) {
    pass(text);
  } else {
    held_ += text;
    scan();
  }
  return std::exchange(out_, {});
}

std::vector<ToolPiece> ToolCallSplitter::flush() {
  (in_call_ ? body_ : blanks_) += std::exchange(held_, {});
  if (in_call_) end_call({});
  const std::string rest = std::exchange(blanks_, {});
  if (!any_call_ || rest.find_first_not_of(kBlanks) != std::string::npos) {
    if (!rest.empty()) out_.emplace_back(rest);
  }
  return std::exchange(out_, {});
}

// Handles every whole marker in the held text. Keeps back only the end of the text that may begin another marker.
void ToolCallSplitter::scan() {
  for (;;) {
    std::string_view first;
    size_t at = std::string::npos;
    const auto look_for = [&](std::string_view marker) {
      const size_t found = held_.find(marker);
      if (found >= at) return;
      at = found;
      first = marker;
    };
    if (in_call_) {
      look_for(syntax_.open);
      look_for(syntax_.close);
    } else {
      std::ranges::for_each(outside_, look_for);
    }
    if (at == std::string::npos) break;
    pass(std::string_view(held_).substr(0, at));
    held_.erase(0, at + first.size());
    take_marker(first);
  }
  size_t undecided = 0;
  for (const std::string_view marker : outside_) undecided = std::max(undecided, overlap(held_, marker));
  const std::string settled = held_.substr(0, held_.size() - undecided);
  held_.erase(0, settled.size());
  pass(settled);
}

// A call that begins ends the one before it, because models forget the closing marker. Outside a call a closing marker
// means nothing.
void ToolCallSplitter::take_marker(std::string_view marker) {
  if (marker == syntax_.open) {
    if (in_call_) end_call({});
    in_call_ = true;
  } else if (in_call_ && marker == syntax_.close) {
    end_call(marker);
  } else if (in_call_) {
    guard_text();
    body_ += marker;
    text_begin_ = body_.size();
  }
}

// Marks what spells an inner marker in the text behind the last one. Where markers are no tokens, it is the marker.
void ToolCallSplitter::guard_text() {
  if (markers_ != Markers::as_tokens) return;
  for (const std::string_view marker : syntax_.inner)
    for (size_t at = body_.find(marker, text_begin_); at != std::string::npos; at = body_.find(marker, at)) {
      body_.insert(at + 1, kSpelled);
      is_guarded_ = true;
    }
}

void ToolCallSplitter::pass(std::string_view text) {
  if (in_call_)
    body_ += text;
  else
    show(text);
}

void ToolCallSplitter::end_call(std::string_view close) {
  guard_text();
  std::string body = std::exchange(body_, {});
  text_begin_ = 0;
  in_call_ = false;
  if (Result<ToolCall> call = syntax_.parse(body, tools_)) {
    any_call_ = true;
    blanks_.clear();
    if (is_guarded_) remove_guard(call->arguments);
    out_.emplace_back(*std::move(call));
  } else {
    if (is_guarded_) remove_guard(body);
    show(cat(syntax_.open, body, close));
  }
  is_guarded_ = false;
}

// Text of the answer, less the blanks at its end, which a call may follow.
void ToolCallSplitter::show(std::string_view text) {
  const size_t last = text.find_last_not_of(kBlanks);
  if (last == std::string_view::npos) {
    blanks_ += text;
    return;
  }
  out_.emplace_back(std::exchange(blanks_, std::string(text.substr(last + 1))) + std::string(text.substr(0, last + 1)));
}

}  // namespace sluice
