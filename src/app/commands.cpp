#include "app/commands.h"

#include <algorithm>

namespace sluice {

const std::vector<CommandSpec>& all_commands() {
  static const std::vector<CommandSpec> commands = {
      run_command(),     serve_command(),      verify_command(), inspect_command(), convert_command(),
      train_command(),   bench_command(),      plan_command(),   list_command(),    pull_command(),
      devices_command(), completion_command(), help_command()};
  return commands;
}

PositionalSpec model_positional(bool required) {
  return {"MODEL", required,
          "a GGUF file, a Hugging Face directory, or a name that sluice list shows, such as gemma4:e2b (Ollama's "
          "store), org/repo:Q4_K_M or org/repo/file.gguf (the Hugging Face cache, LM Studio's folders); demo is the "
          "built-in model",
          "-m|--model", "demo"};
}

const CommandSpec* find_command(std::string_view name) {
  const std::vector<CommandSpec>& commands = all_commands();
  const auto found = std::ranges::find_if(commands, [&](const CommandSpec& command) {
    const std::vector<std::string> others = alias_list(command.aliases);
    return command.name == name || std::ranges::find(others, name) != others.end();
  });
  return found == commands.end() ? nullptr : &*found;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandSpec& command : all_commands()) {
    names.emplace_back(command.name);
    for (std::string& other : alias_list(command.aliases)) names.push_back(std::move(other));
  }
  return names;
}

}  // namespace sluice
