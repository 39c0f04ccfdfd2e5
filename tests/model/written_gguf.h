// Exports as files, and the logits of what is read back.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/threads.h"
#include "checkpoint/gguf_writer.h"
#include "model/export.h"
#include "tests/model/text_bench.h"

namespace sluice {

// Writes `out` as it stands; the path.
inline std::string written_gguf(const GgufExport& out, const std::string& path) {
  GgufWriter writer;
  for (const auto& key : out.keys) writer.add_key(key.name, key.value);
  for (const ExportTensor& tensor : out.tensors) writer.add_tensor(tensor.name, tensor.format, tensor.shape);
  Result<AtomicFile> file = AtomicFile::create(path);
  EXPECT_TRUE(writer.begin(*file));
  ThreadPool pool(1);
  for (const ExportTensor& tensor : out.tensors)
    EXPECT_TRUE(convert_rows(tensor, pool, [&](auto piece) { return writer.write(piece); }));
  writer.finish();
  EXPECT_TRUE(file->commit());
  return path;
}

// Of two tokens of a fixed text of twelve.
inline std::vector<float> logits_of(const Model& model) {
  Result<Program> program = model.record_text();
  EXPECT_TRUE(program) << program.error().text;
  TextBench bench(model, *std::move(program), 32);
  const std::vector<int32_t> tokens = {3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26};
  return bench.play(tokens, {5, 11}, {find_value(bench.program(), "logits")})[0];
}

}  // namespace sluice
