// sluice completion: the scripts with which shells complete commands, options and models, from the command tables.
//
// A word's name in the tables tells its possible values: MODEL is a file or a name of sluice list, FILE... a file, DIR
// a folder, COMMAND a command, and "a|b" either of the two.
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/console.h"
#include "app/commands.h"
#include "app/open/open.h"
#include "base/text.h"

namespace sluice {
namespace {

enum class WordKind : uint8_t { free, models, files, folders, words };

struct Word {
  WordKind kind = WordKind::free;
  std::string words = {};  // of WordKind::words, with spaces between
};

std::string names_of_commands() {
  std::string names;
  for (const CommandSpec& command : all_commands()) names += cat(names.empty() ? "" : " ", command.name);
  return names;
}

Word word_of(std::string_view name) {
  if (name == "MODEL") return {WordKind::models};
  if (starts_with(name, "FILE")) return {WordKind::files};
  if (name == "DIR") return {WordKind::folders};
  if (name == "COMMAND") return {WordKind::words, names_of_commands()};
  std::string words;
  const std::vector<std::string> choices = split(name, '|');
  for (const std::string& choice : choices) words += cat(words.empty() ? "" : " ", choice);
  return choices.size() == 1 ? Word{} : Word{WordKind::words, words};
}

const char* values_of(const OptionSpec& option) { return option.choices[0] != '\0' ? option.choices : option.argument; }

bool takes_value(const OptionSpec& option) { return option.kind != OptionKind::flag; }

// In single quotes; `close` ends them, puts a quote and opens them again.
std::string quoted(std::string_view text, std::string_view escaped = "", std::string_view quote = "'\\''") {
  std::string out = "'";
  for (const char c : text)
    if (c == '\'')
      out += quote;
    else
      out += escaped.find(c) == std::string_view::npos ? std::string(1, c) : cat('\\', c);
  return out + "'";
}

// ---- bash

constexpr const char* kBashHead = R"sh(# Completes sluice in bash: source <(sluice completion bash)
_sluice_word() {  # COMMAND and an option or a position -> a kind and words
  case "$1 $2" in
)sh";

constexpr const char* kBashTail = R"sh(  esac
}

_sluice() {
  local line="${COMP_LINE:0:COMP_POINT}" current words word option= prefix= reply position=0
  current="${line##*[[:space:]]}"
  read -ra words <<< "${line%"$current"}"
  local command="${words[1]-}" kind values
  if [[ ${#words[@]} -lt 2 ]]; then
    read -r kind values <<< "words $(_sluice_word "" commands)"
  else
    for word in "${words[@]:2}"; do
      if [[ -n $option ]]; then
        option=
      elif [[ $word != -* ]]; then
        position=$((position + 1))
      elif [[ $word != *=* && " $(_sluice_word "$command" valued) " == *" $word "* ]]; then
        option="$word"
      fi
    done
    if [[ -z $option && $current == --*=* ]]; then
      option="${current%%=*}"
      prefix="$option="
      current="${current#*=}"
    fi
    if [[ -n $option ]]; then
      read -r kind values <<< "$(_sluice_word "$command" "$option")"
    elif [[ $current == -* ]]; then
      read -r kind values <<< "words $(_sluice_word "$command" options)"
    else
      read -r kind values <<< "$(_sluice_word "$command" "$position")"
    fi
  fi
  COMPREPLY=()
  case "$kind" in
    words) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current") ;;
    models) mapfile -t COMPREPLY < <(compgen -W "@DEMO@ $(sluice list --names 2> /dev/null)" -- "$current") ;;
    folders) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
  esac
  if [[ $kind == files || ($kind == models && ${#COMPREPLY[@]} -eq 0) ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    kind=files
  fi
  [[ $kind != files && $kind != folders ]] || compopt -o filenames 2> /dev/null
  # The line editor takes a word to begin after its last = or :, where these separate words.
  [[ $COMP_WORDBREAKS != *=* ]] || prefix=
  local before=
  [[ $COMP_WORDBREAKS != *:* || $current != *:* ]] || before="${current%"${current##*:}"}"
  for reply in "${!COMPREPLY[@]}"; do
    COMPREPLY[reply]="$prefix${COMPREPLY[reply]#"$before"}"
  done
}
complete -F _sluice sluice
)sh";

std::string bash_row(std::string_view command, std::string_view word, std::string_view reply) {
  return cat("    \"", command, ' ', word, "\") echo ", quoted(reply), " ;;\n");
}

std::string bash_word(std::string_view command, std::string_view name, const Word& word) {
  static constexpr const char* kNames[] = {"free", "models", "files", "folders", "words"};
  if (word.kind == WordKind::free) return "";
  const std::string reply = cat(kNames[static_cast<size_t>(word.kind)], word.words.empty() ? "" : " ", word.words);
  return bash_row(command, name, reply);
}

std::string bash_completion() {
  std::string out = kBashHead + bash_row("", "commands", names_of_commands() + " --help --version");
  for (const CommandSpec& command : all_commands()) {
    std::string options = "--help", valued;
    for (const OptionSpec& option : command.options) {
      options += cat(' ', option.name);
      valued += takes_value(option) ? cat(valued.empty() ? "" : " ", option.name) : "";
    }
    out += bash_row(command.name, "options", options);
    out += valued.empty() ? "" : bash_row(command.name, "valued", valued);
    for (const OptionSpec& option : command.options)
      out += takes_value(option) ? bash_word(command.name, option.name, word_of(values_of(option))) : "";
    for (size_t i = 0; i < command.positionals.size(); ++i)
      out += bash_word(command.name, cat(i), word_of(command.positionals[i].name));
  }
  return out + kBashTail;
}

// ---- zsh

constexpr const char* kZshHead = R"sh(#compdef sluice
# Completes sluice in zsh: a file _sluice in a folder of $fpath, or source <(sluice completion zsh)
_sluice_models() {
  local -a names
  names=(@DEMO@ ${(f)"$(sluice list --names 2> /dev/null)"})
  _alternative 'models:model:compadd -a names' 'files:file:_files'
}

_sluice() {
  local -a commands
  if (( CURRENT == 2 )); then
    commands=(
)sh";

constexpr const char* kZshMiddle = R"sh(    )
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT -= 1 ))
  case $command in
)sh";

constexpr const char* kZshTail = R"sh(  esac
}
if [[ ${funcstack[1]-} == _sluice ]]; then
  _sluice "$@"
else
  compdef _sluice sluice
fi
)sh";

std::string zsh_action(const Word& word) {
  switch (word.kind) {
    case WordKind::models: return "_sluice_models";
    case WordKind::files: return "_files";
    case WordKind::folders: return "_files -/";
    case WordKind::words: return cat('(', word.words, ')');
    case WordKind::free: break;
  }
  return " ";
}

std::string zsh_option(const OptionSpec& option) {
  std::string spec = cat(option.repeated ? "*" : "", option.name, takes_value(option) ? "=" : "", '[');
  for (const char* c = option.help; *c != '\0'; ++c)
    spec += *c == '[' || *c == ']' || *c == '\\' ? cat('\\', *c) : std::string(1, *c);
  return spec + (takes_value(option) ? cat("]:value:", zsh_action(word_of(values_of(option)))) : "]");
}

std::string zsh_completion() {
  std::string out = kZshHead;
  for (const CommandSpec& command : all_commands())
    out += cat("      ", quoted(cat(command.name, ':', command.summary)), '\n');
  out += kZshMiddle;
  for (const CommandSpec& command : all_commands()) {
    out += cat("    ", command.name, ") _arguments '--help[says how it is used]'");
    for (const OptionSpec& option : command.options) out += cat(" \\\n      ", quoted(zsh_option(option)));
    for (size_t i = 0; i < command.positionals.size(); ++i) {
      const PositionalSpec& positional = command.positionals[i];
      out +=
          cat(" \\\n      ",
              quoted(cat(i + 1, positional.required ? ":" : "::", "argument:", zsh_action(word_of(positional.name)))));
    }
    out += " ;;\n";
  }
  return out + kZshTail;
}

// ---- fish

constexpr const char* kFishHead = R"sh(# Completes sluice in fish: sluice completion fish | source
function __sluice_models
  echo @DEMO@
  sluice list --names 2> /dev/null
  __fish_complete_path (commandline -ct)
end
complete -c sluice -f
complete -c sluice -n __fish_use_subcommand -l help -d 'lists the commands'
complete -c sluice -n __fish_use_subcommand -l version -d 'the version of this program'
)sh";

