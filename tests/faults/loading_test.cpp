// A model of each kind is opened, read and run while the system fails one call after another. Each time it is one
// sentence, or the same model; never a crash, and nothing is held afterwards.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <new>
#include <string>

#include "base/budget.h"
#include "chat/text_parts.h"
#include "checkpoint/gguf_writer.h"
#include "checkpoint/places/places.h"
#include "device/cpu/cpu.h"
#include "engine/engine.h"
#include "tests/checkpoint/places/stores.h"
#include "tests/engine/run_until_idle.h"
#include "tests/faults/faults.h"

namespace sluice {
namespace {

using faults::Kind;
using faults::Outcome;

const std::string kDirectory = SLUICE_TEST_DATA "/gemma4_moe";
const std::string kFile = SLUICE_TEST_DATA "/peer/gemma4_moe-bf16.gguf";

struct Opened {
  Model model;
  TextParts text;
};

Result<Opened> open(const std::string& name, const Places& places) {
  TRY(const ModelFiles files, find_model(name, places));
  TRY(Checkpoint checkpoint, open_checkpoint(files.path));
  TRY(Model model, resolve(std::make_shared<const Checkpoint>(std::move(checkpoint))));
  TRY(TextParts text, open_text(model));
  return Opened{std::move(model), std::move(text)};
}

// What a user would notice: the model's digest, and how it reads a text.
std::string identity(const Opened& opened) {
  std::string out = opened.model.digest();
  for (const int32_t id : opened.text.tokenizer.encode("The violin, and 12 more.")) out += cat(' ', id);
  return cat(out, ' ', opened.text.chat_name, ' ', opened.model.facts().eos_ids.size());
}

void expect_sentence(const Error& refused) {
  EXPECT_NE(refused.text, "");
  EXPECT_EQ(refused.text.find('\n'), std::string::npos) << refused.text;
}

class Loading : public tests::Stores {
 protected:
  // Every call in turn; returns how many there are.
  uint64_t fail_each(Kind kind, const std::string& name) const {
    const std::string right = identity(*open(name, places_));
    uint64_t refused = 0;
    for (uint64_t nth = 0;; ++nth) {
      std::string found;
      const Outcome outcome = faults::strike(kind, nth, [&] {
        const auto opened = open(name, places_);
        if (opened) {
          found = identity(*opened);
        } else {
          expect_sentence(opened.error());
          ++refused;
        }
      });
      EXPECT_TRUE(found.empty() || found == right) << "call " << nth;
      if (!outcome.struck) {
        EXPECT_EQ(kind == Kind::read_less, refused == 0);
        return nth;
      }
    }
  }
  void fail_every_read(const std::string& name, uint64_t least) const {
    EXPECT_GE(fail_each(Kind::read_error, name), 2 * least);
    EXPECT_GE(fail_each(Kind::read_nothing, name), least);
    EXPECT_GE(fail_each(Kind::read_less, name), least);
  }

