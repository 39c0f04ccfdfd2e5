#include "text/dialects/gemma4.h"

#include <string_view>

namespace sluice {

namespace {

constexpr std::string_view kTemplate = R"jinja(
{%- macro notation(x) -%}
  {%- if x is mapping -%}
    {{- '{' -}}
    {%- for key, member in x | dictsort -%}
      {{- '' if loop.first else ',' -}}{{- key ~ ':' -}}{{- notation(member) -}}
    {%- endfor -%}
    {{- '}' -}}
  {%- elif x is string -%}{{- '<|"|>' ~ x ~ '<|"|>' -}}
  {%- elif x is boolean -%}{{- x | string | lower -}}
  {%- elif x is sequence -%}
    {{- '[' -}}
    {%- for member in x -%}{{- '' if loop.first else ',' -}}{{- notation(member) -}}{%- endfor -%}
    {{- ']' -}}
  {%- else -%}{{- x -}}
  {%- endif -%}
{%- endmacro -%}

{%- macro said(content, by_model) -%}
  {%- if content is string and by_model -%}
    {#- Before each closing marker stands what was said, then the thought it closes. -#}
    {%- set spoken = namespace(text='') -%}
    {%- for part in content.split('<channel|>') -%}
      {%- set spoken.text = spoken.text ~ part.split('<|channel>') | first -%}
    {%- endfor -%}
    {{- spoken.text | trim -}}
  {%- elif content is string -%}{{- content | trim -}}
  {%- else -%}
    {%- for part in content or [] -%}
      {%- if part.type == 'text' -%}{{- part.text | trim -}}
      {%- elif part.type in ('image', 'audio', 'video') -%}{{- '<|' ~ part.type ~ '|>' -}}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro -%}

{%- set thinks = enable_thinking is defined and enable_thinking -%}
{%- set conversation = messages -%}
{%- set instruction = '' -%}
{%- set instructed = messages[0].role in ('system', 'developer') -%}
{%- if instructed -%}
  {%- set instruction = said(messages[0].content, false) -%}
  {%- set conversation = messages[1:] -%}
{%- endif -%}

{{- bos_token -}}
{%- if instructed or thinks or tools -%}
  {{- '<|turn>system\n' ~ ('<|think|>\n' if thinks else '') ~ instruction -}}
  {%- for tool in tools or [] -%}
    {%- set schema = tool.function -%}
    {{- '<|tool>declaration:' ~ schema.name ~ '{description:' ~ notation(schema.description) -}}
    {{- ',parameters:' ~ notation(schema.parameters) if schema.parameters else '' -}}
    {{- '}<tool|>' -}}
  {%- endfor -%}
  {{- '<turn|>\n' -}}
{%- endif -%}

{%- set before = namespace(role='') -%}
{%- for message in conversation -%}
  {%- if message.role == 'tool' -%}
    {{- '<|tool_response>response:' ~ (message.name | default('unknown')) -}}
    {{- '{value:' ~ notation(message.content) ~ '}<tool_response|>' -}}
  {%- else -%}
    {%- set by_model = message.role == 'assistant' or message.role == 'model' -%}
    {%- if not (by_model and before.role == 'tool') -%}
      {{- '<|turn>' ~ ('model' if by_model else message.role) ~ '\n' -}}
    {%- endif -%}
    {%- for call in message.tool_calls or [] -%}
      {{- '<|tool_call>call:' ~ call.function.name ~ notation(call.function.arguments) ~ '<tool_call|>' -}}
    {%- endfor -%}
    {{- said(message.content, by_model) -}}
    {{- '' if message.tool_calls else '<turn|>\n' -}}
  {%- endif -%}
  {%- set before.role = message.role -%}
{%- endfor -%}
{%- if add_generation_prompt and before.role != 'tool' -%}
  {{- '<|turn>model\n' -}})jinja";

constexpr std::string_view kEmptyThought = R"jinja(
  {{- '' if thinks else '<|channel>thought\n<channel|>' -}})jinja";

}  // namespace

std::string gemma4_chat_template(bool empty_thought) {
  std::string text(kTemplate.substr(1));
  if (empty_thought) text += kEmptyThought;
  return text + "\n{%- endif -%}\n";
}

}  // namespace sluice
