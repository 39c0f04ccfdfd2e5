// list, pull and models with the settings of their stores, as a shell sees them, over stores in a folder of the test's
// own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "app/commands.h"
#include "base/files/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_writer.h"
#include "tests/app/files/http_server.h"
#include "tests/app/json_fields.h"
#include "tests/app/program.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kMoe = SLUICE_TEST_DATA "/peer/gemma4_moe-bf16.gguf";

std::string hex_of(std::string_view content) {
  Sha256 sum;
  sum.add(content);
  return sum.finish_hex();
}

class PlacesCli : public testing::Test {
 protected:
  PlacesCli() {
    setenv("HOME", folder_.path().c_str(), 1);
    setenv("OLLAMA_MODELS", folder_.path("ollama").c_str(), 1);
    setenv("HF_HUB_CACHE", folder_.path("hub").c_str(), 1);
    setenv("no_proxy", "127.0.0.1", 1);
  }
  ~PlacesCli() override {
    setenv("HOME", home_.c_str(), 1);
    unsetenv("OLLAMA_MODELS");
    unsetenv("HF_HUB_CACHE");
  }

  std::string put(const std::string& name, std::string_view content) const {
    const std::string path = folder_.path(name);
    EXPECT_TRUE(make_folders(path.substr(0, path.rfind('/'))).ok());
    EXPECT_TRUE(write_file(path, content).ok());
    return path;
  }
  using Layers = std::vector<std::pair<std::string, std::string>>;  // kind and content

  void put_ollama(const std::string& name, const std::string& model, const Layers& more = {}) const {
    Layers layers = {{"model", model}};
    layers.insert(layers.end(), more.begin(), more.end());
    std::string list;
    for (const auto& [kind, content] : layers) {
      put("ollama/blobs/sha256-" + hex_of(content), content);
      list += cat(list.empty() ? "" : ",", R"({"mediaType":"application/vnd.ollama.image.)", kind,
                  R"(","digest":"sha256:)", hex_of(content), R"(","size":)", content.size(), "}");
    }
    put("ollama/manifests/registry.ollama.ai/library/" + name, cat(R"({"layers":[)", list, "]}"));
  }

  const std::string home_ = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  TemporaryFolder folder_;
  const std::string model_ = *read_file(kMoe, 1 << 24);
};

