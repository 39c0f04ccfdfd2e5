#include "checkpoint/places/ollama_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "tests/checkpoint/places/stores.h"

namespace sluice {
namespace {

using namespace sluice::tests;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// ---- names

TEST(OllamaName, DefaultsStandForWhatIsMissing) {
  EXPECT_EQ(parse_ollama_name("gemma4")->path(), "registry.ollama.ai/library/gemma4/latest");
  EXPECT_EQ(parse_ollama_name("gemma4:e2b")->path(), "registry.ollama.ai/library/gemma4/e2b");
  EXPECT_EQ(parse_ollama_name("me/mine:v1")->path(), "registry.ollama.ai/me/mine/v1");
  EXPECT_EQ(parse_ollama_name("hf.co/org/repo-GGUF:Q4_K_M")->path(), "hf.co/org/repo-GGUF/Q4_K_M");
  EXPECT_EQ(parse_ollama_name("localhost:5000/a/b")->path(), "localhost:5000/a/b/latest");
}

TEST(OllamaName, IsWrittenInItsShortestForm) {
  for (const char* text : {"gemma4:e2b", "me/mine:v1", "hf.co/org/repo:Q4_K_M", "localhost:5000/library/b:latest"})
    EXPECT_EQ(parse_ollama_name(text)->text(), text);
  EXPECT_EQ(parse_ollama_name("registry.ollama.ai/library/gemma4")->text(), "gemma4:latest");
}

TEST(OllamaName, NoneLeavesItsFolder) {
  for (const char* text :
       {"",     ":",     "/",  "a/",  "/a",   "a:", ":b",   "..",      "../a", "a/..",  "a/../b",
        "a:..", "a:b/c", ".a", "a b", "a\\b", "-a", "a:-b", "a/b/c/d", "a//b", "a:b:c", "\xc3\xa4"}) {
    EXPECT_FALSE(parse_ollama_name(text).has_value()) << text;
  }
  EXPECT_TRUE(parse_ollama_name(std::string(80, 'a')).has_value());
  EXPECT_FALSE(parse_ollama_name(std::string(81, 'a')).has_value());
  EXPECT_FALSE(parse_ollama_name(std::string_view("a\0b", 3)).has_value());
}

// ---- digests

TEST(OllamaDigest, IsSha256AndLowerCaseHexOnly) {
  const std::string hex(64, 'a');
  EXPECT_EQ(parse_digest("sha256:" + hex), hex);
  EXPECT_EQ(parse_digest("sha256-" + hex), hex);
}

// CVE-2024-37032: a digest that is a path was opened as one.
TEST(OllamaDigest, APathIsNoDigest) {
  const std::string hex(64, 'a');
  for (const std::string& text : std::vector<std::string>{
           std::string(), std::string("sha256:"), "sha256:" + hex + "a", "sha256:" + hex.substr(1), "sha256" + hex,
           "sha256:" + std::string(64, 'A'), "sha512:" + hex, "sha256/" + hex, "sha256:" + std::string(63, 'a') + "\n",
           "sha256:../../../../../../../../../../../../../../../../../../../../etc/pa", "/etc/passwd", " sha256:" + hex,
           "sha256:" + hex + " "}) {
    EXPECT_FALSE(parse_digest(text).has_value()) << text;
  }
}

// ---- manifests

TEST(OllamaManifest, ReadsConfigAndLayers) {
  const std::string a(64, 'a');
  const std::string b(64, 'b');
  const auto manifest = parse_ollama_manifest(
      manifest_json({blob_json("application/vnd.ollama.image.model", "sha256:" + a, 7),
                     blob_json("text/plain", "sha256:" + b, 0)},
                    blob_json("application/vnd.docker.container.image.v1+json", "sha256:" + b, 3)),
      "m");
  ASSERT_TRUE(manifest.ok()) << manifest.error().text;
  EXPECT_FALSE(manifest->is_list());
  ASSERT_NE(manifest->layer("model"), nullptr);
  EXPECT_EQ(manifest->layer("model")->hex, a);
  EXPECT_EQ(manifest->layer("model")->bytes, 7u);
  EXPECT_EQ(manifest->layer("projector"), nullptr);
  EXPECT_EQ(manifest->layers[1].layer_kind(), "");
  EXPECT_EQ(manifest->config->bytes, 3u);
}

TEST(OllamaManifest, AListBeginsWithThisPlatform) {
  const auto entry = [](char digit, std::string_view platform) {
    std::string json = blob_json("application/vnd.oci.image.manifest.v1+json", "sha256:" + std::string(64, digit), 1);
    json.pop_back();
    return cat(json, platform.empty() ? "" : ",\"platform\":", platform, '}');
  };
  const auto list = parse_ollama_manifest(
      cat(R"({"schemaVersion":2,"manifests":[)", entry('1', R"({"os":"darwin","architecture":"arm64"})"), ',',
          entry('2', ""), ',', entry('3', R"({"os":"linux"})"), "]}"),
      "m");
  ASSERT_TRUE(list.ok()) << list.error().text;
  ASSERT_TRUE(list->is_list());
  EXPECT_THAT(list->layers, IsEmpty());
  EXPECT_EQ(list->manifests[0].hex[0], '3');
  EXPECT_EQ(list->manifests[1].hex[0], '2');
  EXPECT_EQ(list->manifests[2].hex[0], '1');
}

TEST(OllamaManifest, ABrokenOneIsRefused) {
  const auto said = [](std::string_view text) {
    const auto manifest = parse_ollama_manifest(text, "m");
    return manifest ? "accepted" : manifest.error().text;
  };
  EXPECT_THAT(said("{"), ::testing::StartsWith("m: no JSON at byte"));
  EXPECT_EQ(said("[]"), "m: no layers: want a manifest of Ollama's form");
  EXPECT_EQ(said(R"({"layers":{}})"), "m: member layers is empty or no list: want at least one blob");
  EXPECT_EQ(said(R"({"manifests":[]})"), "m: member manifests is empty or no list: want at least one blob");
  EXPECT_EQ(said(R"({"layers":[5]})"), "m: 5: want mediaType, digest and a size of at least 0");
  const std::string hex(64, 'a');
  EXPECT_EQ(said(cat(R"({"layers":[{"mediaType":"t","digest":"sha256:)", hex, R"(","size":-1}]})")).substr(0, 3),
            "m: ");
  for (const std::string_view digest : {"sha256:../../../etc/passwd", "sha256:", "../blob", "/etc/passwd", "sha256-..",
                                        "sha512:0000000000000000000000000000000000000000000000000000000000000000"}) {
    EXPECT_EQ(said(manifest_json({blob_json("t", digest, 1)})),
              cat("m: digest ", digest, ": want sha256: and 64 hexadecimal digits"));
  }
  EXPECT_EQ(said(std::string(1000, '[')), "m: nested deeper than 128");
}

// ---- stores

class OllamaStore : public Stores {
 protected:
  std::string root() const { return path("ollama"); }
  Result<ModelFiles> open(std::string_view name) const { return open_ollama_model(root(), *parse_ollama_name(name)); }
  std::string refusal(std::string_view name) const {
    const auto files = open(name);
    return files ? "accepted" : files.error().text;
  }
  static constexpr const char* kTiny = "registry.ollama.ai/library/tiny/latest";
  static constexpr const char* kConfig = "application/vnd.docker.container.image.v1+json";
};

TEST_F(OllamaStore, AModelWithAllItsLayers) {
  const std::string config = R"({"model_format":"gguf","model_family":"gemma4","model_families":["gemma4","clip"],)"
                             R"("model_type":"5.1B","file_type":"Q4_K_M"})";
  add_manifest(
      kTiny, manifest_json({add_layer("model", tiny_gguf()), add_layer("projector", "towers"),
                            add_layer("draft", "drafts"), add_layer("adapter", "first"), add_layer("adapter", "second"),
                            add_layer("template", "{{ .Prompt }}"), add_layer("system", "Be brief."),
                            add_layer("params", R"({"temperature":0.5,"stop":["x"]})"), add_layer("license", "free")},
                           add_blob(kConfig, config)));
  const auto files = open("tiny");
  ASSERT_TRUE(files.ok()) << files.error().text;
  EXPECT_EQ(files->name, "tiny:latest");
  EXPECT_EQ(files->origin, Origin::ollama);
  EXPECT_EQ(files->path, blob_path(tiny_gguf()));
  EXPECT_TRUE(open_checkpoint(files->path).ok());
  EXPECT_EQ(files->projector, blob_path("towers"));
  EXPECT_EQ(files->draft_head, blob_path("drafts"));
  EXPECT_THAT(files->adapters, ElementsAre(blob_path("first"), blob_path("second")));
  EXPECT_EQ(files->go_template, "{{ .Prompt }}");
  EXPECT_EQ(files->system, "Be brief.");
  EXPECT_EQ(files->params.find("temperature")->as_number(), 0.5);
  EXPECT_THAT(files->families, ElementsAre("gemma4", "clip"));
  EXPECT_EQ(files->format, "Q4_K_M");
}

TEST_F(OllamaStore, TheModelAloneIsEnough) {
  add_manifest(kTiny, manifest_json({add_layer("model", tiny_gguf())}));
  const auto files = open("tiny");
  ASSERT_TRUE(files.ok()) << files.error().text;
  EXPECT_EQ(files->projector, "");
  EXPECT_TRUE(files->params.is_null());
}

TEST_F(OllamaStore, AListGivesItsFirstManifestWithAModel) {
  const std::string pieces = manifest_json({add_layer("tensor", "piece")});
  const std::string whole = manifest_json({add_layer("model", tiny_gguf())});
  const std::string absent = blob_json("x", "sha256:" + std::string(64, 'a'), 5);
  add_manifest(kTiny, cat("{\"manifests\":[", absent, ',', add_blob("x", pieces), ',', add_blob("x", whole), "]}"));
  const auto files = open("tiny");
  ASSERT_TRUE(files.ok()) << files.error().text;
  EXPECT_EQ(files->path, blob_path(tiny_gguf()));
  add_manifest(kTiny, cat("{\"manifests\":[", absent, ',', add_blob("x", pieces), "]}"));
  EXPECT_EQ(refusal("tiny"), "tiny:latest: a list of 2 manifests, none of them here with a GGUF model: want one");
}

TEST_F(OllamaStore, AMissingBlobIsNamed) {
  add_manifest(kTiny, manifest_json({add_layer("model", tiny_gguf())}));
  std::filesystem::remove(blob_path(tiny_gguf()));
  EXPECT_EQ(refusal("tiny"),
            blob_path(tiny_gguf()) + ": missing: want the blob that the manifest of tiny:latest names");
}

TEST_F(OllamaStore, ABlobThatIsNoFileIsMissing) {
  add_manifest(kTiny, manifest_json({add_layer("model", tiny_gguf())}));
  const std::string blob = blob_path(tiny_gguf());
  const std::string missing = blob + ": missing: want the blob that the manifest of tiny:latest names";
  std::filesystem::remove(blob);
  std::filesystem::create_symlink(blob, blob);  // leads to itself
  EXPECT_EQ(refusal("tiny"), missing);
  std::filesystem::remove(blob);
  std::filesystem::create_symlink(folder_, blob);
  EXPECT_EQ(refusal("tiny"), missing);
}

TEST_F(OllamaStore, AManifestThatIsNoFileIsRefused) {
  const std::string manifest = add_manifest(kTiny, "");
  std::filesystem::remove(manifest);
  std::filesystem::create_symlink(manifest, manifest);
  EXPECT_EQ(refusal("tiny"), manifest + ": cannot open: Too many levels of symbolic links");
  std::filesystem::remove(manifest);
  std::filesystem::create_directory(manifest);
  EXPECT_EQ(refusal("tiny"), manifest + ": not a file: want a regular file");
}

TEST_F(OllamaStore, ABlobOfAnotherSizeIsRefused) {
  const std::string layer = add_layer("model", tiny_gguf());
  add_manifest(kTiny, manifest_json({layer}));
  std::filesystem::resize_file(blob_path(tiny_gguf()), 100);
  EXPECT_EQ(refusal("tiny"), cat(blob_path(tiny_gguf()), ": 100 bytes: want ", tiny_gguf().size(),
                                 ", as the manifest of tiny:latest says"));
}

TEST_F(OllamaStore, ModelsWithoutLocalWeightsSayWhy) {
  add_manifest(kTiny, manifest_json({}, add_blob(kConfig, R"({"remote_host":"https://ollama.com:443"})")));
  EXPECT_EQ(refusal("tiny"),
            "tiny:latest: runs at https://ollama.com:443 and has no weights here: want a model that lies on this "
            "machine");
  add_manifest(kTiny, manifest_json({add_layer("tensor", "piece"), add_layer("json", "{}")}));
  EXPECT_EQ(refusal("tiny"),
            "tiny:latest: stored tensor by tensor, for Ollama's MLX runner: want a model layer in GGUF");
  add_manifest(kTiny, manifest_json({add_layer("license", "free")}));
  EXPECT_EQ(refusal("tiny"), path("ollama/manifests/") + kTiny + ": no model layer: want one in GGUF");
  add_manifest(kTiny, manifest_json({add_layer("model", "one"), add_layer("model", "two")}));
  EXPECT_EQ(refusal("tiny"), "tiny:latest: several model layers: want one");
}

TEST_F(OllamaStore, ParamsAreAnObject) {
  add_manifest(kTiny, manifest_json({add_layer("model", tiny_gguf()), add_layer("params", "[1]")}));
  EXPECT_EQ(refusal("tiny"), blob_path("[1]") + ": no object: want sampling settings");
}

TEST_F(OllamaStore, ListsEveryManifest) {
  for (const char* below : {"registry.ollama.ai/library/b/e4b", "registry.ollama.ai/library/b/e2b",
                            "hf.co/org/repo/Q4_K_M", "registry.ollama.ai/me/mine/latest"}) {
    add_manifest(below, "{}");
  }
  add_manifest("registry.ollama.ai/library/.DS_Store", "");
  std::filesystem::create_directories(path("ollama/manifests/registry.ollama.ai/library/b/empty"));
  std::vector<std::string> names;
  for (const OllamaName& name : list_ollama_models(root())) names.push_back(name.text());
  EXPECT_THAT(names, ElementsAre("hf.co/org/repo:Q4_K_M", "b:e2b", "b:e4b", "me/mine:latest"));
  EXPECT_THAT(list_ollama_models(path("none")), IsEmpty());
}

}  // namespace
}  // namespace sluice
