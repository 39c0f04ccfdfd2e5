#include "text/dialects/deepseek_v3.h"

#include <string_view>

namespace sluice {

namespace {

constexpr std::string_view kTemplate = R"jinja(
{%- macro said(content) -%}
  {%- if content is string -%}{{- content -}}
  {%- else -%}
    {%- for part in content or [] -%}{{- part.text -}}{%- endfor -%}
  {%- endif -%}
{%- endmacro -%}

{{- bos_token -}}
{%- for message in messages if message.role == 'system' -%}
  {{- ('' if loop.first else '\n\n') ~ said(message.content) -}}
{%- endfor -%}
{%- set asked = namespace(now=false) -%}
{%- for message in messages -%}
  {%- if message.role == 'user' -%}
    {{- '<｜User｜>' ~ said(message.content) -}}
    {%- set asked.now = true -%}
  {%- elif message.role == 'tool' -%}
    {{- '<｜tool▁output▁begin｜>' ~ said(message.content) ~ '<｜tool▁output▁end｜>' -}}
  {%- elif message.role == 'assistant' -%}
    {%- set text = said(message.content) -%}
    {%- set answer = text.split('</think>', 1) | last -%}
    {{- ('<｜Assistant｜>' if asked.now else '') ~ answer -}}
    {%- set asked.now = false -%}
    {%- for call in message.tool_calls or [] -%}
      {{- '<｜tool▁calls▁begin｜>' if loop.first else '' -}}
      {{- '<｜tool▁call▁begin｜>' ~ call.function.name ~ '<｜tool▁sep｜>' -}}
      {{- (call.function.arguments | tojson) ~ '<｜tool▁call▁end｜>' -}}
      {{- '<｜tool▁calls▁end｜>' if loop.last else '' -}}
    {%- endfor -%}
    {{- eos_token -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and asked.now -%}
  {{- '<｜Assistant｜>' ~ ('<think>\n' if enable_thinking is defined and enable_thinking else '') -}}
{%- endif -%}
)jinja";

}  // namespace

std::string deepseek_v3_chat_template() { return std::string(kTemplate.substr(1)); }

}  // namespace sluice
