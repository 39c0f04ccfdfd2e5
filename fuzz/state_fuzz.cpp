// Saved sequences from any bytes, with a checksum that fits them: an engine refuses them with one sentence, or goes on
// from them and saves them again.
#include <algorithm>

#include "engine/engine_impl.h"
#include "engine/state/save.h"
#include "fuzz/files.h"
#include "fuzz/small_engine.h"
#include "tests/engine/fake_device.h"
#include "tests/engine/state/saved_bytes.h"

namespace {

using namespace sluice;  // NOLINT(google-build-using-namespace)

void go_on(Engine& engine, SequenceId sequence) {
  const History before = *engine.history(sequence);
  Request request;
  request.sequence = sequence;
  request.keep_sequence = true;
  request.prompt = {1, 2};
  request.max_tokens = 2;
  request.sampling.temperature = 0;
  const auto id = engine.submit(std::move(request));
  if (!id) return fuzz::check_sentence(id.error());  // no room in its context
  while (engine.step() != StepState::idle) {
  }
  const auto progress = engine.collect(*id);
  CHECK(progress.ok());
  if (progress->failure) return fuzz::check_sentence(*progress->failure);  // its pages hold what is not finite
  const History after = *engine.history(sequence);
  CHECK(after.size() > before.size() && std::equal(before.begin(), before.end(), after.begin()));
  CHECK(engine.save(sequence, "/dev/null").error().text == "/dev/null: not a file: want the name of a regular file");
  CHECK(engine.truncate(sequence, before.size() / 2).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto given = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> bytes = with_checksums({given.begin(), given.end()});
  if (!SaveReader::open(MemorySource("state", bytes), "state")) return 0;
  const fuzz::MemoryFile file(bytes);
  fake::Script script;
  Budget budget;
  const auto device = fake::make_device(script);
  const auto engine = create_engine(fake::model(), *device, budget, {.prompt_chunk = 128});
  CHECK(engine.ok());
  std::string note;
  const auto sequence = (*engine)->load(file.path(), &note);
  if (!sequence) {
    fuzz::check_sentence(sequence.error());
    return 0;
  }
  CHECK(note.find('\n') == std::string::npos);
  go_on(**engine, *sequence);
  return 0;
}
