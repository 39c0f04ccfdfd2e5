#include "app/serve/wanted_models.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "app/cli/environment.h"
#include "app/open/open.h"
#include "base/files/file.h"
#include "base/json.h"
#include "base/suggest.h"
#include "base/text.h"
#include "checkpoint/places/places.h"
#include "serve/model_card.h"

namespace sluice {
namespace {

constexpr const char* kStoredKeepAlive = "5m";  // as Ollama's
constexpr size_t kMaxModelsFile = 16 << 20;
// Options that a model of the file may have for itself, as members: "image_tokens" for --image-tokens.
constexpr const char* kModelOptions[] = {"context",      "parallel",      "cache",        "chat_template",
                                         "mmproj",       "draft",         "draft_tokens", "draft_model",
                                         "image_tokens", "expert_memory", "repack"};
// Options about one model, of which several in a command line say nothing.
constexpr const char* kSingleOptions[] = {"--alias", "--mmproj", "--draft-model", "--adapter", "--chat-template"};

// A file is named as it is without its folder and ".gguf".
std::string shown_name(const std::string& name) {
  if (path_kind(name) == PathKind::missing) return name;
  std::string shown = std::filesystem::path(name).lexically_normal().filename().string();
  if (shown.empty()) shown = std::filesystem::path(name).lexically_normal().parent_path().filename().string();
  return ends_with(shown, ".gguf") ? shown.substr(0, shown.size() - 5) : shown;
}

Result<KeepAlive> keep_alive_of(const std::string& text, const std::string& where) {
  const std::optional<KeepAlive> read = parse_keep_alive(text);
  if (!read)
    return error(ErrorKind::invalid, where, " is ", printable(text), ": want seconds, or a duration such as 5m or 1h");
  return *read;
}

// "NAME=PATH[:SCALE]" is served under a name of its own, "PATH[:SCALE]" acts on every request.
Status take_adapter(const std::string& text, WantedModel& wanted) {
  const size_t equals = text.find('=');
  const bool is_named =
      equals != std::string::npos && equals > 0 && text.find('/') > equals && path_kind(text) == PathKind::missing;
  TRY(NamedAdapter adapter, parse_adapter(is_named ? text.substr(equals + 1) : text));
  if (is_named)
    wanted.named.push_back({.name = text.substr(0, equals), .adapter = std::move(adapter)});
  else
    wanted.always.push_back(std::move(adapter));
  return {};
}

Result<std::vector<WantedModel>> of_command_line(const Arguments& arguments) {
  std::vector<std::string> models = arguments.positionals();
  if (models.empty() && !arguments.flag("--store")) models.emplace_back(kDemoName);
  std::vector<WantedModel> all;
  all.reserve(models.size());
  for (const std::string& model : models)
    all.push_back({.model = model, .names = {shown_name(model)}, .arguments = arguments});
  if (all.size() == 1) {
    std::vector<std::string> names = arguments.all("--alias");
    names.push_back(all[0].names[0]);
    all[0].names = std::move(names);
    all[0].is_pinned = !arguments.given("--keep-alive");
    for (const std::string& text : arguments.all("--adapter")) TRY_STATUS(take_adapter(text, all[0]));
    return all;
  }
  for (const char* option : kSingleOptions)
    if (arguments.given(option))
      return error(ErrorKind::invalid, option, " is about one model, and ", models.size(),
                   " are named: want a file of --models, where each has its own");
  return all;
}

// ---- the file

class ModelsFile {
 public:
  ModelsFile(std::string path, const Arguments& arguments) : path_(std::move(path)), arguments_(&arguments) {}

  Result<std::vector<WantedModel>> read() {
    TRY(const std::string text, read_file(path_, kMaxModelsFile));
    TRY(const Json json, parse_json(text, path_));
    const Json* models = json.find("models");
    if (models == nullptr || !models->is_array() || models->as_array().empty() || json.as_object().size() != 1)
      return error(ErrorKind::invalid, path_, ": want {\"models\": [{\"model\": ...}, ...]}");
    std::vector<WantedModel> all;
    for (const Json& one : models->as_array()) {
      where_ = cat(path_, ": models[", all.size(), ']');
      TRY(WantedModel wanted, model_of(one));
      all.push_back(std::move(wanted));
    }
    return all;
  }

 private:
  Result<std::string> text_of(const Json& value, const std::string& name) const {
    if (!value.is_string() || value.as_string().empty())
      return error(ErrorKind::invalid, where_, '.', printable(name), " is no text: want one");
    return value.as_string();
  }

  Result<WantedModel> model_of(const Json& one) {
    if (!one.is_object()) return error(ErrorKind::invalid, where_, " is no object: want {\"model\": ...}");
    WantedModel wanted{.arguments = *arguments_};
    TRY_ASSIGN(wanted.keep_alive, keep_alive_of(arguments_->text("--keep-alive"), "--keep-alive"));
    std::vector<std::string> options;
    for (const auto& [name, value] : one.as_object()) TRY_STATUS(take(name, value, wanted, options));
    if (wanted.model.empty()) return error(ErrorKind::invalid, where_, ".model is missing: want a name or a path");
    if (one.find("name") == nullptr) wanted.names.insert(wanted.names.begin(), shown_name(wanted.model));
    Result<Arguments> arguments = arguments_->with(options);
    if (!arguments) return error(arguments.error().kind, where_, ": ", arguments.error().text);
    wanted.arguments = *std::move(arguments);
    return wanted;
  }

