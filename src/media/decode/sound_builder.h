// Turns the samples of a decoder, piece by piece, into one channel at 16 kHz: averages the channels, converts the rate,
// and enforces the limit of seconds.
#pragma once

#include <string>
#include <vector>

#include "media/decode/resampler.h"
#include "media/decode/sound_file.h"

namespace sluice {

class SoundBuilder {
 public:
  // Refuses numbers of channels and rates beyond the limits. Errors begin with `name`.
  static Result<SoundBuilder> create(const std::string& name, int64_t channels, int64_t rate,
                                     const SoundLimits& limits);

  // Whole frames: one sample of each channel in turn.
  Status add(std::vector<float> samples);
  uint64_t frames() const { return frames_; }
  Result<Sound> finish();

 private:
  SoundBuilder(std::string name, size_t channels, uint32_t rate, const SoundLimits& limits, Resampler resampler)
      : name_(std::move(name)),
        channels_(channels),
        rate_(rate),
        seconds_(limits.seconds),
        room_(limits.room),
        resampler_(std::move(resampler)) {}
  Status take_room(size_t samples) const;

  std::string name_;
  size_t channels_;
  uint32_t rate_;
  uint32_t seconds_;  // at most
  std::function<Status(uint64_t bytes)> room_;
  Resampler resampler_;
  uint64_t frames_ = 0;
  Sound sound_{kSoundRate, {}};
};

}  // namespace sluice