std::string fish_quoted(std::string_view text) { return quoted(text, "\\", "\\'"); }

// The possible values of a word, as arguments for fish's `complete`.
std::string fish_values(const Word& word) {
  switch (word.kind) {
    case WordKind::models: return " -a '(__sluice_models)'";
    case WordKind::files: return " -a '(__fish_complete_path (commandline -ct))'";
    case WordKind::folders: return " -a '(__fish_complete_directories)'";
    case WordKind::words: return cat(" -a ", fish_quoted(word.words));
    case WordKind::free: break;
  }
  return "";
}

std::string fish_completion() {
  std::string out = kFishHead;
  for (const CommandSpec& command : all_commands()) {
    out += cat("complete -c sluice -n __fish_use_subcommand -a ", command.name, " -d ", fish_quoted(command.summary),
               '\n');
    const std::string here =
        cat("complete -c sluice -n ", fish_quoted(cat("__fish_seen_subcommand_from ", command.name)));
    out += here + " -l help -d 'says how it is used'\n";
    for (const OptionSpec& option : command.options) {
      out += cat(here, " -l ", option.name + 2, takes_value(option) ? " -x" : "",
                 takes_value(option) ? fish_values(word_of(values_of(option))) : "", " -d ", fish_quoted(option.help),
                 '\n');
    }
    for (const PositionalSpec& positional : command.positionals) {
      const std::string values = fish_values(word_of(positional.name));
      out += values.empty() ? "" : cat(here, values, '\n');
    }
  }
  return out;
}

// The scripts name the built-in model @DEMO@.
std::string with_demo(std::string script) {
  constexpr std::string_view kMark = "@DEMO@";
  for (size_t at = 0; (at = script.find(kMark, at)) != std::string::npos;) script.replace(at, kMark.size(), kDemoName);
  return script;
}

Result<int> run(const Arguments& arguments, Console& console) {
  const std::string& shell = arguments.positionals()[0];
  console.out(with_demo(shell == "bash" ? bash_completion() : shell == "zsh" ? zsh_completion() : fish_completion()));
  return 0;
}

}  // namespace

CommandSpec completion_command() {
  return {
      .name = "completion",
      .summary = "Prints what a shell needs to complete commands, options and models",
      .positionals = {{"bash|zsh|fish", true, "the shell"}},
      .examples = {{"source <(sluice completion bash)", "in this shell; make install sets it up for all"},
                   {"sluice completion fish > ~/.config/fish/completions/sluice.fish", "in every fish to come"}},
      .run = run,
  };
}

}  // namespace sluice
