// inspect, convert, devices and verify as a user runs them, also on wrong files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <filesystem>

#include "app/commands.h"
#include "base/files/file.h"
#include "base/text.h"
#include "tests/app/json_fields.h"
#include "tests/app/program.h"
#include "tests/model/draft_apart.h"
#include "tests/model/draft_checkpoint.h"
#include "tests/model/quantised_folder.h"
#include "tests/model/written_gguf.h"

namespace sluice {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kData = SLUICE_TEST_DATA;
const std::string kMoe = kData + "/gemma4_moe";
const std::string kDense = kData + "/gemma4_dense";
const std::string kDemo = SLUICE_ASSETS "/demo-gemma4-q8_0.gguf";

Json json_of(const ProgramResult& result) {
  const Result<Json> json = parse_json(result.out, "standard output");
  EXPECT_TRUE(json) << result.out << result.err;
  return json ? *json : Json();
}

std::string sentence(const std::vector<std::string>& words, int status = 1) {
  const ProgramResult result = run_sluice(words);
  EXPECT_EQ(result.status, status);
  EXPECT_EQ(result.out, "");
  return result.err;
}

TEST(Inspect, SaysWhatTheModelIs) {
  const ProgramResult result = run_sluice({"inspect", kMoe});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("family          gemma4\n"));
  EXPECT_THAT(result.out, HasSubstr("layers          5\n"));
  EXPECT_THAT(result.out, HasSubstr("format          bf16: 110 tensors, 1.1 MB\n"));
  EXPECT_THAT(result.out, HasSubstr("sampling        temperature 1, top_k 64, top_p 0.95\n"));
}

TEST(Inspect, ListsTensorsInFileOrder) {
  const ProgramResult result = run_sluice({"inspect", "demo", "--tensors"});
  EXPECT_THAT(result.out, HasSubstr("\ntoken_embd.weight  q8_0  [4096, 256]  1.1 MB  demo-gemma4-q8_0.gguf at "));
}

