// A folder of this process's own for temporary files, gone with everything in it at the end.
#pragma once

#include <string>

namespace sluice {

class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }  // "": none could be made

 private:
  std::string path_;
};

}  // namespace sluice
