// A device whose answers betray every broken rule. Instead of a transformer it keeps one 64-bit cell a position and
// group: a hash of the token, its class, where its run of rows was cut, and every cell that the row may see. A stale,
// foreign or missing page, a row of the wrong class, a prompt cut elsewhere than at a multiple of 64 - each changes all
// that follows. With `slots` it also keeps a recurrent state, one cell that every row sees and changes. `oracle` says,
// from a history alone, what must come out.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "engine/engine.h"
#include "engine/history.h"
#include "engine/plan/layout.h"
#include "engine/sampling.h"

namespace sluice::fake {

inline constexpr uint32_t kVocabulary = 50;
inline constexpr uint32_t kWindow = 96;  // of the second group; the first has none
inline constexpr int32_t kPoison = 49;   // a token whose cell is not finite, and all that see it
inline constexpr uint64_t kPageBytes = 64 * 8;

TextModel model(uint32_t context = 1024, bool slots = false);
// With a vision tower, and inputs for its rows.
TextModel media_model();
// A picture of so many rows, as that model's tower takes it; `name` tells pictures apart. Its digest is picture_digest.
MediaInput picture(uint8_t name, uint32_t rows);
MediaDigest picture_digest(uint8_t name);

// What the device is told to do, and what it saw.
struct Script {
  bool classes_bit_equal = false;
  bool slots = false;             // the model's third group
  bool repetitive = false;        // mostly one token follows another, so that texts repeat themselves
  uint32_t polls_until_done = 0;  // how often poll() has nothing first
  int64_t fail_step = -1;         // the start() of that number fails and all pages are lost
  int64_t fail_read = -1;         // the read_page() likewise, without loss
  std::string numerics = "fake/1";
  int64_t fail_tower = -1;  // the tower's step of that number fails

  struct Step {
    TokenClass token_class{};
    uint32_t rows = 0;
    uint32_t wanted = 0;
    std::vector<uint32_t> rows_of;  // by sequence
    bool diagnosing = false;
  };
  std::vector<Step> steps;
  int64_t starts = 0, reads = 0, copies = 0, tower_starts = 0;
};

std::unique_ptr<Device> make_device(Script& script);

// What must come out of a history, token by token. any_class: of a device whose classes are bit-equal.
class Oracle {
 public:
  explicit Oracle(bool any_class = false, bool slots = false, bool repetitive = false)
      : any_class_(any_class), slots_(slots), repetitive_(repetitive) {}
  // `ahead`: rows behind this one that it sees, those of a picture.
  void push(const HistoryToken& token, uint32_t ahead = 0);
  std::vector<float> logits() const;  // after the last token
  int32_t next(const SamplingSettings& settings, uint32_t choice) const;
  const History& history() const { return history_; }

 private:
  bool any_class_, slots_, repetitive_;
  uint64_t state_ = 1;
  History history_;
  std::vector<uint64_t> cells_;
  uint32_t cut_ = 0;
};

// Logits after the whole history.
std::vector<float> oracle(const History& history, bool any_class = false);

}  // namespace sluice::fake
