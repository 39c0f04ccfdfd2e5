// SiteFiles: the files of a built web page (web/), read once at the start. A request names one of these or nothing, so
// no path of a request ever reaches the disk.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/http/http.h"

namespace sluice {

struct SiteFile {
  const char* type = "";  // of its content, as in the header
  std::string etag;       // stands for its bytes
  bool is_named_by_hash = false;
  std::string bytes;
};

class SiteFiles {
 public:
  // All files of the folder and of those below it. Names that begin with a dot are left out.
  static Result<SiteFiles> read(const std::string& folder);

  // By the path of a request: "/" is index.html. Null: there is none.
  const SiteFile* find(std::string_view path) const;
  uint64_t bytes() const;  // of all files together

 private:
  Status read_folder(const std::string& folder, const std::string& path, int depth);

  std::map<std::string, SiteFile, std::less<>> files_;  // by path
};

// The answer to GET and HEAD. It points into the file, which outlives the server.
ServerReply page_reply(const SiteFile& file, const ServerRequest& request);

}  // namespace sluice
