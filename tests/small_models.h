// The small models that tests use, from tests/data/models.json. The scripts of tests/wasm and tests/peer read that
// file, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "base/text.h"
#include "tests/unwrap.h"

namespace sluice {

// One entry of the file:
//
//   name          the folder, under tests/data and under SLUICE_REFERENCE_MODELS
//   family        the family that `sluice inspect` prints
//   format        the format of most weights
//   weights_here  tests/data has the weights; if false, only the full set of reference models has them
//   experts       the model has experts
//   draft_head    tests make a draft head for the model (tests/model/draft_checkpoint.h)
//   chat          test vectors of its tokenizer and chat template, under tests/data; "": none
//   tokenizer_of  the model whose tokenizer files it uses; "": it has its own
//   golden        in one arithmetic: cases that verify holds from any file (held), cases that also need the model's
//                 towers (towers; files without towers do not run them), and cases that it never runs (not_run)
//   peer          what the comparison with llama.cpp allows (tests/peer/models.mjs)
struct SmallModel {
  std::string name, family, format;
  bool weights_here = false, experts = false, draft_head = false;
  std::string chat, tokenizer_of;
  int64_t golden_held = 0, golden_towers = 0, golden_not_run = 0;
};

inline const std::vector<SmallModel>& small_models() {
  static const std::vector<SmallModel> all = [] {
    std::vector<SmallModel> models;
    const std::string path = cat(SLUICE_TEST_DATA, "/models.json");
    const std::string content = unwrap(read_file(path, 1u << 20));
    const Json json = unwrap(parse_json(content, path));
    for (const Json& one : json.find("models")->as_array()) {
      const auto text = [&](const char* key) {
        const Json* found = one.find(key);
        return found == nullptr ? std::string() : found->as_string();
      };
      const Json& golden = *one.find("golden");
      models.push_back({.name = text("name"),
                        .family = text("family"),
                        .format = text("format"),
                        .weights_here = one.find("weights_here")->as_bool(),
                        .experts = one.find("experts")->as_bool(),
                        .draft_head = one.find("draft_head")->as_bool(),
                        .chat = text("chat"),
                        .tokenizer_of = text("tokenizer_of"),
                        .golden_held = golden.find("held")->as_integer(),
                        .golden_towers = golden.find("towers")->as_integer(),
                        .golden_not_run = golden.find("not_run")->as_integer()});
    }
    return models;
  }();
  return all;
}

// The names of the models for which `holds` is true, in the order of the file. They live as long as the program.
template <class Predicate>
std::vector<const char*> small_models_where(const Predicate& holds) {
  std::vector<const char*> names;
  for (const SmallModel& one : small_models())
    if (holds(one)) names.push_back(one.name.c_str());
  return names;
}
// Those that any checkout has, in bf16, one of every family and shape.
inline std::vector<const char*> small_models_here() {
  return small_models_where([](const SmallModel& one) { return one.weights_here && one.format == "bf16"; });
}
// Those with vectors of their chats.
inline std::vector<SmallModel> small_models_with_chats() {
  std::vector<SmallModel> found;
  for (const SmallModel& one : small_models())
    if (!one.chat.empty()) found.push_back(one);
  return found;
}
inline std::vector<const char*> small_models_with_draft_heads() {
  return small_models_where([](const SmallModel& one) { return one.draft_head; });
}

}  // namespace sluice
