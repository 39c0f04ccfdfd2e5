// What a repository of the Hugging Face hub holds, and which of its files make a model. Source: the hub's API,
// GET <hub>/api/models/<organisation>/<repository>/revision/<revision>?blobs=true
//
//   {"sha": COMMIT, "siblings": [{"rfilename": PATH, "size": BYTES, "blobId": SHA-1, "lfs": {"sha256", "size"}}...]}
//
// Paths become file names, so those with other characters than letters, digits and "-_." are left out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

struct HubFile {
  std::string path;
  uint64_t bytes = 0;
  std::string sha256;  // "" of small files, which git keeps itself
  std::string blob;    // its name in the cache: the SHA-256, else git's SHA-1
};
struct HubListing {
  std::string commit;  // 40 hexadecimal digits
  std::vector<HubFile> files;
};

// Every error begins with `where`.
Result<HubListing> parse_hub_listing(std::string_view text, const std::string& where);

// The files of one model, its own first: a GGUF file with its later parts, its towers and its draft head; or a
// directory of safetensors. `name` is for sentences. `wanted`: a quantisation such as "Q4_K_M", or a path; "": the
// directory, else the usual one (Q4_K_M where there is one).
Result<std::vector<HubFile>> choose_hub_files(const HubListing& listing, const std::string& name,
                                              std::string_view wanted);

}  // namespace sluice
