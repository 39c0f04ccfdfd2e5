// peer_render: a line of JSON {"file", "messages", "tools", "add_generation_prompt", "tokens": {…}, "extra": {…}} in, a
// line {"text"} or {"error"} out: what Sluice makes of a chat template. For templates.py.
#include <cstdio>
#include <ctime>
#include <iostream>
#include <map>
#include <string>

#include "base/files/file.h"
#include "base/limits.h"
#include "text/chat_template.h"

namespace sluice {
namespace {

// 2026-07-04 13:05:09, as in tools/make_jinja_vectors.py.
std::tm fixed_time() {
  std::tm now{};
  now.tm_year = 126, now.tm_mon = 6, now.tm_mday = 4;
  now.tm_hour = 13, now.tm_min = 5, now.tm_sec = 9;
  now.tm_wday = 6, now.tm_yday = 184;
  return now;
}

Result<std::string> rendered(const std::string& line) {
  TRY(const Json request, parse_json(line, "request"));
  TRY(const std::string text, read_file(request.find("file")->as_string(), kMaxDocumentBytes));
  TRY(const ChatTemplate chat, ChatTemplate::parse(text, "template"));
  ChatInput input{.messages = *request.find("messages"),
                  .tools = *request.find("tools"),
                  .add_generation_prompt = request.find("add_generation_prompt")->as_bool(),
                  .extra = *request.find("extra"),
                  .now = fixed_time()};
  for (const auto& [name, token] : request.find("tokens")->as_object())
    input.special_tokens.emplace_back(name, token.as_string());
  return chat.render(input);
}

int run() {
  for (std::string line; std::getline(std::cin, line);) {
    const Result<std::string> text = rendered(line);
    Json reply;
    text ? reply.add("text", *text) : reply.add("error", text.error().text);
    std::cout << write_json(reply) << '\n';
  }
  return 0;
}

}  // namespace
}  // namespace sluice

int main() { return sluice::run(); }