TEST_F(PlacesCli, NoModelsIsNoFailure) {
  const ProgramResult result = run_sluice({"list"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(
      result.err,
      "no models in Ollama's store, the Hugging Face cache and LM Studio's folders: sluice list --online shows some, "
      "sluice pull gemma4:e2b fetches one\n");
}

TEST_F(PlacesCli, ListShowsWhatRunsAndWhyNot) {
  put_ollama("tiny/moe", model_);
  put_ollama("cut/latest", model_.substr(0, model_.size() - 1000));
  put("ollama/manifests/registry.ollama.ai/library/broken/latest", "{");
  put("hub/models--org--strange/snapshots/aaa/m.gguf",
      std::string("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 24) +
          std::string("\24\0\0\0\0\0\0\0general.architecture\10\0\0\0\3\0\0\0\0\0\0\0foo", 43));
  put(".lmstudio/models/org/repo/gemma-BF16.gguf", model_);
  const ProgramResult result = run_sluice({"list"});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::vector<std::string> lines = split(result.out, '\n');
  ASSERT_EQ(lines.size(), 7u) << result.out;
  EXPECT_THAT(lines[0], StartsWith("NAME "));
  EXPECT_THAT(lines[1], StartsWith("broken:latest "));
  EXPECT_THAT(lines[1], HasSubstr("does not run: " + folder_.path("ollama/manifests/")));
  EXPECT_THAT(lines[2], StartsWith("cut:latest "));
  EXPECT_THAT(lines[2], HasSubstr("does not run: is cut short: has "));
  EXPECT_THAT(lines[3], testing::MatchesRegex("tiny:moe +bf16 +1.2 MB +gemma4 +Ollama +runs"));
  EXPECT_THAT(lines[4], HasSubstr("foo"));
  EXPECT_THAT(lines[4], HasSubstr("does not run: of another family (general.architecture is foo): want Gemma 4"));
  EXPECT_THAT(lines[5], testing::MatchesRegex("org/repo +bf16 +1.2 MB +gemma4 +LM Studio +runs"));
  std::set<std::string> seen;
  const ProgramResult json = run_sluice({"list", "--json"});
  expect_known_fields(*find_command("list"), *parse_json(json.out, "list"), seen);
  const ProgramResult online = run_sluice({"list", "--online", "--json"});
  expect_known_fields(*find_command("list"), *parse_json(online.out, "list"), seen);
  expect_all_fields(*find_command("list"), seen);
}

// A model whose tokenizer is not known would be refused by run.
TEST_F(PlacesCli, AModelWhoseTokenizerIsUnknownDoesNotRun) {
  std::string strange = model_;
  const size_t at = strange.find("gemma4", strange.find("tokenizer.ggml.model"));
  ASSERT_NE(at, std::string::npos);
  strange.replace(at, 6, "gemma9");
  put_ollama("strange/latest", strange);
  const std::string problem = "tokenizer.ggml.model is \"gemma9\": want gpt2, gemma4 or llama";
  EXPECT_THAT(run_sluice({"run", "strange", "Hi"}).err, HasSubstr(problem));
  EXPECT_THAT(run_sluice({"list"}).out, HasSubstr("does not run: " + problem));
  EXPECT_THAT(run_sluice({"inspect", "strange"}).out, HasSubstr(problem));
  const ProgramResult json = run_sluice({"inspect", "--json", "strange"});
  EXPECT_EQ(parse_json(json.out, "inspect")->find("problem")->as_string(), problem);
}

TEST_F(PlacesCli, CommandsTakeTheNamesOfList) {
  put_ollama("tiny/moe", model_);
  const ProgramResult inspected = run_sluice({"inspect", "tiny:moe"});
  EXPECT_EQ(inspected.status, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("gemma4"));
  const ProgramResult answered = run_sluice({"run", "tiny:moe", "Hi", "--greedy", "--max-tokens", "3"});
  EXPECT_EQ(answered.status, 0) << answered.err;
  const ProgramResult missing = run_sluice({"run", "tiny", "Hi"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.err, "sluice: tiny:latest: no such tag in " + folder_.path("ollama") +
                             ": want one of tiny:moe: sluice pull tiny looks for it online\n");
}

// ---- models with towers, and what a store keeps beside the weights

constexpr const char* kTowers[] = {"v.blk.0.attn_q.weight", "a.pre_encode.out.weight", "mm.a.fc.weight"};

// A GGUF file with towers of nothing but zeros: after the text model's tensors, with Ollama's names for what it calls
// otherwise, or by themselves.
std::string with_towers(const Checkpoint* text) {
  const TemporaryFolder folder;
  GgufWriter writer;
  if (text == nullptr) {
    writer.add_key("general.architecture", std::string("clip"));
  } else {
    for (const GgufMetadata::Entry& entry : text->metadata().entries())
      if (entry.name != "tokenizer.ggml.model") writer.add_key(entry.name, entry.value);
    writer.add_key("tokenizer.ggml.model", std::string("llama"));
    writer.add_key("tokenizer.ggml.pre", std::string("gemma4"));
  }
  for (const StoredTensor& tensor : text == nullptr ? std::vector<StoredTensor>() : text->tensors()) {
    const bool scale = ends_with(tensor.name, ".ffn_down_exps.scale");
    const std::string layer = tensor.name.substr(0, tensor.name.rfind(".ffn_down_exps"));
    writer.add_tensor(scale ? layer + ".ffn_gate_inp.per_expert_scale" : tensor.name, tensor.format, tensor.shape);
  }
  for (const char* name : kTowers) writer.add_tensor(name, *format_by_name("f32"), {4, 4});
  Result<AtomicFile> file = AtomicFile::create(folder.path("m.gguf"));
  EXPECT_TRUE(writer.begin(*file).ok());
  for (const StoredTensor& tensor : text == nullptr ? std::vector<StoredTensor>() : text->tensors())
    EXPECT_TRUE(writer.write(tensor.bytes).ok());
  const std::vector<std::byte> zeros(64);
  for (size_t i = 0; i < std::size(kTowers); ++i) EXPECT_TRUE(writer.write(zeros).ok());
  writer.finish();
  EXPECT_TRUE(file->commit().ok());
  return *read_file(folder.path("m.gguf"), 1 << 24);
}

std::string ollamas_file() {
  const Result<Checkpoint> text = open_checkpoint(kMoe);
  return with_towers(&*text);
}
std::string projector_file() { return with_towers(nullptr); }

ProgramResult answer(const std::string& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"run", model, "Hello there", "--threads", "1", "--max-tokens", "6"};
  words.insert(words.end(), more.begin(), more.end());
  return run_sluice(words);
}

TEST_F(PlacesCli, BothDialectsOfTowersAnswerAsTheTextModelAlone) {
  put_ollama("one/file", ollamas_file());
  put_ollama("two/files", model_, {{"projector", projector_file()}});
  put("hub/models--org--tall/snapshots/aaa/m.gguf", model_);
  put("hub/models--org--tall/snapshots/aaa/mmproj-m.gguf", projector_file());
  const ProgramResult plain = answer(kMoe);
  ASSERT_EQ(plain.status, 0) << plain.err;
  for (const char* name : {"one:file", "two:files", "org/tall"}) {
    const ProgramResult result = answer(name);
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(result.out, plain.out) << name;
    const ProgramResult shown = run_sluice({"inspect", name, "--tensors"});
    EXPECT_THAT(shown.out, HasSubstr("3 tensors, 192 bytes, known and not run\n")) << name;
    EXPECT_THAT(shown.out, testing::Not(HasSubstr("unknown")));
    for (const char* tower : kTowers)
      EXPECT_THAT(shown.out, testing::ContainsRegex(cat("\n", tower, "  f32  .4, 4.  64 bytes  .*, tower, not run\n")));
  }
  EXPECT_THAT(run_sluice({"inspect", "two:files"}).out,
              HasSubstr(cat("\ntowers          ", folder_.path("ollama/blobs/sha256-"), hex_of(projector_file()))));
  EXPECT_THAT(run_sluice({"list", "--json"}).out, HasSubstr(cat("\"projector\": \"", folder_.path("hub/"))));
}

TEST_F(PlacesCli, RunBeginsWithTheStoresSettings) {
  const std::string params = R"({"temperature": 0, "num_predict": 4, "num_ctx": 48, "mirostat": 1, "stop": ["zzz"]})";
  put_ollama("own/params", model_, {{"params", params}});
  const ProgramResult stored = run_sluice({"run", "own:params", "Hello there", "--verbose", "--json"});
  ASSERT_EQ(stored.status, 0) << stored.err;
  EXPECT_THAT(stored.err, HasSubstr("context   48\n"));
  const auto member = [](const ProgramResult& result, const char* name) {
    return write_json(*parse_json(result.out, "run")->find(name));
  };
  const ProgramResult given =
      run_sluice({"run", kMoe, "Hello there", "--greedy", "--max-tokens", "4", "--context", "48", "--json"});
  EXPECT_EQ(member(stored, "answer"), member(given, "answer"));
  EXPECT_EQ(member(stored, "answer_tokens"), "4");
  // What is given goes before what is stored.
  const ProgramResult both = run_sluice({"run", "own:params", "Hello there", "--max-tokens", "2", "--json"});
  EXPECT_EQ(member(both, "answer_tokens"), "2");
  EXPECT_THAT(run_sluice({"inspect", "own:params"}).out, HasSubstr("; not used: mirostat\n"));
}

TEST_F(PlacesCli, SystemAndMessagesAreTheConversationsBeginning) {
  const std::string messages = R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}])";
  put_ollama("with/system", model_, {{"system", "Be brief."}});
  put_ollama("with/messages", model_, {{"messages", messages}});
  EXPECT_EQ(answer("with:system", {"--json", "--greedy"}).status, 0);
  EXPECT_EQ(answer("with:system").out, answer(kMoe, {"--system", "Be brief."}).out);
  EXPECT_NE(answer("with:system").out, answer(kMoe).out);
  const auto prompt_tokens = [](const ProgramResult& result) {
    return parse_json(result.out, "run")->find("prompt_tokens")->as_integer();
  };
  EXPECT_GT(prompt_tokens(answer("with:messages", {"--json"})), prompt_tokens(answer(kMoe, {"--json"})) + 4);
  EXPECT_EQ(answer("with:messages", {"--raw"}).out, answer(kMoe, {"--raw"}).out);
}

