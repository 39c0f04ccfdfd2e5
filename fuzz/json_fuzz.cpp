// JSON documents (config.json, tokenizer.json, the index of shards) from any bytes: what is accepted is written and
// reads back the same, and an index names plain files only.
#include "base/check.h"
#include "base/json.h"
#include "checkpoint/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = parse_json(text, "file");
  if (!json) return 0;
  const std::string written = write_json(*json);
  const auto again = parse_json(written, "again");
  if (again) CHECK(write_json(*again) == written);  // not for infinities, which JSON cannot hold
  const auto shards = parse_shard_index(text, "index");
  if (!shards) return 0;
  for (const auto& [tensor, file] : *shards) CHECK(file.find('/') == std::string::npos);
  return 0;
}
