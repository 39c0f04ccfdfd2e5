#include "app/cli/args.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace sluice {
namespace {

const OptionSpec* find_option(const CommandSpec& command, std::string_view name) {
  const auto found = std::find_if(command.options.begin(), command.options.end(),
                                  [&](const OptionSpec& option) { return option.name == name; });
  return found == command.options.end() ? nullptr : &*found;
}

Error usage(const CommandSpec& command, std::string_view why) {
  return error(ErrorKind::invalid, command.name, ": ", why, " (sluice ", command.name, " --help)");
}

std::string range_text(const OptionSpec& option) {
  if (option.most >= 1e18) return cat("at least ", option.least);
  return cat(option.least, " to ", option.most);
}

bool in_range(const OptionSpec& option, double value) { return value >= option.least && value <= option.most; }

// The values that the option accepts, if `value` is not one of them; else "".
std::string want_of(const OptionSpec& option, const std::string& value) {
  switch (option.kind) {
    case OptionKind::flag:
    case OptionKind::text: return "";
    case OptionKind::integer: {
      const auto number = parse_integer(value);
      return number && in_range(option, static_cast<double>(*number)) ? ""
                                                                      : cat("a whole number, ", range_text(option));
    }
    case OptionKind::number: {
      const auto number = parse_number(value);
      return number && in_range(option, *number) ? "" : cat("a number, ", range_text(option));
    }
    case OptionKind::bytes: return parse_bytes(value) ? "" : "a size such as 512M or 4G";
    case OptionKind::choice: {
      const std::string values = option.choices[0] != '\0' ? option.choices : option.argument;
      const std::vector<std::string> choices = split(values, '|');
      return std::find(choices.begin(), choices.end(), value) != choices.end() ? "" : values;
    }
  }
  return "";
}

std::string positional_names(const CommandSpec& command) {
  std::string names;
  for (const PositionalSpec& positional : command.positionals) names += cat(names.empty() ? "" : " ", positional.name);
  return names;
}

}  // namespace

std::optional<uint64_t> parse_bytes(std::string_view text) {
  struct Unit {
    std::string_view suffix;
    double factor;
  };
  constexpr double kKibi = 1024;
  static constexpr Unit kUnits[] = {
      {"Ki", kKibi},
      {"Mi", kKibi * kKibi},
      {"Gi", kKibi * kKibi * kKibi},
      {"Ti", kKibi * kKibi * kKibi * kKibi},
      {"k", 1e3},
      {"M", 1e6},
      {"G", 1e9},
      {"T", 1e12},
      {"", 1},
  };
  for (const Unit& unit : kUnits) {
    if (!ends_with(text, unit.suffix)) continue;
    const auto number = parse_number(text.substr(0, text.size() - unit.suffix.size()));
    const double bytes = number.value_or(-1) * unit.factor;
    return bytes >= 0 && bytes < 9e18 ? std::optional<uint64_t>(static_cast<uint64_t>(std::llround(bytes)))
                                      : std::nullopt;
  }
  return std::nullopt;
}

Result<Arguments> parse_arguments(const CommandSpec& spec, std::span<const std::string> words) {
  Arguments arguments;
  arguments.command_ = &spec;
  bool options_ended = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (options_ended || word.size() < 2 || word[0] != '-')
      arguments.positionals_.push_back(word);
    else if (word == "--")
      options_ended = true;
    else
      TRY_STATUS(arguments.take_option(words, i));
  }
  TRY_STATUS(arguments.check_positionals());
  TRY_STATUS(arguments.check_required());
  return arguments;
}

Status Arguments::take_option(std::span<const std::string> words, size_t& at) {
  const std::string& word = words[at];
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const OptionSpec* option = find_option(*command_, name);
  if (option == nullptr) return usage(*command_, cat("unknown option ", printable(name)));
  if (option->kind == OptionKind::flag) {
    given_[name].emplace_back();
    return equals == std::string::npos ? Status() : usage(*command_, cat(name, " takes no value"));
  }
  if (equals == std::string::npos && at + 1 == words.size())
    return usage(*command_, cat(name, " wants a value: ", option->argument));
  std::string value = equals == std::string::npos ? words[++at] : word.substr(equals + 1);
  if (const std::string want = want_of(*option, value); !want.empty())
    return usage(*command_, cat(name, " is ", printable(value), ": want ", want));
  std::vector<std::string>& values = given_[name];
  if (!option->repeated) values.clear();
  values.push_back(std::move(value));
  return {};
}

Status Arguments::check_positionals() const {
  const std::vector<PositionalSpec>& wanted = command_->positionals;
  if (positionals_.size() < wanted.size() && wanted[positionals_.size()].required)
    return usage(*command_, cat("missing ", wanted[positionals_.size()].name));
  for (size_t i = 0; i < std::min(positionals_.size(), wanted.size()); ++i) {
    const std::vector<std::string> choices = split(wanted[i].name, '|');
    if (choices.size() > 1 && std::find(choices.begin(), choices.end(), positionals_[i]) == choices.end())
      return usage(*command_, cat(printable(positionals_[i]), ": want ", wanted[i].name));
  }
  if (positionals_.size() > wanted.size()) {
    const std::string names = positional_names(*command_);
    return usage(*command_, cat("unexpected argument ", printable(positionals_[wanted.size()]), ": want ",
                                names.empty() ? "options only" : names));
  }
  return {};
}

Status Arguments::check_required() const {
  for (const OptionSpec& option : command_->options)
    if (option.required && !given(option.name))
      return usage(*command_, cat("missing ", option.name, ' ', option.argument));
  return {};
}

const OptionSpec& Arguments::spec(std::string_view name, OptionKind kind) const {
  const OptionSpec* option = find_option(*command_, name);
  CHECK(option != nullptr && option->kind == kind);
  return *option;
}

std::string Arguments::value(const OptionSpec& option) const {
  const auto found = given_.find(option.name);
  return found == given_.end() ? option.fallback : found->second.back();
}

bool Arguments::flag(std::string_view name) const {
  spec(name, OptionKind::flag);
  return given(name);
}

bool Arguments::given(std::string_view name) const {
  CHECK(find_option(*command_, name) != nullptr);
  return given_.find(name) != given_.end();
}

int64_t Arguments::integer(std::string_view name) const {
  const OptionSpec* option = find_option(*command_, name);
  CHECK(option != nullptr);
  if (option->kind == OptionKind::bytes) return static_cast<int64_t>(parse_bytes(value(*option)).value_or(0));
  CHECK(option->kind == OptionKind::integer);
  return parse_integer(value(*option)).value_or(0);
}

double Arguments::number(std::string_view name) const {
  return parse_number(value(spec(name, OptionKind::number))).value_or(0);
}

std::string Arguments::text(std::string_view name) const {
  const OptionSpec* option = find_option(*command_, name);
  CHECK(option != nullptr && (option->kind == OptionKind::text || option->kind == OptionKind::choice));
  return value(*option);
}

std::vector<std::string> Arguments::all(std::string_view name) const {
  CHECK(find_option(*command_, name) != nullptr);
  const auto found = given_.find(name);
  return found == given_.end() ? std::vector<std::string>() : found->second;
}

}  // namespace sluice