TEST_F(PlacesCli, GosTemplateIsNeverRendered) {
  const Result<Checkpoint> text = open_checkpoint(kMoe);
  put_ollama("go/template", model_, {{"template", "{{ .Prompt }}"}});
  const ProgramResult result = answer("go:template", {"--stats"});
  EXPECT_EQ(result.out, answer(kMoe).out);
  const std::string note = "store template  Go's, which is not rendered: tokenizer.chat_template is used\n";
  EXPECT_THAT(result.err, StartsWith(note));
  EXPECT_THAT(run_sluice({"inspect", "go:template"}).out, HasSubstr(note));
  EXPECT_EQ(answer("go:template").err, "");
}

TEST_F(PlacesCli, AStoresSettingsThatAreNoneAreOneSentence) {
  const auto refusal = [&](const char* kind, const char* content) {
    put_ollama("bad/one", model_, {{kind, content}});
    const ProgramResult result = answer("bad:one");
    EXPECT_EQ(result.status, 1);
    return result.err;
  };
  EXPECT_EQ(refusal("params", R"({"temperature": "hot"})"),
            "sluice: bad:one: params: temperature is \"hot\": want a number\n");
  EXPECT_EQ(refusal("params", R"({"top_p": 3})"), "sluice: bad:one: params: top-p is 3: want a number from 0 to 1\n");
  EXPECT_EQ(refusal("params", R"({"num_ctx": "4k"})"),
            "sluice: bad:one: params: num_ctx is \"4k\": want a number of tokens\n");
  EXPECT_EQ(refusal("params", R"({"stop": [5]})"), "sluice: bad:one: params: stop is 5: want a text\n");
  EXPECT_EQ(refusal("messages", R"([{"role": "user"}])"),
            "sluice: bad:one: messages: message 0: content is missing or wrong: want a text\n");
  EXPECT_THAT(refusal("messages", "{}"), HasSubstr(": no list: want messages\n"));
}

