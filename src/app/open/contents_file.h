// Digests of model files, kept in the state folder, so that a model whose states are saved or loaded is read completely
// only once and not in every run. The file has one line for each digest, the newest last:
//
//   sluice contents 1
//   CONTENTS VERSION     (checkpoint/contents.h)
//
// A broken line is dropped when the file is written again. The file is trusted, like everybody who may write to the
// folder.
#pragma once

#include <memory>
#include <string>

#include "app/cli/console.h"
#include "app/cli/progress.h"
#include "checkpoint/contents.h"

namespace sluice {

inline constexpr size_t kRememberedContents = 256;  // the oldest are dropped

class ContentsFile final : public ContentsMemory {
 public:
  // `path`: "" for no file. Reading a whole model shows its progress.
  ContentsFile(std::string path, std::string model, Console& console);

  std::optional<std::string> find(const std::string& version) override;
  void keep(const std::string& version, const std::string& contents) override;
  void reading(uint64_t done, uint64_t all) override;

 private:
  std::string path_, model_;
  Console* console_;
  std::unique_ptr<ProgressLine> progress_;  // while a model is read
};

// The file "models" in the user's state folder; "" if there is no such folder.
std::string contents_path(const std::string& state_folder);

}  // namespace sluice
