#include "text/dialects/qwen3_5.h"

#include <string_view>

namespace sluice {

namespace {

constexpr std::string_view kTemplate = R"jinja(
{%- macro said(content) -%}
  {%- if content is string -%}{{- content -}}
  {%- else -%}
    {%- for part in content or [] -%}
      {%- if part.type in ('image', 'image_url') -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
      {%- elif part.type == 'video' -%}{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
      {%- else -%}{{- part.text -}}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro -%}

{%- set instructed = messages[0].role == 'system' -%}
{%- if instructed or tools -%}
  {{- '<|im_start|>system\n' -}}
  {%- if tools -%}
    {{- '# Tools\n\n<tools>\n' -}}
    {%- for tool in tools -%}{{- (tool | tojson) ~ '\n' -}}{%- endfor -%}
    {{- '</tools>' ~ ('\n\n' if instructed else '') -}}
  {%- endif -%}
  {{- (said(messages[0].content) | trim if instructed else '') ~ '<|im_end|>\n' -}}
{%- endif -%}

{%- set last = namespace(question=-1, role='') -%}
{%- for message in messages -%}
  {%- if message.role == 'user' -%}{%- set last.question = loop.index0 -%}{%- endif -%}
{%- endfor -%}

{%- for message in messages -%}
  {%- set text = said(message.content) | trim -%}
  {%- if last.role == 'tool' and message.role != 'tool' -%}{{- '<|im_end|>\n' -}}{%- endif -%}
  {%- if message.role == 'tool' -%}
    {{- ('' if last.role == 'tool' else '<|im_start|>user') ~ '\n<tool_response>\n' ~ text ~ '\n</tool_response>' -}}
  {%- elif message.role == 'assistant' -%}
    {%- set thought = message.reasoning_content or '' -%}
    {%- if not thought and '</think>' in text -%}
      {#- What was thought stands before the last closing marker. -#}
      {%- set thought = text.split('</think>') | first -%}
      {%- set thought = thought.split('<think>') | last -%}
      {%- set text = (text.split('</think>') | last).lstrip('\n') -%}
    {%- endif -%}
    {{- '<|im_start|>assistant\n' -}}
    {%- if thinks and loop.index0 > last.question -%}{{- '<think>\n' ~ (thought | trim) ~ '\n</think>\n\n' -}}{%- endif -%}
    {{- text -}}
    {%- for call in message.tool_calls or [] -%}
      {{- '\n' if not loop.first else '\n\n' if text else '' -}}
      {{- '<tool_call>\n<function=' ~ call.function.name ~ '>\n' -}}
      {%- for name, value in call.function.arguments | items -%}
        {{- '<parameter=' ~ name ~ '>\n' ~ (value if value is string else value | tojson) ~ '\n</parameter>\n' -}}
      {%- endfor -%}
      {{- '</function>\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>\n' -}}
  {%- elif message.role != 'system' or not loop.first -%}
    {{- '<|im_start|>' ~ message.role ~ '\n' ~ text ~ '<|im_end|>\n' -}}
  {%- endif -%}
  {%- set last.role = message.role -%}
{%- endfor -%}
{{- '<|im_end|>\n' if last.role == 'tool' else '' -}}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\n' -}}
  {%- if thinks -%}
    {{- '<think>\n' if enable_thinking is undefined or enable_thinking else '<think>\n\n</think>\n\n' -}}
  {%- endif -%}
{%- endif -%}
)jinja";

}  // namespace

std::string qwen3_5_chat_template(bool thinks) {
  std::string text = thinks ? "{%- set thinks = true -%}" : "{%- set thinks = false -%}";
  return text.append(kTemplate);
}

}  // namespace sluice
