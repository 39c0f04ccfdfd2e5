// Answers of a model from any bytes, split into thinking, text and calls of tools. The first byte chooses the syntax
// and the dialect. A line of "=" ends the list of tools, which may be missing; what follows is the answer. How an
// answer is cut into pieces changes nothing, and what was UTF-8 stays UTF-8.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/unicode.h"
#include "chat/open_model.h"
#include "serve/openai/messages.h"
#include "text/answer_stream.h"

namespace sluice {
namespace {

constexpr size_t kPieces[] = {1, 7};  // bytes

// Text of one kind is joined, so that only the text counts, not its pieces.
class Shown {
 public:
  void add(char kind, std::string_view text) {
    if (kind != last_) all_ += cat('\n', kind);
    last_ = kind;
    all_ += text;
  }
  void add(std::vector<ToolPiece> pieces) {
    for (const ToolPiece& piece : pieces)
      if (const auto* text = std::get_if<std::string>(&piece))
        add('a', *text);
      else
        add(std::get<ToolCall>(piece));
  }
  void add(const ToolCall& call) {
    CHECK(call.arguments.is_object());
    add('c', cat(call.name, ' ', write_json(call.arguments)));
    last_ = 0;  // a call is whole
  }
  void add(const std::vector<ChannelText>& texts) {
    for (const ChannelText& one : texts) {
      CHECK(!one.text.empty());
      add(one.channel == Channel::thinking ? 't' : 'a', one.text);
    }
  }
  const std::string& all() const { return all_; }

 private:
  std::string all_;
  char last_ = 0;
};

template <class Splitter>
std::string split(Splitter splitter, std::string_view answer, size_t piece) {
  Shown shown;
  for (size_t at = 0; at < answer.size(); at += piece) shown.add(splitter.push(answer.substr(at, piece)));
  shown.add(splitter.flush());
  return shown.all();
}

template <class Splitter>
void check_pieces(const Splitter& splitter, std::string_view answer) {
  const std::string whole = split(splitter, answer, answer.size() + 1);
  for (const size_t piece : kPieces) CHECK(split(splitter, answer, piece) == whole);
}

const TextParts& text_of(size_t which) {
  static constexpr const char* kModels[] = {"gemma4_dense", "qwen3_5_moe", "deepseek_v3"};
  static const std::vector<TextParts> all = [] {
    std::vector<TextParts> opened;
    for (const char* name : kModels) {
      const Result<Model> model = open_model(cat("tests/data/", name));
      CHECK(model);
      Result<TextParts> text = open_text(*model);
      CHECK(text);
      opened.push_back(*std::move(text));
    }
    return opened;
  }();
  return all[which % all.size()];
}

// By the tokens of a model, as the engine gives them.
void stream(const TextParts& text, const Json& tools, std::string_view answer) {
  Shown shown;
  std::string shown_text;
  AnswerStream stream(text.tokenizer, *text.dialect, "", {"stop"}, [&](Channel channel, const std::string& piece) {
    shown.add(channel == Channel::thinking ? 't' : 'a', piece);
  });
  stream.expect_calls({.syntax = text.tool_syntax, .tools = tools}, [&](const ToolCall& call) { shown.add(call); });
  for (const int32_t id : text.tokenizer.encode(answer))
    if (!stream.push(id)) break;
  stream.finish();
  CHECK(stream.answer().find("stop") == std::string::npos);
  if (is_utf8(answer)) CHECK(is_utf8(shown.all()));
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;  // NOLINT(google-build-using-namespace)
  if (size == 0) return 0;
  std::string_view answer(reinterpret_cast<const char*>(data + 1), size - 1);
  Json tools = Json::Array{};
  if (const size_t end = answer.find("\n=\n"); end != std::string_view::npos) {
    if (const auto given = parse_json(answer.substr(0, end), "tools"); given && given->is_array())
      if (auto checked = checked_tools(*given)) tools = *std::move(checked);
    answer.remove_prefix(end + 3);
  }
  const ToolSyntax& syntax = tool_syntaxes()[data[0] % tool_syntaxes().size()];
  const ChatDialect& dialect = dialects()[data[0] / 8 % dialects().size()];
  check_pieces(ToolCallSplitter(syntax, tools, ToolCallSplitter::Markers::in_text), answer);
  check_pieces(ChannelSplitter(dialect, data[0] < 128 ? Channel::answer : Channel::thinking), answer);
  stream(text_of(data[0]), tools, answer);
  return 0;
}