  // The directory's model in two files, with their index.
  std::string put_shards() const {
    const Checkpoint whole = *open_checkpoint(kDirectory);
    for (const char* name : {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy_file(join_path(kDirectory, name), path(name));
    Json::Object index;
    for (const char* name : {"one.safetensors", "two.safetensors"}) {
      const size_t half = whole.tensors().size() / 2;
      const auto tensors =
          index.empty() ? std::span(whole.tensors()).first(half) : std::span(whole.tensors()).subspan(half);
      Json::Object header;
      std::string data;
      for (const StoredTensor& tensor : tensors) {
        const auto begin = static_cast<int64_t>(data.size());
        const std::span<const std::byte> bytes = tensor.bytes;
        data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        Json::Array offsets = {begin, static_cast<int64_t>(data.size())};
        Json::Array shape(tensor.shape.begin(), tensor.shape.end());
        header.emplace_back(
            tensor.name,
            Json::Object{{"dtype", "BF16"}, {"shape", std::move(shape)}, {"data_offsets", std::move(offsets)}});
        index.emplace_back(tensor.name, name);
      }
      const std::string text = write_json(header);
      put(name, tests::u64(text.size()) + text + data);
    }
    put("model.safetensors.index.json", write_json(Json::Object{{"weight_map", std::move(index)}}));
    return folder_;
  }

  std::string put_split_model() const {
    const Checkpoint whole = *open_checkpoint(kFile);
    const size_t half = whole.tensors().size() / 2;
    for (uint32_t part = 0; part < 2; ++part) {
      GgufWriter writer;
      if (part == 0)
        for (const auto& [key, value] : whole.metadata().entries()) writer.add_key(key, value);
      writer.add_key("split.no", static_cast<uint16_t>(part));
      writer.add_key("split.count", uint16_t{2});
      writer.add_key("split.tensors.count", static_cast<int32_t>(whole.tensors().size()));
      const auto tensors =
          part == 0 ? std::span(whole.tensors()).first(half) : std::span(whole.tensors()).subspan(half);
      for (const StoredTensor& tensor : tensors) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
      AtomicFile file = *AtomicFile::create(path(cat("m-0000", part + 1, "-of-00002.gguf")));
      EXPECT_TRUE(writer.begin(file).ok());
      for (const StoredTensor& tensor : tensors) EXPECT_TRUE(writer.write(tensor.bytes).ok());
      writer.finish();
      EXPECT_TRUE(file.commit().ok());
    }
    return path("m-00001-of-00002.gguf");
  }
};

TEST_F(Loading, ADirectoryOfSafetensors) { fail_every_read(kDirectory, 6); }
TEST_F(Loading, ADirectoryOfShards) { fail_every_read(put_shards(), 8); }
TEST_F(Loading, AGgufFile) { fail_every_read(kFile, 2); }
TEST_F(Loading, ASplitGgufFile) { fail_every_read(put_split_model(), 4); }
TEST_F(Loading, AModelOfOllamasStore) {
  const std::string content = *read_file(kFile, 1 << 24);
  add_manifest("registry.ollama.ai/library/tiny/latest",
               tests::manifest_json({add_layer("model", content), add_layer("params", "{}")},
                                    add_blob("application/json", R"({"model_family":"gemma4"})")));
  fail_every_read("tiny", 5);
}

// ---- memory

Result<std::vector<int32_t>> answer(Budget& budget, ThreadPool& pool, const std::string& saved) {
  TRY(const Opened opened, open(kDirectory, {}));
  const auto device = make_cpu_device({.pool = &pool});
  TRY(const auto engine, Engine::create(opened.model, *device, budget, {.context = 128}));
  Request request;
  request.prompt = opened.text.tokenizer.encode("A tree");
  request.max_tokens = 2;
  request.keep_sequence = true;
  TRY(const RequestId id, engine->submit(std::move(request)));
  run_until_idle(*engine);
  TRY(const Progress progress, engine->collect(id));
  if (progress.failure) return *progress.failure;
  TRY_STATUS(engine->save(progress.sequence, saved));
  std::string note;
  TRY_STATUS(engine->load(saved, &note));
  std::vector<int32_t> tokens;
  for (const SampleResult& one : progress.tokens) tokens.push_back(one.token);
  return tokens;
}

// The program's main turns bad_alloc into a sentence; on its way there nothing may be lost or held.
TEST_F(Loading, AnAllocationThatFailsUnwindsWhole) {
  ThreadPool pool(2);
  Budget budget;
  const std::vector<int32_t> right = *answer(budget, pool, path("s"));
  uint64_t thrown = 0;
  for (uint64_t nth = 0;; ++nth) {
    const Outcome outcome = faults::strike(Kind::allocation, nth, [&] {
      try {
        const auto tokens = answer(budget, pool, path("s"));
        EXPECT_TRUE(tokens.ok() && *tokens == right) << nth;
      } catch (const std::bad_alloc&) {
        ++thrown;
      }
    });
    EXPECT_EQ(budget.used(Domain::host), 0u) << nth;
    if (!outcome.struck) break;
  }
  EXPECT_GT(thrown, 100u);
  EXPECT_EQ(list_directory(folder_)->size(), 1u);  // the saved sequence, and no part of one
}

}  // namespace
}  // namespace sluice