  Status take(const std::string& name, const Json& value, WantedModel& wanted, std::vector<std::string>& options) {
    if (name == "model") {
      TRY_ASSIGN(wanted.model, text_of(value, name));
    } else if (name == "name") {
      TRY(std::string shown, text_of(value, name));
      wanted.names.insert(wanted.names.begin(), std::move(shown));
    } else if (name == "aliases") {
      if (!value.is_array()) return error(ErrorKind::invalid, where_, ".aliases is no list: want names");
      for (const Json& alias : value.as_array()) {
        TRY(std::string other, text_of(alias, name));
        wanted.names.push_back(std::move(other));
      }
    } else if (name == "pinned") {
      if (!value.is_bool()) return error(ErrorKind::invalid, where_, ".pinned: want true or false");
      wanted.is_pinned = value.as_bool();
    } else if (name == "keep_alive") {
      TRY_ASSIGN(wanted.keep_alive,
                 keep_alive_of(value.is_string() ? value.as_string() : write_json(value), where_ + ".keep_alive"));
    } else if (name == "adapters") {
      return take_adapters(value, wanted);
    } else {
      return take_option(name, value, options);
    }
    return {};
  }

  Status take_adapters(const Json& value, WantedModel& wanted) const {
    if (!value.is_object())
      return error(ErrorKind::invalid, where_, ".adapters is no object: want {\"NAME\": \"PATH\"}");
    for (const auto& [name, path] : value.as_object()) {
      TRY(const std::string text, text_of(path, "adapters." + name));
      TRY(NamedAdapter adapter, parse_adapter(text));
      wanted.named.push_back({.name = name, .adapter = std::move(adapter)});
    }
    return {};
  }

  Status take_option(const std::string& name, const Json& value, std::vector<std::string>& options) const {
    if (std::ranges::find(kModelOptions, name) == std::end(kModelOptions)) {
      std::vector<std::string> known = {"model", "name", "aliases", "pinned", "keep_alive", "adapters"};
      known.insert(known.end(), std::begin(kModelOptions), std::end(kModelOptions));
      return error(ErrorKind::invalid, where_, " has an unknown member ", printable(name), did_you_mean(name, known));
    }
    if (!value.is_string() && !value.is_number())
      return error(ErrorKind::invalid, where_, '.', name, ": want a text or a number");
    std::string option = "--" + name;
    std::ranges::replace(option, '_', '-');
    options.push_back(cat(option, '=', value.is_string() ? value.as_string() : write_json(value)));
    return {};
  }

  std::string path_, where_;
  const Arguments* arguments_;
};

Status check_names(const std::vector<WantedModel>& all) {
  std::set<std::string> seen;
  const auto take = [&](const std::string& name) -> Status {
    if (seen.insert(name).second) return {};
    return error(ErrorKind::invalid, "two models are named ", printable(name), ": want a name of its own for each");
  };
  for (const WantedModel& one : all) {
    const std::set<std::string> names(one.names.begin(), one.names.end());  // an alias may repeat the name
    for (const std::string& name : names) TRY_STATUS(take(name));
    for (const ServedAdapter& adapter : one.named) TRY_STATUS(take(cat(one.names[0], ':', adapter.name)));
  }
  return {};
}

// Models of a store are offered without what is said of one model.
Status check_single_options(const Arguments& arguments) {
  const bool offers_store = arguments.flag("--store");
  if (!offers_store && !arguments.flag("--allow-store-changes")) return {};
  for (const char* option : kSingleOptions) {
    const bool is_inherited = option != std::string_view("--alias") && option != std::string_view("--adapter");
    if (arguments.given(option) && (offers_store || is_inherited))
      return error(ErrorKind::invalid, option,
                   " is about one model, and others are offered beside it: want a file of --models, where each has its "
                   "own");
  }
  return {};
}

}  // namespace

Result<WantedModel> stored_model(const ModelFiles& files, const Arguments& arguments) {
  WantedModel wanted{.model = files.name, .names = {files.name}, .arguments = arguments, .stored = files};
  const std::string time = arguments.given("--keep-alive") ? arguments.text("--keep-alive") : kStoredKeepAlive;
  TRY_ASSIGN(wanted.keep_alive, keep_alive_of(time, "--keep-alive"));
  return wanted;
}

Result<std::vector<WantedModel>> stored_models(const Arguments& arguments, const std::vector<WantedModel>& named) {
  std::set<std::string> seen;
  std::vector<WantedModel> all;
  for (const ListedModel& listed : list_models(machine_places())) {
    const bool is_taken = std::ranges::any_of(
        named, [&](const WantedModel& one) { return ModelCard{.names = one.names}.answers_to(listed.name); });
    if (!listed.files || is_taken || !seen.insert(listed.name).second) continue;
    TRY(WantedModel wanted, stored_model(*listed.files, arguments));
    all.push_back(std::move(wanted));
  }
  return all;
}

Result<std::vector<WantedModel>> wanted_models(const Arguments& arguments) {
  TRY_STATUS(check_single_options(arguments));
  std::vector<WantedModel> all;
  if (!arguments.given("--models")) {
    TRY_ASSIGN(all, of_command_line(arguments));
    for (WantedModel& one : all)
      TRY_ASSIGN(one.keep_alive, keep_alive_of(arguments.text("--keep-alive"), "--keep-alive"));
  } else {
    if (!arguments.positionals().empty())
      return error(ErrorKind::invalid, "--models: the file lists all models: want no MODEL beside it");
    for (const char* option : kSingleOptions)
      if (arguments.given(option))
        return error(ErrorKind::invalid, option, " is about one model: want it in the file of --models");
    TRY_ASSIGN(all, ModelsFile(arguments.text("--models"), arguments).read());
  }
  TRY_STATUS(check_names(all));
  return all;
}

}  // namespace sluice
