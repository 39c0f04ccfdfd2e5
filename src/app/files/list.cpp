// sluice list: the models that lie on this machine, and whether they run.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "app/cli/environment.h"
#include "app/cli/progress.h"
#include "app/commands.h"
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
  Result<Checkpoint> opened = open_checkpoint(files.path);
  if (!opened) {
    row.problem = opened.error().text;
    return;
  }
  const auto checkpoint = std::make_shared<const Checkpoint>(*std::move(opened));
  row.format = format_label(*checkpoint);
  row.family = architecture_of(*checkpoint);
  for (const std::string& file : checkpoint->files()) row.bytes += file == files.path ? 0 : file_bytes(file);
  const Result<Model> model = resolve(checkpoint);
  if (model) {
    row.family = model->facts().family;
    if (const Status words = check_vocabulary(*checkpoint); !words) row.problem = words.error().text;
  } else {
    row.problem = model.error().text;
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

using Cells = std::array<std::string, 6>;

Cells cells_of(const Row& row) {
  return {printable(row.name, 200), row.format, row.bytes == 0 ? "" : format_bytes(row.bytes),
          printable(row.family),    row.origin, row.problem.empty() ? "runs" : "does not run: " + row.problem};
}

std::string as_text(const std::vector<Row>& rows) {
  std::vector<Cells> lines = {{"NAME", "FORMAT", "SIZE", "FAMILY", "FROM", ""}};
  std::transform(rows.begin(), rows.end(), std::back_inserter(lines), cells_of);
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

Result<int> run(const Arguments& arguments, Console& console) {
  if (arguments.flag("--names")) {
    console.out(all_names());
    return 0;
  }
  const std::vector<Row> rows = all_rows(console);
  if (arguments.flag("--json"))
    console.json(as_json(rows));
  else if (rows.empty())
    console.err("no models in Ollama's store, the Hugging Face cache and LM Studio's folders\n");
  else
    console.out(as_text(rows));
  return 0;
}

}  // namespace

CommandSpec list_command() {
  return {
      .name = "list",
      .summary = "Lists the models on this machine",
      .text =
          "Looks into Ollama's store, the Hugging Face cache and LM Studio's folders. Every command takes the names "
          "it shows. A model that cannot run is listed with the reason.",
      .options = {{.name = "--names", .help = "print names alone, one a line"},
                  {.name = "--json", .help = "print one JSON object"}},
      .examples = {{"sluice list", "names, formats, sizes, and whether they run"},
                   {"OLLAMA_MODELS=/data/ollama sluice list", "another store of Ollama's"}},
      .json = {{"models[].name", "string", "the name that every command takes for MODEL"},
               {"models[].origin", "string", "`Ollama`, `Hugging Face` or `LM Studio`"},
               {"models[].path", "string", "the GGUF file or the directory"},
               {"models[].projector", "string or null", "the towers' own file, if there is one"},
               {"models[].format", "string", "such as `q4_k_m`; empty when unknown"},
               {"models[].family", "string", "the architecture the file names"},
               {"models[].bytes", "integer", "of its files with weights"},
               {"models[].runs", "boolean", ""},
               {"models[].problem", "string or null", "the reason why it does not run"}},
      .run = run,
  };
}

}  // namespace sluice
