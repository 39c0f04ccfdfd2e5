#include "app/cli/help.h"

#include <algorithm>
#include <utility>

#include "app/cli/console.h"
#include "app/cli/environment.h"
#include "app/cli/man_page.h"
#include "app/commands.h"
#include "base/suggest.h"
#include "base/text.h"

namespace sluice {
namespace {

using Rows = std::vector<TableRow>;

constexpr size_t kLeastWidth = 40;  // a narrower terminal wraps by itself

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

// `text` in lines of at most `width`, each but the first indented.
std::string wrapped(std::string_view text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  for (const std::string& word : split(text, ' ')) {
    if (column + 1 + word.size() > width && column > indent) {
      out += cat('\n', std::string(indent, ' '));
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string option_head(const OptionSpec& option) {
  return option.argument[0] == '\0' ? option.name : cat(option.name, ' ', option.argument);
}

// "-n, --n-predict"
std::string with_commas(std::string_view aliases) {
  std::string out;
  for (const std::string& alias : alias_list(aliases)) out += cat(out.empty() ? "" : ", ", alias);
  return out;
}

std::string option_help(const OptionSpec& option) {
  std::string help = option.help;
  if (option.fallback[0] != '\0') help += cat(" (default ", option.fallback, ")");
  if (option.aliases[0] != '\0') help += cat("; also ", with_commas(option.aliases));
  return help;
}

// All exit statuses as one sentence.
std::string exit_text() {
  std::string out;
  for (const TableRow& row : exit_rows()) out += cat(out.empty() ? "Exit status: " : "; ", row.head, ' ', row.text);
  return out + ".";
}

size_t help_width(size_t columns) { return columns == 0 ? kHelpWidth : std::clamp(columns, kLeastWidth, kHelpWidth); }

Rows command_rows() {
  Rows rows;
  for (const CommandSpec& command : all_commands()) rows.push_back({command.name, summary_of(command)});
  return rows;
}

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string markdown_rows(const char* left, const char* right, const Rows& rows) {
  std::string out = cat("| ", left, " | ", right, " |\n|---|---|\n");
  for (const auto& [head, text] : rows) out += cat("| `", cell(head), "` | ", cell(text), " |\n");
  return out + "\n";
}

std::string markdown_json(const CommandSpec& command) {
  std::string out = "With `--json` one object is printed:\n\n| member | type | meaning |\n|---|---|---|\n";
  for (const JsonField& field : command.json)
    out += cat("| `", field.name, "` | ", cell(field.type), " | ", cell(field.meaning), " |\n");
  return out + "\n";
}

std::string markdown_section(const CommandSpec& command) {
  std::string out =
      cat("## sluice ", command.name, "\n\n", summary_of(command), ".\n\n```\n", usage_line(command), "\n```\n\n");
  if (command.text[0] != '\0') out += cat(command.text, "\n\n");
  if (!command.positionals.empty()) out += markdown_rows("argument", "meaning", positional_rows(command));
  if (!command.options.empty()) out += markdown_rows("option", "meaning", option_rows(command));
  for (const TableSpec& table : command.tables) out += markdown_rows(table.title, "meaning", table.rows);
  if (!command.examples.empty()) {
    out += "```sh\n";
    for (const ExampleSpec& example : command.examples) out += cat("# ", example.what, '\n', example.line, '\n');
    out += "```\n\n";
  }
  return command.json.empty() ? out : out + markdown_json(command);
}

std::string paragraphs(std::string_view text, size_t width) {
  std::string out;
  for (const std::string& line : split(text, '\n')) out += wrapped(line, 0, width) + "\n";
  return out;
}

Result<int> help(const Arguments& arguments, Console& console) {
  if (arguments.flag("--markdown") || arguments.flag("--man")) {
    console.out(arguments.flag("--man") ? man_page() : help_markdown());
    return 0;
  }
  if (arguments.positionals().empty()) {
    console.out(help_overview(console.columns()));
    return 0;
  }
  console.out(help_text(*find_command(arguments.positionals()[0]), console.columns()));
  return 0;
}

Status check_help(const Arguments& arguments, const Console&) {
  if (arguments.positionals().empty() || find_command(arguments.positionals()[0]) != nullptr) return {};
  const std::string& name = arguments.positionals()[0];
  const std::string near = did_you_mean(name, command_names());
  return error(ErrorKind::not_found, "help: no command ", printable(name),
               near.empty() ? ": want one that sluice help lists" : near);
}

}  // namespace

std::string summary_of(const CommandSpec& command) {
  return command.aliases[0] == '\0' ? command.summary
                                    : cat(command.summary, " (also ", with_commas(command.aliases), ")");
}

std::string usage_line(const CommandSpec& command) {
  std::string line = cat("sluice ", command.name);
  for (const PositionalSpec& positional : command.positionals)
    line += cat(positional.required ? cat(' ', positional.name) : cat(" [", positional.name, ']'),
                positional.repeated ? "..." : "");
  return command.options.empty() ? line : line + " [OPTIONS]";
}

std::vector<TableRow> option_rows(const CommandSpec& command) {
  std::vector<TableRow> rows;
  rows.reserve(command.options.size());
  for (const OptionSpec& option : command.options) rows.push_back({option_head(option), option_help(option)});
  return rows;
}

std::vector<TableRow> positional_rows(const CommandSpec& command) {
  std::vector<TableRow> rows;
  rows.reserve(command.positionals.size());
  for (const PositionalSpec& positional : command.positionals) {
    const std::string also = positional.option[0] == '\0' ? "" : cat("; also ", with_commas(positional.option));
    rows.push_back({positional.name, positional.help + also});
  }
  return rows;
}

std::vector<TableRow> exit_rows() {
  return {{"0", "done"},
          {"1", "failed, with one sentence on standard error"},
          {"2", "the command line is wrong"},
          {"130", "stopped by Ctrl-C"}};
}

// A head too long for its column has a line of its own.
std::string table_text(const std::vector<TableRow>& rows, size_t columns) {
  constexpr size_t kWidest = 26;
  size_t width = 0;
  for (const auto& [head, text] : rows) width = head.size() > kWidest ? width : std::max(width, head.size());
  std::string out;
  for (const auto& [head, text] : rows) {
    out += cat("  ", padded(head, width), head.size() > width ? cat('\n', std::string(width + 2, ' ')) : "", "  ",
               wrapped(text, width + 4, help_width(columns)), '\n');
  }
  return out;
}

std::string help_overview(size_t columns) {
  return cat("Sluice runs language models from the files you have.\n\nUsage: sluice COMMAND [ARGUMENTS] [OPTIONS]\n\n",
             table_text(command_rows(), columns),
             "\nsluice COMMAND --help tells of a command; sluice --version of this program.\n\n"
             "Examples:\n"
             "  sluice run                                   chat with the built-in demo model\n"
             "  sluice run demo \"What is a violin?\"          one answer\n"
             "  sluice run model.gguf < question.txt         the prompt from a file\n\n",
             wrapped(exit_text(), 0, help_width(columns)), "\n");
}

std::string help_text(const CommandSpec& command, size_t columns) {
  const size_t width = help_width(columns);
  std::string out = cat(summary_of(command), ".\n\nUsage: ", usage_line(command), "\n");
  if (command.text[0] != '\0') out += cat('\n', paragraphs(command.text, width));
  if (!command.positionals.empty()) out += cat("\nArguments:\n", table_text(positional_rows(command), columns));
  if (!command.options.empty()) out += cat("\nOptions:\n", table_text(option_rows(command), columns));
  for (const TableSpec& table : command.tables) out += cat('\n', table.title, ":\n", table_text(table.rows, columns));
  if (!command.examples.empty()) {
    out += "\nExamples:\n";
    for (const ExampleSpec& example : command.examples)
      out += cat("  ", example.line, "\n      ", wrapped(example.what, 6, width), '\n');
  }
  return out;
}

std::string help_markdown() {
  std::string out =
      cat("# The command line\n\nGenerated by `sluice help --markdown` from the tables in `src/app/`; a test holds the "
          "two equal.\n\n",
          exit_text(), "\n\n", markdown_rows("command", "what it does", command_rows()));
  for (const CommandSpec& command : all_commands()) out += markdown_section(command);
  out += "## Environment and files\n\n";
  out += markdown_rows("variable", "meaning", environment_rows()) + markdown_rows("file", "meaning", file_rows());
  out.pop_back();
  return out;
}

CommandSpec help_command() {
  return {
      .name = "help",
      .summary = "Says how a command is used",
      .positionals = {{"COMMAND", false, "the command; without it, the list of commands"}},
      .options = {{.name = "--markdown", .help = "print docs/cli.md, which is all of this as one page"},
                  {.name = "--man", .help = "print docs/sluice.1, the same as a manual page"}},
      .examples = {{"sluice help run", "what sluice run --help prints"}},
      .check = check_help,
      .run = help,
  };
}

}  // namespace sluice
