// StateStore: states on disk, which a restarted program finds by history (docs/states.md). A state is the computed part
// of the first `length` elements of a history, a multiple of 64. Its file's name is a hash of the identity and of the
// history in blocks of 64, so the longest state is found by trying names. A file (save.h) has only the pages that the
// state before it in the chain lacks; recurrent states are whole in each file.
//
// A file with a wrong identity, history, layout or checksum is renamed (set aside) with a note, and its tokens are
// computed again. Whoever can write to the folder can change answers, so a folder of another user, or one that others
// may write to, is not used; files are 0600. Several processes may share a folder: files appear whole by renaming, and
// a missing one is no error. When the files exceed the limit, the least recently used are deleted. find() and
// set_aside() may run on another thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/mutex.h"
#include "engine/state/save.h"

namespace sluice {

// States with one identity and one history are bit-equal.
struct StateIdentity {
  std::string digest;       // of the model and of the adapters that acted
  std::string numerics_id;  // of the device
  bool any_class = false;   // classes are bit-equal and no part of a history
  // The pages in the file of a state of `length` positions if the state before it has `begins`.
  std::function<std::vector<SavedPages>(uint32_t begins, uint32_t length)> pages;
};

// A state that was found, with its chain of files: the last one first, the one that begins at 0 last.
struct StoredState {
  struct Part {
    std::string path;
    std::unique_ptr<FileSource> source;
    SaveReader reader;
  };
  uint32_t length = 0;  // 0: none
  std::vector<Part> parts = {};

  uint64_t bytes() const;
};

class StateStore {
 public:
  // Makes the folder. If that fails, there is a note, and nothing is kept or found.
  StateStore(std::string folder, uint64_t limit_bytes);

  // The longest state of more than `least` and at most `most` positions with which `history` begins.
  StoredState find(const StateIdentity& identity, const History& history, uint32_t least, uint32_t most);
  // Keeps the state of `length` positions of `history`, unless the folder has it. `pages` writes the pages that
  // identity.pages names.
  using PageWriter = std::function<Status(SaveWriter& writer, uint32_t begins)>;
  void keep(const StateIdentity& identity, const History& history, uint32_t length, const PageWriter& pages);
  // Renames a damaged file, so that it is not found again.
  void set_aside(const std::string& path, const Error& why);

  bool keeps() const { return keeps_; }
  bool finds() const { return finds_; }
  // Sentences for the user since the last call.
  std::vector<std::string> take_notes();

 private:
  std::vector<std::string> paths(const StateIdentity& identity, const History& history, uint32_t most) const;
  StoredState open(const StateIdentity& identity, const History& history, const std::vector<std::string>& paths,
                   uint32_t length);
  Status write(const SavedSequence& saved, const std::string& path, const PageWriter& pages);
  void evict();
  void note(std::string sentence);

  std::string folder_;
  uint64_t limit_;
  bool keeps_ = true, finds_ = true;
  bool said_large_ = false;
  Mutex noting_;
  std::vector<std::string> notes_;
};

}  // namespace sluice
