#include "app/cli/args.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/suggest.h"
#include "base/text.h"

namespace sluice {
namespace {

bool is_alias(std::string_view aliases, std::string_view name) {
  const std::vector<std::string> all = alias_list(aliases);
  return std::ranges::find(all, name) != all.end();
}

const OptionSpec* find_option(const CommandSpec& command, std::string_view name) {
  const auto found = std::ranges::find_if(
      command.options, [&](const OptionSpec& option) { return option.name == name || is_alias(option.aliases, name); });
  return found == command.options.end() ? nullptr : &*found;
}

// All names that the command's options have.
std::vector<std::string> option_names(const CommandSpec& command) {
  std::vector<std::string> names;
  const auto add_aliases = [&](const char* aliases) {
    for (std::string& alias : alias_list(aliases)) names.push_back(std::move(alias));
  };
  for (const OptionSpec& option : command.options) {
    names.emplace_back(option.name);
    add_aliases(option.aliases);
  }
  for (const PositionalSpec& positional : command.positionals) add_aliases(positional.option);
  return names;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// A choice in any case, as the table writes it; `value` itself where it is none.
std::string as_choice(const OptionSpec& option, const std::string& value) {
  if (option.kind != OptionKind::choice) return value;
  for (const std::string& choice : split(option.choices[0] != '\0' ? option.choices : option.argument, '|'))
    if (lower(choice) == lower(value)) return choice;
  return value;
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

std::vector<std::string> alias_list(std::string_view aliases) {
  return aliases.empty() ? std::vector<std::string>() : split(aliases, '|');
}

std::optional<uint64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kUnits = "kmgt";
  std::string number = lower(text);
  const bool has_b = ends_with(number, "b");
  if (has_b) number.pop_back();
  const bool binary = ends_with(number, "i");
  if (binary) number.pop_back();
  const size_t unit = number.empty() ? std::string_view::npos : kUnits.find(number.back());
  if (unit != std::string_view::npos) number.pop_back();
  if (binary && unit == std::string_view::npos) return std::nullopt;
  const double factor = unit == std::string_view::npos ? 1 : std::pow(binary ? 1024.0 : 1000.0, unit + 1);
  const double bytes = parse_number(number).value_or(-1) * factor;
  if (!(bytes >= 0 && bytes < 9e18)) return std::nullopt;
  return static_cast<uint64_t>(std::llround(bytes));
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
  arguments.place_positionals();
  TRY_STATUS(arguments.check_positionals());
  TRY_STATUS(arguments.check_required());
  return arguments;
}

Result<Arguments> Arguments::with(std::span<const std::string> options) const {
  Arguments more, all = *this;
  more.command_ = command_;
  for (size_t i = 0; i < options.size(); ++i) TRY_STATUS(more.take_option(options, i));
  for (auto& [name, values] : more.given_) all.given_[name] = std::move(values);
  return all;
}

// `value`: of an option that gives a positional argument.
Status Arguments::take_positional_option(const std::string& name, std::string value) {
  const std::vector<PositionalSpec>& wanted = command_->positionals;
  const auto found =
      std::ranges::find_if(wanted, [&](const PositionalSpec& one) { return is_alias(one.option, name); });
  CHECK(found != wanted.end());
  named_positionals_[static_cast<size_t>(found - wanted.begin())] = std::move(value);
  return {};
}

// Puts the positional arguments that options gave among the others.
void Arguments::place_positionals() {
  if (named_positionals_.empty()) return;
  std::vector<std::string> plain = std::exchange(positionals_, {});
  size_t next = 0;
  for (size_t at = 0; next < plain.size() || at <= named_positionals_.rbegin()->first; ++at) {
    const auto named = named_positionals_.find(at);
    if (named != named_positionals_.end())
      positionals_.push_back(named->second);
    else
      positionals_.push_back(next < plain.size() ? plain[next++] : command_->positionals[at].fallback);
  }
}

Status Arguments::take_option(std::span<const std::string> words, size_t& at) {
  const std::string& word = words[at];
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const OptionSpec* option = find_option(*command_, name);
  const bool positional =
      std::ranges::any_of(command_->positionals, [&](const PositionalSpec& one) { return is_alias(one.option, name); });
  if (option == nullptr && !positional)
    return usage(*command_, cat("unknown option ", printable(name), did_you_mean(name, option_names(*command_))));
  if (option != nullptr && option->kind == OptionKind::flag) {
    given_[option->name].emplace_back();
    return equals == std::string::npos ? Status() : usage(*command_, cat(name, " takes no value"));
  }
  if (equals == std::string::npos && at + 1 == words.size())
    return usage(*command_, cat(name, " wants a value", positional ? "" : cat(": ", option->argument)));
  std::string value = equals == std::string::npos ? words[++at] : word.substr(equals + 1);
  if (positional) return take_positional_option(name, std::move(value));
  value = as_choice(*option, value);
  if (const std::string want = want_of(*option, value); !want.empty())
    return usage(*command_, cat(name, " is ", printable(value), ": want ", want));
  std::vector<std::string>& values = given_[option->name];
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
  if (positionals_.size() > wanted.size() && (wanted.empty() || !wanted.back().repeated)) {
    const std::string names = positional_names(*command_);
    const std::string why = cat("unexpected argument ", printable(positionals_[wanted.size()]), ": want ");
    if (!wanted.empty() && wanted.back().is_prose)
      return usage(*command_, cat(why, wanted.back().name, " in quotes: \"", printable(positionals_[wanted.size() - 1]),
                                  ' ', printable(positionals_[wanted.size()]), " ...\""));
    return usage(*command_, cat(why, names.empty() ? "options only" : names));
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
