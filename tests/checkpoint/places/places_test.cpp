#include "checkpoint/places/places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "checkpoint/checkpoint.h"
#include "checkpoint/places/model_folder.h"
#include "tests/checkpoint/places/stores.h"

namespace sluice {
namespace {

using namespace sluice::tests;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// ---- folders

using Variables = std::map<std::string, std::string>;

TEST(PlaceFolders, AreUnderHomeByDefault) {
  const Places places = find_places({.home = "/home/me", .variables = {}});
  EXPECT_THAT(places.ollama, ElementsAre("/home/me/.ollama/models", "/usr/share/ollama/.ollama/models"));
  EXPECT_THAT(places.hugging_face, ElementsAre("/home/me/.cache/huggingface/hub"));
  EXPECT_THAT(places.lm_studio, ElementsAre("/home/me/.lmstudio/models", "/home/me/.cache/lm-studio/models"));
}

TEST(PlaceFolders, OllamasVariableReplacesThem) {
  const Places places = find_places({"/home/me", Variables{{"OLLAMA_MODELS", "/data/ollama"}}});
  EXPECT_THAT(places.ollama, ElementsAre("/data/ollama"));
}

TEST(PlaceFolders, TheHubsVariablesInTheirOrder) {
  const auto hub = [](Variables variables) { return find_places({"/home/me", std::move(variables)}).hugging_face; };
  Variables variables = {{"XDG_CACHE_HOME", "/cache"}};
  EXPECT_THAT(hub(variables), ElementsAre("/cache/huggingface/hub"));
  variables["HF_HOME"] = "~/hf";
  EXPECT_THAT(hub(variables), ElementsAre("/home/me/hf/hub"));
  variables["HUGGINGFACE_HUB_CACHE"] = "/old";
  EXPECT_THAT(hub(variables), ElementsAre("/old"));
  variables["HF_HUB_CACHE"] = "/new";
  EXPECT_THAT(hub(variables), ElementsAre("/new"));
  variables["HF_HUB_CACHE"] = "";
  EXPECT_THAT(hub(variables), ElementsAre("/old"));
}

TEST(PlaceFolders, WithoutHomeThereAreFew) {
  const Places places = find_places({});
  EXPECT_THAT(places.ollama, ElementsAre("/usr/share/ollama/.ollama/models"));
  EXPECT_THAT(places.hugging_face, IsEmpty());
  EXPECT_THAT(places.lm_studio, IsEmpty());
}

using PlaceSettings = Stores;

TEST_F(PlaceSettings, LmStudiosUserMayHaveMovedIt) {
  put_deep(".lmstudio/settings.json", R"({"downloadsFolder":"/big/models","other":1})");
  EXPECT_THAT(find_places({.home = folder_, .variables = {}}).lm_studio,
              ElementsAre("/big/models", path(".cache/lm-studio/models")));
  put(".lmstudio-home-pointer", path("elsewhere") + "\n");
  EXPECT_THAT(find_places({.home = folder_, .variables = {}}).lm_studio,
              ElementsAre(path("elsewhere/models"), path(".cache/lm-studio/models")));
  put_deep("elsewhere/settings.json", "{broken");
  EXPECT_EQ(find_places({.home = folder_, .variables = {}}).lm_studio[0], path("elsewhere/models"));
}

// ---- finding

using FindModel = Stores;

TEST_F(FindModel, APathIsTakenAsItIs) {
  const std::string file = put("tiny.gguf", tiny_gguf());
  const auto files = find(file);
  ASSERT_TRUE(files.ok()) << files.error().text;
  EXPECT_EQ(files->path, file);
  EXPECT_EQ(files->origin, Origin::path);
  EXPECT_EQ(refusal(path("none.gguf")), path("none.gguf") + ": no such file or directory");
  EXPECT_EQ(refusal("./none"), "./none: no such file or directory");
  EXPECT_EQ(refusal("~/none"), "~/none: no such file or directory");
}

TEST_F(FindModel, AMissingModelIsOneSentence) {
  EXPECT_EQ(refusal("gemma4:e2b"), "gemma4:e2b: no file or model of that name on this machine");
  EXPECT_EQ(find("gemma4:e2b").error().kind, ErrorKind::not_found);
  EXPECT_EQ(refusal("a/../b").substr(0, 7), "a/../b:");
  EXPECT_EQ(refusal("models/none.gguf").substr(0, 18), "models/none.gguf: ");
}

TEST_F(FindModel, ByOllamasName) {
  add_manifest("registry.ollama.ai/library/tiny/e2b", manifest_json({add_layer("model", tiny_gguf())}));
  EXPECT_EQ(refusal("tiny:e2b"), "found " + blob_path(tiny_gguf()));
  EXPECT_EQ(refusal("registry.ollama.ai/library/tiny:e2b"), "found " + blob_path(tiny_gguf()));
  EXPECT_EQ(refusal("tiny"), "tiny:latest: no such tag in " + path("ollama") + ": want one of tiny:e2b");
}

TEST_F(FindModel, TheFirstOfSeveralOllamaStoresWins) {
  places_.ollama = {path("other"), path("ollama")};
  add_manifest("registry.ollama.ai/library/tiny/latest", manifest_json({add_layer("model", tiny_gguf())}));
  EXPECT_EQ(refusal("tiny"), "found " + blob_path(tiny_gguf()));
  put_deep("other/manifests/registry.ollama.ai/library/tiny/latest", "{}");
  EXPECT_EQ(refusal("tiny"), path("other/manifests/registry.ollama.ai/library/tiny/latest") +
                                 ": no layers: want a manifest of Ollama's form");
}

TEST_F(FindModel, ADirectoryOfTheHubWhoseFilesAreLinks) {
  add_hub_file("org--repo", "config.json", "{}");
  add_hub_file("org--repo", "model.safetensors",
               safetensors_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", 3));
  const auto files = find("org/repo");
  ASSERT_TRUE(files.ok()) << files.error().text;
  EXPECT_EQ(files->path, snapshot("org--repo"));
  EXPECT_EQ(files->origin, Origin::hugging_face);
  const auto checkpoint = open_checkpoint(files->path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text;
  EXPECT_NE(checkpoint->find("a"), nullptr);
  EXPECT_NE(checkpoint->document("config.json"), nullptr);
}

TEST_F(FindModel, AMissingBlobOfAShardIsReported) {
  add_hub_file("org--repo", "config.json", "{}");
  add_hub_file("org--repo", "model.safetensors", "x");
  std::filesystem::remove(path("hub/models--org--repo/blobs/" + hex_of("x")));
  const std::string file = snapshot("org--repo") + "/model.safetensors";
  EXPECT_EQ(open_checkpoint(find("org/repo")->path).error().text, file + ": cannot open: no such file or directory");
}

TEST_F(FindModel, TheOnlyGgufOfARepositoryNeedsNoName) {
  add_hub_file("org--repo", "m-Q4_K_M.gguf", tiny_gguf());
  add_hub_file("org--repo", "mmproj-F16.gguf", "towers");
  const auto files = find("org/repo");
  ASSERT_TRUE(files.ok()) << files.error().text;
  EXPECT_EQ(files->name, "org/repo");
  EXPECT_EQ(files->path, snapshot("org--repo") + "/m-Q4_K_M.gguf");
  EXPECT_EQ(files->projector, snapshot("org--repo") + "/mmproj-F16.gguf");
}

// Draft heads and importance matrices make no name ambiguous. Naming one gives a sentence that says what it is.
TEST_F(FindModel, FilesBesideAModelAreNoModels) {
  for (const char* file : {"m-Q4_K_M.gguf", "mtp-m-Q8_0.gguf", "dspark-m.gguf", "dflash-m.gguf", "m.imatrix.gguf",
                           "imatrix_unsloth.gguf"}) {
    add_hub_file("org--repo", file, tiny_gguf());
  }
  add_hub_file("org--repo", "m-it-assistant-Q8_0.gguf",
               std::string("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 24) +
                   std::string("\24\0\0\0\0\0\0\0general.architecture\10\0\0\0\20\0\0\0\0\0\0\0gemma4-assistant", 56));
  EXPECT_EQ(refusal("org/repo"), cat("found ", snapshot("org--repo"), "/m-Q4_K_M.gguf"));
  EXPECT_EQ(find("org/repo")->name, "org/repo");
  EXPECT_EQ(refusal("org/repo/mtp-m-Q8_0.gguf"),
            "org/repo: mtp-m-Q8_0.gguf is a head for multi-token prediction: want the model that it lies beside");
  // But the draft head is known: the one in the model's format, of several.
  EXPECT_EQ(find("org/repo")->draft_head, cat(snapshot("org--repo"), "/mtp-m-Q8_0.gguf"));
  EXPECT_EQ(find(snapshot("org--repo") + "/m-Q4_K_M.gguf")->draft_head, cat(snapshot("org--repo"), "/mtp-m-Q8_0.gguf"));
  const std::vector<std::string> towers = {"mmproj-a-F16.gguf", "mmproj-a-b-BF16.gguf", "a-Q8_0.gguf", "a-b-Q8_0.gguf"};
  EXPECT_EQ(choose_projector("a-Q8_0.gguf", towers), "mmproj-a-F16.gguf");
  EXPECT_EQ(choose_projector("a-b-Q8_0.gguf", towers), "mmproj-a-b-BF16.gguf");
  EXPECT_EQ(choose_projector("c-Q8_0.gguf", towers), "");
  EXPECT_EQ(choose_projector("m.gguf", {"m.gguf", "mmproj-model-f16.gguf", "mtp-m.gguf"}), "mmproj-model-f16.gguf");
  EXPECT_EQ(choose_projector("m.gguf", {"m.gguf", "n.gguf", "mmproj-BF16.gguf"}), "");
  EXPECT_EQ(choose_draft_head("m-Q8_0.gguf", {"x.gguf", "mtp-m-BF16.gguf", "mtp-m-Q8_0.gguf"}), "mtp-m-Q8_0.gguf");
  EXPECT_EQ(choose_draft_head("m-Q4_0.gguf", {"x.gguf", "mtp-m-Q8_0.gguf", "mtp-m-BF16.gguf"}), "mtp-m-BF16.gguf");
  EXPECT_EQ(choose_draft_head("m-Q4_0.gguf", {"x.gguf"}), "");
  // An assistant drafts for the model of its name.
  const std::vector<std::string> both = {"a-it-assistant-F16.gguf", "b-it-assistant-F16.gguf", "a-it-Q8_0.gguf"};
  EXPECT_EQ(choose_draft_head("a-it-Q8_0.gguf", both), "a-it-assistant-F16.gguf");
  EXPECT_EQ(choose_draft_head("c-it-Q8_0.gguf", both), "");
  EXPECT_EQ(choose_draft_head("my-assistant-Q8_0.gguf", {"my-assistant-Q8_0.gguf"}), "");
  EXPECT_EQ(refusal("org/repo/m.imatrix.gguf"),
            "org/repo: m.imatrix.gguf is an importance matrix: want the model that it lies beside");
  EXPECT_EQ(refusal("org/repo/m-it-assistant-Q8_0.gguf"),
            "org/repo: m-it-assistant-Q8_0.gguf is a draft model: want the model that it lies beside");
  // A model may be called an assistant.
  add_hub_file("org--other", "my-assistant-Q8_0.gguf", tiny_gguf());
  EXPECT_EQ(refusal("org/other"), cat("found ", snapshot("org--other"), "/my-assistant-Q8_0.gguf"));
}

TEST_F(FindModel, OneOfSeveralGgufsIsNamedByFileOrFormat) {
  for (const char* file : {"m-Q4_K_M.gguf", "m-Q8_0.gguf", "BF16/m-BF16-00001-of-00002.gguf",
                           "BF16/m-BF16-00002-of-00002.gguf", "m-UD-Q4_K_XL.gguf"}) {
    add_hub_file("org--repo", file, tiny_gguf());
  }
  const std::string at = snapshot("org--repo");
  EXPECT_EQ(refusal("org/repo"),
            cat("org/repo: 4 models in ", at,
                ": want one of them after org/repo/, of BF16/m-BF16-00001-of-00002.gguf, m-Q4_K_M.gguf, m-Q8_0.gguf, "
                "m-UD-Q4_K_XL.gguf"));
  EXPECT_EQ(refusal("org/repo/m-Q8_0.gguf"), cat("found ", at, "/m-Q8_0.gguf"));
  EXPECT_EQ(refusal("org/repo:q4_k_m"), cat("found ", at, "/m-Q4_K_M.gguf"));
  EXPECT_EQ(refusal("hf.co/org/repo:BF16"), cat("found ", at, "/BF16/m-BF16-00001-of-00002.gguf"));
  EXPECT_EQ(refusal("org/repo/BF16/m-BF16-00002-of-00002.gguf"), cat("found ", at, "/BF16/m-BF16-00001-of-00002.gguf"));
  EXPECT_EQ(refusal("org/repo:Q4_K_XL"), cat("found ", at, "/m-UD-Q4_K_XL.gguf"));
  EXPECT_EQ(refusal("org/repo:Q2_K"), cat("org/repo: no model Q2_K in ", at,
                                          ": want one of org/repo/BF16/m-BF16-00001-of-00002.gguf, "
                                          "org/repo/m-Q4_K_M.gguf, org/repo/m-Q8_0.gguf, org/repo/m-UD-Q4_K_XL.gguf"));
}

TEST_F(FindModel, ARepositoryWithoutModelSaysSo) {
  add_hub_file("org--repo", "tokenizer.json", "{}");
  EXPECT_EQ(refusal("org/repo"), cat("org/repo: no model in ", snapshot("org--repo"),
                                     ": want config.json with safetensors, or a GGUF file"));
}

TEST_F(FindModel, WithoutRefsTheNewestSnapshotCounts) {
  const std::string older = put_deep("hub/models--o--r/snapshots/aaa/m.gguf", tiny_gguf());
  const std::string newer = put_deep("hub/models--o--r/snapshots/bbb/m.gguf", tiny_gguf());
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(path("hub/models--o--r/snapshots/bbb"), now - std::chrono::hours(2));
  EXPECT_EQ(refusal("o/r"), "found " + older);
  std::filesystem::last_write_time(path("hub/models--o--r/snapshots/aaa"), now - std::chrono::hours(3));
  EXPECT_EQ(refusal("o/r"), "found " + newer);
}

TEST_F(FindModel, ABrokenRefIsRefused) {
  const std::string ref = put_deep("hub/models--o--r/refs/main", "../../../secret");
  EXPECT_EQ(refusal("o/r"), ref + ": ../../../secret: want a commit of 40 hexadecimal digits");
  put("hub/models--o--r/refs/main", kCommit);
  EXPECT_EQ(refusal("o/r"), snapshot("o--r") + ": missing: want the snapshot that refs/main names");
  std::filesystem::remove(ref);
  EXPECT_EQ(refusal("o/r"),
            path("hub/models--o--r/snapshots") + ": no snapshot: want a repository that was downloaded");
}

TEST_F(FindModel, InLmStudiosFolders) {
  const std::string file = put_deep("lm/org/repo/m.gguf", tiny_gguf());
  EXPECT_EQ(refusal("org/repo"), "found " + file);
  EXPECT_EQ(refusal("org/repo/m.gguf"), "found " + file);
  EXPECT_EQ(find("org/repo")->origin, Origin::lm_studio);
  put_deep("lm/org/mlx/config.json", "{}");
  put_deep("lm/org/mlx/model.safetensors", "x");
  EXPECT_EQ(refusal("org/mlx"), "found " + path("lm/org/mlx"));
}

TEST_F(FindModel, OneNameInTwoPlacesIsAmbiguous) {
  add_hub_file("org--repo", "m.gguf", tiny_gguf());
  const std::string file = put_deep("lm/org/repo/m.gguf", tiny_gguf());
  EXPECT_EQ(refusal("org/repo"), cat("org/repo: 2 models of that name, ", snapshot("org--repo"),
                                     "/m.gguf (Hugging Face) and ", file, " (LM Studio): want the path of one"));
  // An unreadable model does not count as a second one.
  put("lm/org/repo/n.gguf", tiny_gguf());
  EXPECT_EQ(refusal("org/repo"), cat("found ", snapshot("org--repo"), "/m.gguf"));
}

TEST_F(FindModel, ANameWithAHostIsOllamasFirst) {
  add_hub_file("org--repo", "m-Q8_0.gguf", tiny_gguf());
  EXPECT_EQ(refusal("hf.co/org/repo:Q8_0"), cat("found ", snapshot("org--repo"), "/m-Q8_0.gguf"));
  add_manifest("hf.co/org/repo/Q8_0", manifest_json({add_layer("model", tiny_gguf())}));
  EXPECT_EQ(refusal("hf.co/org/repo:Q8_0"), "found " + blob_path(tiny_gguf()));
}

// ---- listing

using ListModels = Stores;

TEST_F(ListModels, NothingAnywhereIsAnEmptyList) { EXPECT_TRUE(list_models(places_).empty()); }

TEST_F(ListModels, ShowsAllPlacesAndBrokenOnesToo) {
  add_manifest("registry.ollama.ai/library/tiny/latest", manifest_json({add_layer("model", tiny_gguf())}));
  add_manifest("registry.ollama.ai/library/broken/latest", "{}");
  add_hub_file("org--repo", "m-Q4_0.gguf", tiny_gguf());
  add_hub_file("org--repo", "m-Q8_0.gguf", tiny_gguf());
  put_deep("hub/models--org--broken/refs/main", "x");
  put_deep("hub/datasets--org--data/refs/main", "x");
  put_deep("lm/org/repo/m.gguf", tiny_gguf());
  put_deep("lm/stray.txt", "x");
  std::vector<std::string> shown;
  for (const ListedModel& model : list_models(places_)) {
    shown.push_back(cat(model.name, ", ", origin_name(model.origin), model.files.ok() ? "" : ", broken"));
    if (model.files.ok()) {
      // Found again by the name that is shown, unless another place has it too.
      const auto again = find(model.name);
      EXPECT_TRUE(again.ok() && again->path == model.files->path) << model.name;
    }
  }
  EXPECT_THAT(shown, ElementsAre("broken:latest, Ollama, broken", "tiny:latest, Ollama",
                                 "org/broken, Hugging Face, broken", "org/repo/m-Q4_0.gguf, Hugging Face",
                                 "org/repo/m-Q8_0.gguf, Hugging Face", "org/repo, LM Studio"));
}

// A loop of links ends at a fixed depth.
TEST_F(ListModels, LoopsOfLinksEnd) {
  add_hub_file("org--repo", "m.gguf", tiny_gguf());
  std::filesystem::create_directory_symlink(snapshot("org--repo"), snapshot("org--repo") + "/again");
  EXPECT_LE(list_models(places_).size(), 4u);
}

}  // namespace
}  // namespace sluice
