// How a model writes calls of tools, by the name of the syntax. Sources: the chat templates of Gemma 4, Qwen3.5,
// Qwen3 and DeepSeek-V3/V3.1.
//
//   gemma4    <|tool_call>call:NAME{key:<|"|>text<|"|>,n:3,list:[1,2]}<tool_call|>
//   xml       <tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>
//             or <tool_call>\n{"name": NAME, "arguments": {...}}\n</tool_call>
//   deepseek  <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>, in V3 and R1
//             <｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n{...}\n```<｜tool▁call▁end｜>
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/grammar/call_grammar.h"

namespace sluice {

struct ToolCall {
  std::string name;
  Json arguments;  // an object
};

struct ToolSyntax {
  std::string_view name;
  std::string_view open, close;                  // around one call
  std::span<const std::string_view> inner = {};  // tokens within a call
  std::span<const std::string_view> outer = {};  // tokens around several calls, which nobody is shown
  // `body`: the text between `open` and `close`. `tools`: those of the request, because the type of a value may follow
  // from the schema. An error says what is wrong with the body.
  Result<ToolCall> (*parse)(std::string_view body, const Json& tools) = nullptr;
};

std::span<const ToolSyntax> tool_syntaxes();

// The syntax whose marker the chat template writes, else one whose marker is a token, which `has_token(text)` tells;
// null when there is none.
template <class HasToken>
const ToolSyntax* detect_tool_syntax(std::string_view template_text, HasToken has_token) {
  for (const ToolSyntax& syntax : tool_syntaxes())
    if (template_text.find(syntax.open) != std::string_view::npos) return &syntax;
  for (const ToolSyntax& syntax : tool_syntaxes())
    if (has_token(syntax.open)) return &syntax;
  return nullptr;
}

// How the template writes calls of the syntax that was found in it.
CallNotation detect_call_notation(const ToolSyntax& syntax, std::string_view template_text);

// The schema of the arguments of a tool in OpenAI's list of tools; null when the list has none.
const Json* find_parameters(const Json& tools, std::string_view tool);
// The schema of a parameter of a tool in OpenAI's list of tools; null when the list has none.
const Json* find_parameter(const Json& tools, std::string_view tool, std::string_view parameter);

}  // namespace sluice
