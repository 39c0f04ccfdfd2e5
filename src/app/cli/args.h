// The options of a command. Parsing, usage errors, --help and docs/cli.md all derive from CommandSpec.
//
//   const Arguments arguments = parse_arguments(spec, words)  ->  arguments.integer("--max-tokens")
//
// "--name value", "--name=value", "--flag", and "--no-flag" if the table has one; "--" ends them. An option may have
// other spellings, such as "-n". Parsing checks the values, so the getters cannot fail.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

class Console;

enum class OptionKind : uint8_t { flag, text, integer, number, bytes, choice };

struct OptionSpec {
  const char* name = "";      // "--max-tokens"
  const char* aliases = "";   // other spellings: "-n|--n-predict"
  const char* argument = "";  // "N"; the values of a choice: "exact|fast"; "" for a flag
  const char* choices = "";   // the values of a choice that are too many for a line, so that its argument is a name
  OptionKind kind = OptionKind::flag;
  const char* fallback = "";  // the default as one would write it; "": none
  const char* help = "";
  double least = 0, most = 1e18;  // of integers and numbers
  bool repeated = false;          // may be given several times
  bool required = false;
};

struct PositionalSpec {
  const char* name = "";  // "FILE"; of a choice its values: "bash|zsh|fish"
  bool required = false;
  const char* help = "";
  const char* option = "";    // options that give it, too: "-m|--model"
  const char* fallback = "";  // stands for it when only a later one is given
  bool is_prose = false;      // has spaces, so that quotes are easily forgotten
  bool repeated = false;      // the last one: may be given several times
};

// A term on the left, its meaning on the right.
struct TableRow {
  std::string head, text;
};
struct TableSpec {
  const char* title = "";
  std::vector<TableRow> rows;
};

struct ExampleSpec {
  const char* line = "";
  const char* what = "";
};

// A member of a command's --json object; parts of members are written "cases[].kl".
struct JsonField {
  const char* name = "";
  const char* type = "";  // "string", "number or null" ...
  const char* meaning = "";
};

class Arguments;

struct CommandSpec {
  const char* name = "";
  const char* aliases = "";  // other names: "ls|models"
  const char* summary = "";  // one line
  const char* text = "";     // a paragraph or two; may be empty
  std::vector<PositionalSpec> positionals = {};
  std::vector<OptionSpec> options = {};
  std::vector<TableSpec> tables = {};  // further tables of the help
  std::vector<ExampleSpec> examples = {};
  std::vector<JsonField> json = {};  // empty: the command has no --json
  // Mistakes in the command line that the table cannot tell: usage errors. May be null.
  Status (*check)(const Arguments&, const Console&) = nullptr;
  // The exit status, or the sentence to fail with.
  Result<int> (*run)(const Arguments&, Console&) = nullptr;
};

class Arguments {
 public:
  // By the option's name in the table. CHECKs that the table has it with that kind.
  bool flag(std::string_view name) const;
  bool given(std::string_view name) const;
  int64_t integer(std::string_view name) const;  // integers and bytes; needs a default or given()
  double number(std::string_view name) const;
  std::string text(std::string_view name) const;  // texts and choices; "" when neither given nor defaulted
  std::vector<std::string> all(std::string_view name) const;
  const std::vector<std::string>& positionals() const { return positionals_; }
  // These arguments with further options, each in place of what was given by that name.
  Result<Arguments> with(std::span<const std::string> options) const;

 private:
  friend Result<Arguments> parse_arguments(const CommandSpec& spec, std::span<const std::string> words);
  const OptionSpec& spec(std::string_view name, OptionKind kind) const;
  std::string value(const OptionSpec& option) const;
  Status take_option(std::span<const std::string> words, size_t& at);
  Status take_positional_option(const std::string& name, std::string value);
  void place_positionals();
  Status check_positionals() const;
  Status check_required() const;

  const CommandSpec* command_ = nullptr;
  std::map<std::string, std::vector<std::string>, std::less<>> given_;
  std::vector<std::string> positionals_;
  std::map<size_t, std::string> named_positionals_;  // by position, of those that were given by an option
};

// The parts of "-n|--n-predict"; none of "".
std::vector<std::string> alias_list(std::string_view aliases);

// `words` follow the command's name. An error is a usage error: one sentence.
Result<Arguments> parse_arguments(const CommandSpec& spec, std::span<const std::string> words);

// "512M", "1.5GB", "4g", "4096": bytes, with k, M, G, T meaning powers of 1000 and Ki, Mi, Gi, Ti of 1024, in any case
// and with or without B.
std::optional<uint64_t> parse_bytes(std::string_view text);

}  // namespace sluice
