// States kept on disk by content: what a program that was started again finds for a history that began alike.
//
// A state is what is computed of the first `length` tokens of a history, a multiple of 64. Its file's name is a hash of
// the identity and, block by block of 64, of (token, class), with digest and row of what is of a picture or sound: so
// the longest state that a history begins with is found by asking for names, and the folder is never listed for it. A
// file (save.h) holds only what the state before it in the chain has not, so that nothing two conversations share is
// written twice; recurrent states are whole in each.
//
// Nothing in a file is believed: identity, history, layout and checksums must be right, else it is set aside under
// another name, with one sentence, and its tokens are computed as if it had never been there. Who may write to the
// folder and makes checksums right can change answers, so it is its owner's alone: one that belongs to another user, or
// that others may write to, is not used, and files are 0600. Several processes may share it: files appear whole by
// renaming, and one that is gone is no error. The least recently used go when all are larger than the limit. find() and
// set_aside() may run on another thread than the rest.
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

// Whose states: histories apart, states of one identity are alike bit for bit. Adapters join here.
struct StateIdentity {
  std::string digest;       // of the model
  std::string numerics_id;  // of the device
  bool any_class = false;   // classes are bit-equal and no part of a history
  // What a file holds of a state of `length` positions when the one before it has `begins`.
  std::function<std::vector<SavedPages>(uint32_t begins, uint32_t length)> pages;
};

// A state that was found: its files, the whole one's first, back to the one that begins at 0.
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
  // Makes the folder. What cannot be done is a note, and nothing is kept or found then.
  StateStore(std::string folder, uint64_t limit_bytes);

  // The longest state of more than `least` and at most `most` positions that `history` begins with.
  StoredState find(const StateIdentity& identity, const History& history, uint32_t least, uint32_t most);
  // Keeps the state of `length` positions of `history`; `pages` writes what identity.pages says. Nothing when it is
  // there already.
  using PageWriter = std::function<Status(SaveWriter& writer, uint32_t begins)>;
  void keep(const StateIdentity& identity, const History& history, uint32_t length, const PageWriter& pages);
  // Its bytes are not what they were when they were written.
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