TEST(Inspect, NamesAFewUnknownTensorsOnOneLine) {
  quantising::Tensors tensors;
  const Checkpoint moe = *open_checkpoint(kMoe);
  for (const StoredTensor& tensor : moe.tensors()) {
    const std::span<const std::byte> bytes = tensor.bytes;
    tensors[tensor.name] = {format_info(tensor.format).safetensors_name,
                            tensor.shape,
                            {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  }
  for (const char* name : {"z.1", "z.2", "z.3", "z.4", "z.5"})
    tensors[name] = quantising::stored("F32", {}, std::vector<float>{1});
  const TemporaryFolder folder;
  quantising::write_folder(folder.path(), *read_file(kMoe + "/config.json", 1 << 20), tensors);
  EXPECT_THAT(run_sluice({"inspect", folder.path()}).out, HasSubstr("\nunknown         z.1, z.2, z.3 and 2 more\n"));
  EXPECT_EQ(json_of(run_sluice({"inspect", folder.path(), "--json"}))
                .find("model")
                ->find("unknown_tensors")
                ->as_array()
                .size(),
            5u);
}

// A copy of a model directory whose config.json is changed.
class Copied {
 public:
  explicit Copied(const std::string& model) {
    const Result<std::vector<std::string>> names = list_directory(model);
    for (const std::string& name : *names)
      std::filesystem::create_symlink(join_path(std::filesystem::absolute(model).string(), name), folder_.path(name));
  }
  void replace(const std::string& name, const std::string& text) {
    std::filesystem::remove(folder_.path(name));
    EXPECT_TRUE(write_file(folder_.path(name), text));
  }
  void remove(const std::string& name) { std::filesystem::remove(folder_.path(name)); }
  std::string config_with(const std::string& from, const std::string& to) const {
    std::string text = *read_file(folder_.path("config.json"), 1 << 20);
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    return text;
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST(BadModels, AnUnknownArchitectureIsNamed) {
  Copied model(kMoe);
  model.replace("config.json", model.config_with("\"gemma4\"", "\"gemma9\""));
  const std::string why = cat(model.path(), "/config.json: a Gemma model (model_type is gemma9): want Gemma 4, ");
  EXPECT_THAT(sentence({"run", model.path(), "Hi"}), testing::StartsWith("sluice: " + why));
  // inspect shows such a model all the same.
  const ProgramResult shown = run_sluice({"inspect", model.path()});
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.out, HasSubstr("not supported   " + why));
  EXPECT_TRUE(json_of(run_sluice({"inspect", model.path(), "--json"})).find("model")->is_null());
}

TEST(BadModels, MissingAndMisshapenTensorsAreNamed) {
  Copied model(kMoe);
  model.replace("config.json", model.config_with("\"num_hidden_layers\": 5", "\"num_hidden_layers\": 6"));
  EXPECT_THAT(sentence({"run", model.path(), "Hi"}), HasSubstr(model.path()));
  Copied wider(kMoe);
  wider.replace("config.json", wider.config_with("\"intermediate_size\": 128", "\"intermediate_size\": 192"));
  EXPECT_THAT(sentence({"run", wider.path(), "Hi"}), HasSubstr("gate_proj"));
}

TEST(BadModels, AMissingTokenizerIsNamed) {
  Copied model(kMoe);
  model.remove("tokenizer.json");
  EXPECT_EQ(sentence({"run", model.path(), "Hi"}),
            cat("sluice: ", model.path(), ": no tokenizer.json: want the model's tokenizer beside it\n"));
}

TEST(BadModels, TruncatedFilesAreOneSentence) {
  const TemporaryFolder folder;
  const std::string whole = *read_file(kDemo, 1u << 28);
  const std::string cut = folder.path("cut.gguf");
  for (const size_t bytes : {size_t{0}, size_t{3}, size_t{20}, size_t{1000}, size_t{100000}, whole.size() - 1}) {
    ASSERT_TRUE(write_file(cut, whole.substr(0, bytes)));
    const std::string said = sentence({"run", cut, "Hi"});
    EXPECT_THAT(said, testing::StartsWith(cat("sluice: ", cut, ": "))) << bytes;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << bytes;
  }
}

TEST(BadModels, OtherFilesAreOneSentence) {
  EXPECT_EQ(sentence({"run", SLUICE_DOCS "/cli.md", "Hi"}),
            cat("sluice: ", SLUICE_DOCS, "/cli.md: not a GGUF file: want a GGUF file or a Hugging Face directory\n"));
  EXPECT_EQ(sentence({"inspect", SLUICE_DOCS}),
            cat("sluice: ", SLUICE_DOCS, ": no config.json: want a Hugging Face directory or a GGUF file\n"));
}

TEST(Convert, SaysWhatItWrote) {
  const TemporaryFolder folder;
  const std::string file = folder.path("moe.gguf");
  const ProgramResult result = run_sluice({"convert", kMoe, file, "--to", "f32"});
  EXPECT_EQ(result.out, file + ": 111 tensors, 2.3 MB, f32\n");
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(run_sluice({"inspect", file}).out, HasSubstr("f32: 111 tensors"));
}

TEST(Convert, JsonHasTheDocumentedMembers) {
  const TemporaryFolder folder;
  std::set<std::string> seen;
  const Json json = json_of(run_sluice({"convert", kMoe, folder.path("x.gguf"), "--to", "bf16", "--json"}));
  expect_known_fields(convert_command(), json, seen);
  expect_all_fields(convert_command(), seen);
}

// Names with shape and format of the tensors that inspect lists.
std::map<std::string, std::string> tensors_of(const std::string& path) {
  std::map<std::string, std::string> found;
  const Json json = json_of(run_sluice({"inspect", path, "--json", "--tensors"}));
  for (const Json& tensor : json.find("tensors")->as_array())
    found[tensor.find("name")->as_string()] = write_json(*tensor.find("shape")) + tensor.find("format")->as_string();
  return found;
}

TEST(Convert, AgreesWithLlamaCppsOwnFile) {
  // The file of llama.cpp's converter, written again without changing a format, has the same tensors and keys as ours.
  const TemporaryFolder folder;
  const std::string ours = folder.path("ours.gguf");
  ASSERT_EQ(run_sluice({"convert", kMoe, ours, "--to", "bf16"}).status, 0);
  EXPECT_EQ(tensors_of(ours), tensors_of(kData + "/peer/gemma4_moe-bf16.gguf"));
}

TEST(Convert, APatternNamesAnotherFormat) {
  const TemporaryFolder folder;
  const std::string mix = folder.path("mix.gguf"), ruled = folder.path("ruled.gguf");
  ASSERT_EQ(run_sluice({"convert", kMoe, mix, "--to", "q4_0"}).status, 0);
  ASSERT_EQ(run_sluice({"convert", kMoe, ruled, "--to", "q4_0", "--tensor", "blk.1.attn_q*=q8_0", "--tensor",
                        "blk.*.attn_q.weight=bf16"})
                .status,
            0);
  std::map<std::string, std::string> wanted = tensors_of(mix);
  for (auto& [name, text] : wanted) {
    if (!name.ends_with(".attn_q.weight")) continue;
    text.replace(text.find(']') + 1, std::string::npos, name.starts_with("blk.1.") ? "q8_0" : "bf16");
  }
  EXPECT_EQ(tensors_of(ruled), wanted);
}

TEST(Convert, AWrongPatternIsOneSentence) {
  const TemporaryFolder folder;
  const std::string file = folder.path("x.gguf");
  const auto said = [&](const char* rule, int status = 2) {
    return sentence({"convert", kMoe, file, "--to", "q4_0", "--tensor", rule}, status);
  };
  EXPECT_THAT(said("blk.9.*=q8_0", 1), HasSubstr("blk.9.*: no matrix of the file has such a name: want "));
  EXPECT_THAT(said("*=iq2_xs"),
              HasSubstr("--tensor *=iq2_xs: cannot write iq2_xs: want one of f32, f16, bf16, q8_0, "));
  EXPECT_THAT(said("*=q9"), HasSubstr("--tensor *=q9: cannot write q9: want one of "));
  EXPECT_THAT(said("q8_0"), HasSubstr("--tensor q8_0: want PATTERN=FORMAT\n"));
  EXPECT_THAT(*list_directory(folder.path()), IsEmpty());
}

TEST(Convert, SplitFilesAreTheWholeFileInParts) {
  const TemporaryFolder folder;
  const std::string whole = folder.path("whole.gguf");
  ASSERT_EQ(run_sluice({"convert", kMoe, whole, "--to", "q8_0"}).status, 0);
  const ProgramResult result = run_sluice({"convert", kMoe, folder.path("m.gguf"), "--to", "q8_0",
                                           "--split-max-tensors", "50", "--split-max-size", "250k"});
  EXPECT_EQ(result.status, 0);
  const std::vector<std::string> names = *list_directory(folder.path());
  ASSERT_EQ(names.size(), 4u);
  EXPECT_EQ(names[0], "m-00001-of-00003.gguf");
  EXPECT_EQ(names[2], "m-00003-of-00003.gguf");
  EXPECT_THAT(result.out, HasSubstr("m-00001-of-00003.gguf and 2 more: 111 tensors, "));
  for (const std::string& name : {names[0], names[1]}) EXPECT_EQ(tensors_of(folder.path(name)), tensors_of(whole));
  const std::string joined = folder.path("joined.gguf");
  ASSERT_EQ(run_sluice({"convert", folder.path(names[2]), joined, "--to", "q8_0"}).status, 0);
  EXPECT_TRUE(*read_file(joined, 1 << 24) == *read_file(whole, 1 << 24));
}

TEST(Convert, ASplitSetThatWasWrittenHalfOverAnotherIsRefused) {
  const TemporaryFolder folder;
  const auto convert = [&](const std::string& to, const std::string& format) {
    std::filesystem::create_directory(folder.path(to));
    return run_sluice({"convert", kMoe, folder.path(to + "/m.gguf"), "--to", format, "--split-max-tensors", "50"});
  };
  ASSERT_EQ(convert("old", "q8_0").status, 0);
  ASSERT_EQ(convert("new", "bf16").status, 0);
  ASSERT_EQ(convert("again", "bf16").status, 0);
  const std::vector<std::string> names = *list_directory(folder.path("old"));
  ASSERT_EQ(names.size(), 3u);
  const auto at = [&](const char* set, size_t part) { return folder.path(cat(set, "/", names[part])); };
  for (size_t part = 0; part < 3; ++part)
    EXPECT_TRUE(*read_file(at("again", part), 1 << 24) == *read_file(at("new", part), 1 << 24)) << "part " << part;
  // Parts get their names from the last one to the first.
  for (const size_t renamed : {2, 1}) {
    std::filesystem::copy_file(at("new", renamed), at("old", renamed),
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_EQ(sentence({"inspect", at("old", 0)}), cat("sluice: ", at("old", renamed), ": is of another set than ",
                                                       names[0], ": want parts that were written together\n"));
  }
  std::filesystem::copy_file(at("new", 0), at("old", 0), std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(tensors_of(at("old", 0)), tensors_of(at("new", 0)));
}

TEST(Convert, PackedExpertsAreTensorsOfTheirOwnAndComeBackTheSame) {
  const TemporaryFolder folder;
  const std::string stacked = folder.path("stacked.gguf"), packed = folder.path("packed.gguf");
  ASSERT_EQ(run_sluice({"convert", kMoe, stacked, "--to", "q8_0", "--tensor", "*ffn_down_exps*=f16"}).status, 0);
  ASSERT_EQ(
      run_sluice({"convert", kMoe, packed, "--to", "q8_0", "--tensor", "*ffn_down_exps*=f16", "--pack-experts"}).status,
      0);
  const std::string listed = run_sluice({"inspect", packed, "--tensors"}).out;
  EXPECT_THAT(listed, HasSubstr("blk.0.ffn_gate.0.weight"));
  EXPECT_THAT(listed, Not(HasSubstr("_exps.weight")));
  // Answers with experts that are read as they are chosen, too.
  const std::vector<std::string> ask = {"run", "", "a b", "--raw", "--greedy", "--max-tokens", "8"};
  const auto answer = [&](const std::string& model, const std::vector<std::string>& more) {
    std::vector<std::string> words = ask;
    words[1] = model;
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult result = run_sluice(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(answer(packed, {"--expert-memory", "200k"}), answer(stacked, {}));
  // In parts, each of which says how it is aligned.
  ASSERT_EQ(run_sluice({"convert", packed, folder.path("m.gguf"), "--to", "q8_0", "--tensor", "*ffn_down_exps*=f16",
                        "--pack-experts", "--split-max-tensors", "100"})
                .status,
            0);
  const std::vector<std::string> names = *list_directory(folder.path());
  ASSERT_TRUE(names[0].starts_with("m-00001-of-"));
  EXPECT_EQ(answer(folder.path(names[0]), {"--expert-memory", "200k"}), answer(stacked, {}));
  EXPECT_THAT(sentence({"convert", kDense, folder.path("none.gguf"), "--to", "q8_0", "--pack-experts"}),
              EndsWith(": has no experts: want none packed\n"));
}

TEST(Convert, PartsAppearOnlyTogether) {
  const TemporaryFolder folder;
  const std::vector<std::string> split = {"convert", kMoe, folder.path("m.gguf"), "--to", "f16", "--split-max-tensors",
                                          "90"};
  std::filesystem::create_directory(folder.path("m-00002-of-00002.gguf"));  // in the second one's way
  EXPECT_THAT(sentence(split), HasSubstr("m-00002-of-00002.gguf: not a file"));
  EXPECT_THAT(*list_directory(folder.path()), testing::ElementsAre("m-00002-of-00002.gguf"));
}

TEST(Convert, AFileThatCannotBeWrittenIsOneSentenceAndLeavesNothing) {
  const TemporaryFolder folder;
  EXPECT_THAT(sentence({"convert", kMoe, folder.path("none/x.gguf"), "--to", "f32"}),
              EndsWith("none/x.gguf: cannot create: no such file or directory\n"));
  std::filesystem::create_directory(folder.path("x.gguf"));
  EXPECT_THAT(sentence({"convert", kMoe, folder.path("x.gguf"), "--to", "f32"}), HasSubstr("x.gguf: "));
  std::filesystem::remove(folder.path("x.gguf"));
  EXPECT_THAT(*list_directory(folder.path()), IsEmpty());
}

TEST(Convert, AFullDiskIsOneSentenceAndLeavesNothing) {
  const TemporaryFolder folder;
  // A disk of 256 kB, where this process may mount one.
  if (mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=256k") != 0)
    GTEST_SKIP() << "no right to mount a small disk";
  const std::string said = sentence({"convert", kMoe, folder.path("x.gguf"), "--to", "f32"});
  const std::vector<std::string> left = *list_directory(folder.path());
  umount(folder.path().c_str());
  EXPECT_THAT(said, EndsWith("x.gguf: cannot write: the disk is full\n"));
  EXPECT_THAT(left, IsEmpty());
}

TEST(Convert, AFileThatIsThereIsReplacedOnlyByAWholeOne) {
  const TemporaryFolder folder;
  const std::string file = folder.path("x.gguf");
  ASSERT_TRUE(write_file(file, "kept"));
  Copied broken(kMoe);
  broken.remove("tokenizer.json");
  EXPECT_EQ(run_sluice({"convert", broken.path(), file, "--to", "f32"}).status, 1);
  EXPECT_EQ(*read_file(file, 100), "kept");
  EXPECT_EQ(run_sluice({"convert", kMoe, file, "--to", "f32"}).status, 0);
  EXPECT_EQ(read_file(file, 1 << 24)->substr(0, 4), "GGUF");
}

TEST(Devices, ListsDevicesAndInstructionSets) {
  // Without a library, whose driver leaks a few bytes.
  const ProgramResult result = run_sluice({"devices", "--webgpu-library", "./none.so"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("cpu         "));
  EXPECT_THAT(result.out, HasSubstr("reference   "));
  EXPECT_THAT(result.out, HasSubstr("--simd takes scalar"));
  std::set<std::string> seen;
  expect_known_fields(devices_command(), json_of(run_sluice({"devices", "--json", "--webgpu-library", "./none.so"})),
                      seen);
  // What is said of a GPU alone: WebGpuProgram.DevicesDescribeTheAdapter.
  for (const char* field : {"kind", "driver", "memory_bytes", "shares_memory", "f16", "subgroups", "matrices"})
    seen.insert(cat("devices[].", field));
  expect_all_fields(devices_command(), seen);
}

TEST(Verify, TheLastLineSumsUp) {
  const ProgramResult result =
      run_sluice({"verify", kData + "/gemma4_dense", "--golden", kData + "/gemma4_dense/golden.json"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, EndsWith("\nverify: 14 cases hold, 0 missed, 0 not run\n"));
}

TEST(Verify, JsonHasTheDocumentedMembers) {
  std::set<std::string> seen;
  const TemporaryFolder folder;
  const std::string file = folder.path("q8_0.gguf"), golden = kData + "/gemma4_dense/golden.json";
  ASSERT_EQ(run_sluice({"convert", kData + "/gemma4_dense", file, "--to", "q8_0"}).status, 0);
  for (const std::string& model : {file, kMoe})  // one quantised, and one that misses
    expect_known_fields(verify_command(), json_of(run_sluice({"verify", model, "--golden", golden, "--json"})), seen);
  expect_all_fields(verify_command(), seen);
}

TEST(Verify, AModelThatIsNotTheGoldensMissesEveryKindOfBar) {
  const ProgramResult result =
      run_sluice({"verify", kMoe, "--golden", kData + "/gemma4_dense/golden.json", "--arithmetic", "exact"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("  missed: largest logit difference: "));
  EXPECT_THAT(result.out, HasSubstr("  missed: greedy tokens part at "));
  EXPECT_THAT(result.out, HasSubstr("  missed: ln perplexity difference: "));
  EXPECT_THAT(result.out, HasSubstr("  missed: hidden.0: "));
  EXPECT_THAT(result.out, HasSubstr("  not compared:"));
  EXPECT_THAT(result.out, HasSubstr("\nimage           not run  the model has no vision tower\n"));
  EXPECT_THAT(result.out, EndsWith("\nverify: 0 cases hold, 6 missed, 1 not run\n"));
}

TEST(Verify, ATemplateThatRendersOtherTextMisses) {
  Copied model(kMoe);
  model.replace("chat_template.jinja", "{{ bos_token }}{{ messages[0].content }}");
  const ProgramResult result =
      run_sluice({"verify", model.path(), "--golden", kMoe + "/golden.json", "--cases", "chat"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("  missed: rendered text: \"What is a violin?\" at byte 5: want \"<|turn>user"));
}

TEST(Verify, WhatCannotBeVerifiedIsOneSentence) {
  const std::string golden = kMoe + "/golden.json";
  EXPECT_EQ(sentence({"verify", kMoe, "--golden", golden, "--cases", "nothing*"}),
            "sluice: verify: --cases nothing* selects 0 cases and none that can be run: want another pattern\n");
  EXPECT_THAT(sentence({"verify", kMoe, "--golden", kMoe + "/none.json"}), HasSubstr("none.json: "));
  EXPECT_THAT(sentence({"verify", kMoe, "--golden", kMoe + "/config.json"}),
              HasSubstr("config.json: model is missing"));
  EXPECT_EQ(sentence({"verify", kMoe, "--golden", kData + "/gemma4/golden.json", "--cases", "short9"}),
            "sluice: case short9: token 1060: want tokens below the model's 768\n");
}

// 0.2 s.
TEST(AnAssistant, DraftsBesideNgramsByDefaultAndIsLeftIfItDoesNotOpen) {
  const auto run = [](const std::string& assistant, const char* draft) {
    return run_sluice({"run", kData + "/gemma4_dense", "--draft-model", assistant, "--draft", draft, "--device", "cpu",
                       "--max-tokens", "40", "--temperature", "0", "--stats", "hello"});
  };
  const std::string assistant = kData + "/gemma4_assistant", none = kData + "/gemma4_dense/golden.json";
  const ProgramResult plain = run(assistant, "none"), drafting = run(assistant, "auto"), broken = run(none, "auto");
  EXPECT_EQ(drafting.out, plain.out);
  EXPECT_EQ(broken.out, plain.out);
  EXPECT_THAT(plain.err, Not(HasSubstr("drafts ")));
  EXPECT_THAT(drafting.err, HasSubstr("drafts "));
  EXPECT_THAT(broken.err, HasSubstr(cat(none, ": not a GGUF file")));
  EXPECT_THAT(broken.err, HasSubstr(": not used to draft\n"));
  EXPECT_EQ(run(none, "both").status, 1);
}

TEST(DraftHeadBesideAModel, IsShownAndPlannedWithDraftsByMtp) {
  const tests::DraftCheckpoint files("qwen3_5_moe", "draft_beside", tests::nothing_replaced);
  const TwoFiles two = head_apart(*export_gguf(*open_model(files.path()), *find_mix("f32")));
  const std::string path = written_gguf(two.model, join_path(files.path(), "m-f32.gguf"));
  const auto drafting = [&] { return run_sluice({"plan", path, "--draft", "mtp", "--device", "cpu"}); };
  EXPECT_EQ(drafting().err,
            cat("sluice: ", path, ": has no layer for multi-token prediction: want one to draft by mtp\n"));

  const std::string head = written_gguf(two.head, join_path(files.path(), "mtp-m-f32.gguf"));
  EXPECT_THAT(run_sluice({"inspect", path}).out, HasSubstr(cat(head, ": read with --draft mtp")));
  EXPECT_EQ(json_of(run_sluice({"inspect", path, "--json"})).find("draft_head")->as_string(), head);
  const ProgramResult planned = drafting();
  EXPECT_EQ(planned.status, 0) << planned.err;
  // Without drafts the file is not read.
  ASSERT_TRUE(write_file(head, "no model"));
  EXPECT_EQ(run_sluice({"plan", path, "--device", "cpu"}).status, 0);
  EXPECT_THAT(drafting().err, HasSubstr(head));
}

}  // namespace
}  // namespace sluice
