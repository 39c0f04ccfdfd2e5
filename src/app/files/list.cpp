// sluice list: the models that lie on this machine, and whether they run.
#include <algorithm>
#include <memory>
#include <utility>

#include "app/cli/environment.h"
#include "app/cli/progress.h"
#include "app/commands.h"
#include "app/files/catalogue.h"
#include "app/open/machine_memory.h"
#include "base/files/file.h"
#include "base/text.h"
#include "chat/text_parts.h"
#include "checkpoint/file_type.h"
#include "model/model.h"

namespace sluice {
namespace {

struct Row {
  std::string name, origin, path, projector, format, family;
  uint64_t bytes = 0;
  std::string problem;  // why it does not run; "": it does
};

uint64_t file_bytes(const std::string& path) {
  const auto source = FileSource::open(path);
  return source ? (*source)->size() : 0;
}

// The file's own name of its architecture, if no family knows it.
std::string architecture_of(const Checkpoint& checkpoint) {
  if (const auto architecture = checkpoint.metadata().get_string("general.architecture")) return *architecture;
  const Json* config = checkpoint.document("config.json");
  const Json* type = config == nullptr ? nullptr : config->find("model_type");
  return type != nullptr && type->is_string() ? type->as_string() : "";
}

void describe(Row& row, const ModelFiles& files) {
  row.path = files.path;
  row.projector = files.projector;
  row.bytes = file_bytes(files.path) + (files.projector.empty() ? 0 : file_bytes(files.projector));
  const auto without_path = [&](const std::string& text) {
    const std::string path = files.path + ": ";
    return starts_with(text, path) ? text.substr(path.size()) : text;
  };
  Result<Checkpoint> opened = open_checkpoint(files.path);
  if (!opened) {
    row.problem = without_path(opened.error().text);
    return;
  }
  const auto checkpoint = std::make_shared<const Checkpoint>(*std::move(opened));
  row.format = format_label(*checkpoint);
  row.family = architecture_of(*checkpoint);
  for (const std::string& file : checkpoint->files()) row.bytes += file == files.path ? 0 : file_bytes(file);
  const Result<Model> model = resolve(checkpoint);
  if (model) {
    row.family = model->facts().family;
    if (const Status words = check_vocabulary(*checkpoint); !words) row.problem = without_path(words.error().text);
  } else {
    row.problem = without_path(model.error().text);
  }
}

std::vector<Row> all_rows(Console& console) {
  const std::vector<ListedModel> models = list_models(machine_places());
  ProgressLine progress(console, "looking at models", "models");
  std::vector<Row> rows;
  for (const ListedModel& model : models) {
    Row row;
    row.name = model.name;
    row.origin = origin_name(model.origin);
    if (model.files)
      describe(row, *model.files);
    else
      row.problem = model.files.error().text;
    rows.push_back(std::move(row));
    progress.update(rows.size(), models.size());
  }
  return rows;
}

using Cells = std::vector<std::string>;

Cells cells_of(const Row& row) {
  return {printable(row.name, 200), row.format, row.bytes == 0 ? "" : format_bytes(row.bytes),
          printable(row.family),    row.origin, row.problem.empty() ? "runs" : "does not run: " + row.problem};
}

// Columns as wide as their widest cell; the last is not padded.
std::string table_of(const std::vector<Cells>& lines) {
  std::string out;
  for (const Cells& line : lines) {
    std::string text;
    for (size_t column = 0; column + 1 < line.size(); ++column) {
      size_t width = 0;
      for (const Cells& other : lines) width = std::max(width, other[column].size());
      text += line[column] + std::string(width - line[column].size() + 2, ' ');
    }
    text += line.back();
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  }
  return out;
}

std::string as_text(const std::vector<Row>& rows) {
  std::vector<Cells> lines = {{"NAME", "FORMAT", "SIZE", "FAMILY", "FROM", ""}};
  std::transform(rows.begin(), rows.end(), std::back_inserter(lines), cells_of);
  return table_of(lines);
}

// ---- models that can be fetched

std::string fit_text(const KnownModel& model) {
  return likely_memory(model) <= machine_memory_bytes() ? "fits" : "does not fit";
}

std::string online_text(const std::vector<KnownModel>& models) {
  std::vector<Cells> lines = {{"NAME", "MODEL", "SIZE", "MEMORY", "HERE", "TAKES"}};
  for (const KnownModel& model : models) {
    const auto bytes = static_cast<uint64_t>(model.gigabytes * 1e9);
    lines.push_back({model.name, model.title, format_bytes(bytes), format_bytes(likely_memory(model)), fit_text(model),
                     model.about});
  }
  return cat(table_of(lines), "As of ", kCatalogueDate,
             ", at 4 bits. sluice pull NAME fetches one; other models: sluice ", "pull hf.co/ORG/REPO[:QUANT]\n");
}

Json online_json(const std::vector<KnownModel>& models) {
  Json::Array list;
  for (const KnownModel& model : models) {
    list.emplace_back(Json::Object{{"name", model.name},
                                   {"title", model.title},
                                   {"bytes", static_cast<int64_t>(model.gigabytes * 1e9)},
                                   {"memory_bytes", static_cast<int64_t>(likely_memory(model))},
                                   {"fits", likely_memory(model) <= machine_memory_bytes()}});
  }
  return Json::Object{{"models", Json::Array()}, {"online", std::move(list)}};
}

Result<int> list_online(const Arguments& arguments, Console& console) {
  const std::string pattern = arguments.positionals().empty() ? "" : arguments.positionals()[0];
  const std::vector<KnownModel> models = matching_models(pattern);
  if (arguments.flag("--json"))
    console.json(online_json(models));
  else if (models.empty())
    console.err(cat("no model in the table of ", kCatalogueDate, " has ", printable(pattern),
                    " in its name: sluice list --online shows them all, sluice pull NAME looks for any\n"));
  else
    console.table(online_text(models));
  return 0;
}

Json as_json(const std::vector<Row>& rows) {
  Json::Array models;
  for (const Row& row : rows) {
    models.emplace_back(Json::Object{{"name", row.name},
                                     {"origin", row.origin},
                                     {"path", row.path},
                                     {"projector", row.projector.empty() ? Json() : Json(row.projector)},
                                     {"format", row.format},
                                     {"family", row.family},
                                     {"bytes", static_cast<int64_t>(row.bytes)},
                                     {"runs", row.problem.empty()},
                                     {"problem", row.problem.empty() ? Json() : Json(row.problem)}});
  }
  return Json::Object{{"models", std::move(models)}};
}

// No model file is read: shells ask for these while somebody types.
std::string all_names() {
  std::string out;
  for (const ListedModel& model : list_models(machine_places())) out += printable(model.name, 200) + "\n";
  return out;
}

Status check_list(const Arguments& arguments, const Console&) {
  if (arguments.positionals().empty() || arguments.flag("--online")) return {};
  return error(ErrorKind::invalid, "list: unexpected argument ", printable(arguments.positionals()[0]),
               ": want --online with it");
}

Result<int> run(const Arguments& arguments, Console& console) {
  if (arguments.flag("--names")) {
    console.out(all_names());
    return 0;
  }
  if (arguments.flag("--online")) return list_online(arguments, console);
  const std::vector<Row> rows = all_rows(console);
  if (arguments.flag("--json"))
    console.json(as_json(rows));
  else if (rows.empty())
    console.err(
        cat("no models in Ollama's store, the Hugging Face cache and LM Studio's folders: sluice list --online "
            "shows some, sluice pull ",
            known_models().front().name, " fetches one\n"));
  else
    console.table(as_text(rows));
  return 0;
}

}  // namespace

CommandSpec list_command() {
  return {
      .name = "list",
      .aliases = "ls",
      .summary = "Lists the models on this machine",
      .text =
          "Looks into Ollama's store, the Hugging Face cache and LM Studio's folders. Every command takes the names "
          "it shows. A model that cannot run is listed with the reason. --online shows models that can be fetched and "
          "run, from a table in the program.",
      .positionals = {{"PATTERN", false, "with --online: a part of the names to show"}},
      .options = {{.name = "--online", .help = "models that sluice pull fetches, with their size and memory"},
                  {.name = "--names", .help = "print names alone, one a line"},
                  {.name = "--json", .help = "print one JSON object"}},
      .examples = {{"sluice list", "names, formats, sizes, and whether they run"},
                   {"sluice list --online qwen", "what there is of Qwen, and whether it fits this machine"},
                   {"OLLAMA_MODELS=/data/ollama sluice list", "another store of Ollama's"}},
      .json = {{"models[].name", "string", "the name that every command takes for MODEL"},
               {"models[].origin", "string", "`Ollama`, `Hugging Face` or `LM Studio`"},
               {"models[].path", "string", "the GGUF file or the directory"},
               {"models[].projector", "string or null", "the towers' own file, if there is one"},
               {"models[].format", "string", "such as `q4_k_m`; empty when unknown"},
               {"models[].family", "string", "the architecture the file names"},
               {"models[].bytes", "integer", "of its files with weights"},
               {"models[].runs", "boolean", ""},
               {"models[].problem", "string or null", "the reason why it does not run"},
               {"online[].name", "string", "with --online, where models is empty: the name to pull"},
               {"online[].title", "string", "the model's own name"},
               {"online[].bytes", "integer", "to fetch"},
               {"online[].memory_bytes", "integer", "that it takes with a short context, about"},
               {"online[].fits", "boolean", "whether this machine has so much memory"}},
      .check = check_list,
      .run = run,
  };
}

}  // namespace sluice
