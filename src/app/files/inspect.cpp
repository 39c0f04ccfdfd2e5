// sluice inspect: shows the contents of a model file, from its headers alone.
#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "app/cli/console.h"
#include "app/commands.h"
#include "app/open/open.h"
#include "base/files/file.h"
#include "base/limits.h"
#include "base/text.h"
#include "chat/store_settings.h"
#include "chat/text_parts.h"
#include "checkpoint/checkpoint.h"
#include "model/facts.h"
#include "model/model.h"

namespace sluice {
namespace {

struct FormatShare {
  Format format{};
  uint64_t tensors = 0, bytes = 0;
};

struct Inspection {
  ModelFiles files;
  std::shared_ptr<const Checkpoint> checkpoint;
  std::optional<Checkpoint> projector;  // the towers' own file, where there is one
  std::string projector_note;           // which of its towers run with the model, or that none does
  std::optional<Model> model;           // else `problem` says why not
  std::string problem;                  // why sluice run refuses it; "": it does not
  std::string chat_name;                // of the template that sluice run would use; "": none
  std::vector<FormatShare> formats;     // largest first
  uint64_t bytes = 0;                   // of all tensors
};

using PackedElements = std::unordered_map<const std::byte*, Format>;

// What tensors of bytes and words hold that are elements with scales beside them, by their first byte.
PackedElements packed_elements(const Model& model) {
  PackedElements packed;
  for (const BoundWeight& weight : model.weights().all()) {
    if (!weight.whole.parts.empty()) {
      packed.emplace(weight.whole.bytes, weight.whole.format);
      for (const std::byte* expert : weight.whole.experts) packed.emplace(expert, weight.whole.format);
    }
  }
  return packed;
}

std::string projector_note(const Model& model, const std::string& path) {
  const Result<Model> joined = with_projector(model, path);
  if (!joined) return cat(", not run: ", joined.error().text);
  std::string names;
  for (const ProgramKind kind : joined->programs())
    if (is_tower(kind) && !model.has(kind)) names += cat(names.empty() ? ": " : ", ", program_name(kind));
  return names.empty() ? ", known and not run" : names;
}

Result<Inspection> inspect(ModelFiles files) {
  TRY(Checkpoint opened, open_checkpoint(files.path));
  Inspection found;
  found.files = std::move(files);
  if (!found.files.projector.empty()) TRY_ASSIGN(found.projector, open_checkpoint(found.files.projector));
  found.checkpoint = std::make_shared<const Checkpoint>(std::move(opened));
  Result<Model> model = resolve(found.checkpoint);
  if (model) {
    found.model = *model;
    if (found.projector) found.projector_note = projector_note(*model, found.files.projector);
    const Result<TextParts> text = open_text(*model);
    found.chat_name = text ? text->chat_name : "";
    found.problem = text ? "" : text.error().text;
  } else {
    found.problem = model.error().text;
  }
  const PackedElements packed = found.model ? packed_elements(*found.model) : PackedElements();
  for (const StoredTensor& tensor : found.checkpoint->tensors()) {
    const auto elements = packed.find(tensor.bytes.data());
    const Format format = elements == packed.end() ? tensor.format : elements->second;
    auto share = std::find_if(found.formats.begin(), found.formats.end(),
                              [&](const FormatShare& s) { return s.format == format; });
    if (share == found.formats.end()) share = found.formats.insert(share, {format, 0, 0});
    share->tensors += 1;
    share->bytes += tensor.bytes.size();
    found.bytes += tensor.bytes.size();
  }
  std::sort(found.formats.begin(), found.formats.end(),
            [](const FormatShare& a, const FormatShare& b) { return a.bytes > b.bytes; });
  return found;
}

// A template that cannot be read is one all the same.
bool has_chat_template(const Checkpoint& checkpoint) {
  const Result<std::optional<ChatSource>> stored = stored_chat_template(checkpoint, /*has_tools=*/false);
  return !stored || stored->has_value();
}

std::vector<std::pair<std::string, double>> sampling_of(const SamplingDefaults& defaults) {
  std::vector<std::pair<std::string, double>> known;
  const auto add = [&](const char* name, const std::optional<float>& value) {
    if (value) {
      // Through text: 0.95 as a float is 0.949999988079071 as a double.
      known.emplace_back(name, parse_number(cat(double{*value})).value_or(0));
    }
  };
  add("temperature", defaults.temperature);
  if (defaults.top_k) known.emplace_back("top_k", static_cast<double>(*defaults.top_k));
  add("top_p", defaults.top_p);
  add("min_p", defaults.min_p);
  add("repeat_penalty", defaults.repeat_penalty);
  return known;
}

std::string line(std::string head, const std::string& text) {
  head.resize(std::max<size_t>(head.size() + 1, 16), ' ');
  return cat(head, text, '\n');
}

std::string model_lines(const Model& model) {
  const ModelFacts& facts = model.facts();
  std::string out = line("family", facts.family) + line("name", printable(facts.name)) +
                    line("parameters", cat(facts.parameters, " (", facts.size_label, ")")) +
                    line("layers", cat(facts.layers)) + line("hidden", cat(facts.hidden)) +
                    line("vocabulary", cat(facts.vocabulary)) + line("context", cat(facts.context_length));
  for (const auto& [name, text] : facts.details) out += line(name, text);
  std::string sampling;
  for (const auto& [name, value] : sampling_of(facts.sampling))
    sampling += cat(sampling.empty() ? "" : ", ", name, ' ', sampling_text(value));
  out += line("sampling", sampling.empty() ? "the file says nothing" : sampling);
  for (const std::string& ignored : facts.ignored) out += line("ignored", ignored);
  return out;
}

uint64_t bytes_of(const Checkpoint& checkpoint) {
  uint64_t bytes = 0;
  for (const StoredTensor& tensor : checkpoint.tensors()) bytes += tensor.bytes.size();
  return bytes;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_run_tower(const Inspection& found, const StoredTensor& tensor) {
  return found.model && contains(found.model->tower_tensors(), tensor.name);
}

// What a tensor of the model's own files is for; "": not known, since no family knows the model.
const char* role_of(const Inspection& found, const StoredTensor& tensor) {
  if (!found.model) return "";
  if (contains(found.model->unknown_tensors(), tensor.name)) return "unknown";
  return is_run_tower(found, tensor) || contains(found.model->unread_tensors(), tensor.name) ? "tower" : "text";
}

// The first few: --tensors and --json have them all.
std::string few_names(const std::vector<std::string>& names) {
  static constexpr size_t kNames = 3;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kNames); ++i) list += cat(i == 0 ? "" : ", ", printable(names[i]));
  return names.size() > kNames ? cat(list, " and ", names.size() - kNames, " more") : list;
}

// Towers lie in the text model's file, or in one of their own.
std::string tower_lines(const Inspection& found) {
  std::string out;
  std::vector<std::string> unknown;
  struct Share {
    uint64_t tensors = 0, bytes = 0;
  } run, not_run;
  for (const StoredTensor& tensor : found.checkpoint->tensors()) {
    const std::string_view role = role_of(found, tensor);
    if (role == "unknown") unknown.push_back(tensor.name);
    if (role != "tower") continue;
    Share& share = is_run_tower(found, tensor) ? run : not_run;
    share.tensors += 1;
    share.bytes += tensor.bytes.size();
  }
  const auto tower_line = [](const Share& share, const char* more) {
    return share.tensors == 0 ? "" : line("towers", cat(share.tensors, " tensors, ", format_bytes(share.bytes), more));
  };
  out += tower_line(run, "") + tower_line(not_run, ", known and not run");
  if (found.projector) {
    out += line("towers", cat(found.projector->path(), ": ", found.projector->tensors().size(), " tensors, ",
                              format_bytes(bytes_of(*found.projector)), found.projector_note));
  }
  if (!found.files.draft_head.empty())
    out += line("drafts", cat(found.files.draft_head, found.model && found.model->may_have_draft_model()
                                                          ? ": read on the processor"
                                                          : ": read with --draft mtp or both"));
  return unknown.empty() ? out : out + line("unknown", few_names(unknown));
}

// The settings that the model's store keeps beside the weights.
std::string store_lines(const Inspection& found, const StoreSettings& stored) {
  const ModelFiles& files = found.files;
  std::string out = files.origin == Origin::path ? "" : line("store", cat(origin_name(files.origin), ", ", files.name));
  if (!files.system.empty()) out += line("system", printable(files.system, 200));
  if (files.params.is_object()) {
    std::string unused;
    for (const std::string& name : stored.unused)
      unused += cat(unused.empty() ? "; not used: " : ", ", printable(name));
    out += line("params", printable(write_json(files.params), 400) + unused);
  }
  if (!stored.messages.empty()) out += line("messages", cat(stored.messages.size(), " to begin with"));
  if (!files.go_template.empty()) out += line("store template", go_template_note(files, found.chat_name));
  return out;
}

std::string tensor_lines(const Inspection& found) {
  std::string out = "\n";
  const auto add = [&](const Checkpoint& checkpoint, const StoredTensor& tensor, std::string_view role) {
    out +=
        cat(printable(tensor.name, 200), "  ", format_name(tensor.format), "  ", format_shape(tensor.shape), "  ",
            format_bytes(tensor.bytes.size()), "  ", file_name(checkpoint.files()[tensor.file]), " at ", tensor.offset,
            role == "unknown"                                                      ? ", unknown"
            : role != "tower"                                                      ? ""
            : &checkpoint == found.checkpoint.get() && is_run_tower(found, tensor) ? ", tower"
                                                                                   : ", tower, not run",
            '\n');
  };
  for (const StoredTensor& tensor : found.checkpoint->tensors()) add(*found.checkpoint, tensor, role_of(found, tensor));
  for (const StoredTensor& tensor : found.projector ? found.projector->tensors() : std::vector<StoredTensor>())
    add(*found.projector, tensor, "tower");
  return out;
}

std::string as_text(const Inspection& found, const StoreSettings& stored, bool tensors) {
  const Checkpoint& checkpoint = *found.checkpoint;
  std::string out = line("model", checkpoint.path()) +
                    line("source", cat(dialect_name(checkpoint.dialect()), ", ", checkpoint.files().size(), " file",
                                       checkpoint.files().size() == 1 ? "" : "s", ", ", checkpoint.tensors().size(),
                                       " tensors, ", format_bytes(found.bytes)));
  for (const FormatShare& share : found.formats)
    out += line("format", cat(format_name(share.format), ": ", share.tensors, " tensors, ", format_bytes(share.bytes)));
  out += line("chat template", has_chat_template(checkpoint) ? "yes" : "none in the file");
  out += found.model ? model_lines(*found.model) : "";
  out += found.problem.empty() ? "" : line("not supported", found.problem);
  out += tower_lines(found) + store_lines(found, stored);
  return tensors ? out + tensor_lines(found) : out;
}

Json json_of_tensor(const Checkpoint& checkpoint, const StoredTensor& tensor, const std::string& role) {
  Json::Array shape;
  for (const int64_t dimension : tensor.shape) shape.emplace_back(dimension);
  return Json::Object{{"name", tensor.name},
                      {"format", format_name(tensor.format)},
                      {"shape", std::move(shape)},
                      {"bytes", static_cast<int64_t>(tensor.bytes.size())},
                      {"file", checkpoint.files()[tensor.file]},
                      {"offset", static_cast<int64_t>(tensor.offset)},
                      {"role", role.empty() ? Json() : Json(role)}};
}

Json json_of_model(const Model& model) {
  const ModelFacts& facts = model.facts();
  const std::vector<std::string>& unknown = model.unknown_tensors();
  Json::Object details, sampling;
  for (const auto& [name, text] : facts.details) details.emplace_back(name, text);
  for (const auto& [name, value] : sampling_of(facts.sampling)) sampling.emplace_back(name, value);
  return Json::Object{{"family", facts.family},
                      {"name", facts.name},
                      {"size_label", facts.size_label},
                      {"parameters", static_cast<int64_t>(facts.parameters)},
                      {"layers", int64_t{facts.layers}},
                      {"hidden", int64_t{facts.hidden}},
                      {"vocabulary", int64_t{facts.vocabulary}},
                      {"context_length", int64_t{facts.context_length}},
                      {"details", std::move(details)},
                      {"sampling", std::move(sampling)},
                      {"ignored_sampling", Json::Array(facts.ignored.begin(), facts.ignored.end())},
                      {"unread_tensors", static_cast<int64_t>(model.unread_tensors().size())},
                      {"unknown_tensors", Json::Array(unknown.begin(), unknown.end())}};
}

Json json_of_store(const ModelFiles& files, const StoreSettings& stored) {
  return Json::Object{{"origin", origin_name(files.origin)},
                      {"name", files.name},
                      {"system", files.system},
                      {"params", files.params},
                      {"unused_params", Json::Array(stored.unused.begin(), stored.unused.end())},
                      {"messages", static_cast<int64_t>(stored.messages.size())},
                      {"go_template", !files.go_template.empty()}};
}

Json json_of_projector(const Checkpoint& projector) {
  return Json::Object{{"path", projector.path()},
                      {"tensors", static_cast<int64_t>(projector.tensors().size())},
                      {"bytes", static_cast<int64_t>(bytes_of(projector))}};
}

Json as_json(const Inspection& found, const StoreSettings& stored, bool tensors) {
  const Checkpoint& checkpoint = *found.checkpoint;
  Json::Array files, formats;
  for (const std::string& file : checkpoint.files()) files.emplace_back(file);
  for (const FormatShare& share : found.formats) {
    formats.emplace_back(Json::Object{{"format", format_name(share.format)},
                                      {"tensors", static_cast<int64_t>(share.tensors)},
                                      {"bytes", static_cast<int64_t>(share.bytes)}});
  }
  Json json = Json::Object{{"path", checkpoint.path()},
                           {"source", dialect_name(checkpoint.dialect())},
                           {"files", std::move(files)},
                           {"bytes", static_cast<int64_t>(found.bytes)},
                           {"formats", std::move(formats)},
                           {"chat_template", has_chat_template(checkpoint)},
                           {"model", found.model ? json_of_model(*found.model) : Json()},
                           {"problem", found.problem.empty() ? Json() : Json(found.problem)},
                           {"projector", found.projector ? json_of_projector(*found.projector) : Json()},
                           {"draft_head", found.files.draft_head.empty() ? Json() : Json(found.files.draft_head)},
                           {"store", found.files.origin == Origin::path ? Json() : json_of_store(found.files, stored)}};
  if (tensors) {
    Json::Array list;
    for (const StoredTensor& tensor : checkpoint.tensors())
      list.push_back(json_of_tensor(checkpoint, tensor, role_of(found, tensor)));
    for (const StoredTensor& tensor : found.projector ? found.projector->tensors() : std::vector<StoredTensor>())
      list.push_back(json_of_tensor(*found.projector, tensor, "tower"));
    json.add("tensors", std::move(list));
  }
  return json;
}

Result<int> run(const Arguments& arguments, Console& console) {
  TRY(ModelFiles files, model_files(arguments.positionals()[0]));
  TRY(const Inspection found, inspect(std::move(files)));
  const uint32_t vocabulary = found.model ? found.model->facts().vocabulary : kMaxVocabulary;
  TRY(const StoreSettings stored, read_store_settings(found.files, vocabulary, {}));
  if (arguments.flag("--json"))
    console.json(as_json(found, stored, arguments.flag("--tensors")));
  else
    console.table(as_text(found, stored, arguments.flag("--tensors")));
  return 0;
}

}  // namespace

