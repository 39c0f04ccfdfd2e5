#include "text/jinja/template.h"

#include "base/unicode.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parse/parser.h"

namespace sluice::jinja {

Result<Template> Template::parse(std::string_view text, std::string_view name, const Limits& limits) {
  if (text.size() > limits.template_bytes) {
    return error(ErrorKind::invalid, name, ": found a template of ", format_bytes(text.size()), ": want ",
                 format_bytes(limits.template_bytes), " at most");
  }
  if (!is_utf8(text)) return error(ErrorKind::invalid, name, ": found bytes that are not UTF-8: want text");
  TRY(Block block, jinja::parse(text, name));
  return Template(std::string(name), limits, std::make_shared<const Block>(std::move(block)));
}

Result<std::string> Template::render(const Value& context, const std::tm& now, Usage* usage) const {
  CHECK(context.is(Kind::dict));
  Machine machine(name_, limits_, now);
  Result<std::string> text = Interpreter(machine, context.as_dict()).run(*block_);
  if (usage != nullptr) *usage = machine.usage();
  return text;
}

}  // namespace sluice::jinja
