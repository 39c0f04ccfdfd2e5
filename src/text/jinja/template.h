// A Jinja template, as transformers renders chat templates: sandboxed, bounded, with trim_blocks and lstrip_blocks.
//
//   TRY(const jinja::Template hello, jinja::Template::parse("Hello {{ name }}!", "hello.jinja"));
//   TRY(const std::string text, hello.render(context));   // context: a dict of the variables
//
// Not supported: include, import, extends, block, autoescape, do, and integers beyond 64 bits.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/machine.h"

namespace sluice::jinja {

struct Statement;  // parse/ast.h

class Template {
 public:
  // Errors begin with `name` and the line: "chat_template.jinja:12: ...".
  static Result<Template> parse(std::string_view text, std::string_view name, const Limits& limits = {});

  // `context` is a dict whose keys are texts. `now` is the time for strftime_now. `usage`, if given, is set even when
  // rendering fails.
  Result<std::string> render(const Value& context, const std::tm& now, Usage* usage = nullptr) const;

 private:
  Template(std::string name, const Limits& limits, std::shared_ptr<const std::vector<Statement>> block)
      : name_(std::move(name)), limits_(limits), block_(std::move(block)) {}

  std::string name_;
  Limits limits_;
  std::shared_ptr<const std::vector<Statement>> block_;
};

}  // namespace sluice::jinja