CommandSpec inspect_command() {
  return {
      .name = "inspect",
      .aliases = "show",
      .summary = "Shows what a model file holds",
      .text =
          "Reads headers only. A model of an unknown architecture is listed too, with the reason why it cannot "
          "run. The line `assumed` names settings that the file leaves out: DeepSeek GGUF files made before "
          "September 2025 do not say that 4 of 8 groups of experts are taken, as the reference does.",
      .positionals = {model_positional(/*required=*/true)},
      .options = {{.name = "--tensors", .help = "list every tensor"},
                  {.name = "--json", .help = "print one JSON object"}},
      .examples = {{"sluice inspect model.gguf", "family, sizes, formats"},
                   {"sluice inspect ./gemma --tensors --json", "everything, for a program"}},
      .json =
          {
              {"path", "string", "the model's file or directory"},
              {"source", "string", "`Hugging Face` or `GGUF`"},
              {"files[]", "string", "files with tensors"},
              {"bytes", "integer", "of all tensors"},
              {"formats[].format", "string", "a weight format, largest share first"},
              {"formats[].tensors", "integer", "how many tensors have it"},
              {"formats[].bytes", "integer", "their bytes"},
              {"chat_template", "boolean", "whether the file brings a chat template"},
              {"model", "object or null", "null when the architecture is not supported"},
              {"model.family", "string", "the family file that runs it"},
              {"model.name", "string", "as the file calls itself"},
              {"model.size_label", "string", "short for the number of parameters"},
              {"model.parameters", "integer", "of the text model, a tied head counted once"},
              {"model.layers", "integer", "of the text model"},
              {"model.hidden", "integer", "width of the residual stream"},
              {"model.vocabulary", "integer", "tokens"},
              {"model.context_length", "integer", "positions the model was made for"},
              {"model.details.*", "string", "further facts of the family"},
              {"model.sampling.*", "number", "sampling defaults of the file"},
              {"model.ignored_sampling[]", "string", "defaults that are out of range and ignored"},
              {"model.unread_tensors", "integer", "tensors that neither the text model nor a tower reads"},
              {"model.unknown_tensors[]", "string", "those of them that belong to no tower"},
              {"problem", "string or null", "why the model cannot run"},
              {"projector", "object or null", "the towers' own file, if there is one"},
              {"draft_head", "string or null",
               "the file of a draft head or draft model beside the model, which --draft reads"},
              {"projector.path", "string", "a GGUF file"},
              {"projector.tensors", "integer", "tensors of the towers"},
              {"projector.bytes", "integer", "their bytes"},
              {"store", "object or null", "facts from the model's store; null for a path"},
              {"store.origin", "string", "`Ollama`, `Hugging Face` or `LM Studio`"},
              {"store.name", "string", "the name that finds it"},
              {"store.system", "string", "the system message to begin with, or empty"},
              {"store.params", "object or null", "sampling settings that replace the file's own, as they stand there"},
              {"store.params.*", "string, number, boolean, object or null", "one of them"},
              {"store.unused_params[]", "string", "params that set nothing here"},
              {"store.messages", "integer", "messages to begin with"},
              {"store.go_template", "boolean",
               "whether the store has a template in Go's language, which is not rendered"},
              {"tensors[].name", "string", "with --tensors: every tensor under the file's name"},
              {"tensors[].format", "string", "as `formats[].format`"},
              {"tensors[].shape[]", "integer", "outermost dimension first"},
              {"tensors[].bytes", "integer", "in the file"},
              {"tensors[].file", "string", "which of `files[]`"},
              {"tensors[].offset", "integer", "of the first byte in that file"},
              {"tensors[].role", "string or null", "`text`, `tower` or `unknown`; null when the model is"},
          },
      .run = run,
  };
}

}  // namespace sluice