TEST_F(PlacesCli, InspectJsonHasTheDocumentedMembers) {
  put_ollama("a/b", ollamas_file(),
             {{"projector", projector_file()}, {"params", R"({"top_k": 5, "mirostat": 1})"}, {"system", "S"}});
  std::set<std::string> seen;
  std::filesystem::copy(SLUICE_TEST_DATA "/gemma4_moe", folder_.path("advised"));
  put("advised/generation_config.json", R"({"top_p": 1.5, "top_k": 16777216})");
  const std::string ignored = folder_.path("advised/generation_config.json") + ": top_p is 1.5: want 0 to 1";
  const std::string text = run_sluice({"inspect", folder_.path("advised")}).out;
  EXPECT_THAT(text, HasSubstr("top_k 16777216\n"));
  EXPECT_THAT(text, HasSubstr(ignored + "\n"));
  EXPECT_THAT(run_sluice({"run", folder_.path("advised"), "Hi", "--max-tokens", "1"}).err,
              HasSubstr("sluice: " + ignored + ": not used\n"));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"inspect", folder_.path("advised"), "--json", "--tensors"},
        {"inspect", "demo", "--json"},
        {"inspect", "a:b", "--json", "--tensors"}}) {
    const ProgramResult result = run_sluice(words);
    ASSERT_EQ(result.status, 0) << result.err;
    expect_known_fields(*find_command("inspect"), *parse_json(result.out, "inspect"), seen);
  }
  seen.insert("model.unknown_tensors[]");  // none of these has one
  expect_all_fields(*find_command("inspect"), seen);
}

TEST_F(PlacesCli, PullSaysWhatItFetched) {
  const LocalServer server([&](const LocalRequest& asked) { return file_reply(asked, model_, "\"one\""); });
  const ProgramResult result =
      run_sluice({"pull", server.url("/tiny.gguf"), "--to", folder_.path("new"), "--sha256", hex_of(model_)});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, cat(folder_.path("new/tiny.gguf"), "  1.2 MB  sha256:", hex_of(model_), "\n"));
  EXPECT_EQ(run_sluice({"inspect", folder_.path("new/tiny.gguf")}).status, 0);
  std::set<std::string> seen;
  const ProgramResult json = run_sluice({"pull", server.url("/b.gguf"), "--to", folder_.path("new"), "--json"});
  expect_known_fields(*find_command("pull"), *parse_json(json.out, "pull"), seen);
  expect_all_fields(*find_command("pull"), seen);
}

TEST_F(PlacesCli, AFailedPullIsASentence) {
  const LocalServer server([](const LocalRequest&) { return LocalReply{404, {}, ""}; });
  const ProgramResult result = run_sluice({"pull", server.url("/m.gguf"), "--to", folder_.path()});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "sluice: " + server.url("/m.gguf") + ": not on the server (status 404)\n");
  const ProgramResult digest = run_sluice({"pull", server.url("/m.gguf"), "--sha256", "abc"});
  EXPECT_EQ(digest.status, 2);
  EXPECT_EQ(digest.err, "sluice: --sha256: found abc: want 64 hexadecimal digits, lower case\n");
}

}  // namespace
}  // namespace sluice
