#include "media/decode/sound_builder.h"

#include <algorithm>
#include <cmath>

#include "media/decode/sound_kinds.h"

namespace sluice {
namespace {

// One sample a frame.
void average(std::vector<float>& samples, size_t channels) {
  const size_t count = samples.size() / channels;
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (size_t channel = 0; channel < channels; ++channel) sum += samples[i * channels + channel];
    samples[i] = static_cast<float>(sum / static_cast<double>(channels));
  }
  samples.resize(count);
}

}  // namespace

Result<SoundBuilder> SoundBuilder::create(const std::string& name, int64_t channels, int64_t rate,
                                          const SoundLimits& limits) {
  if (channels < 1 || channels > kMaxSoundChannels)
    return error(ErrorKind::unsupported, name, ": ", channels, " channels: want 1 to ", kMaxSoundChannels);
  if (rate < kMinSoundRate || rate > kMaxSoundRate)
    return error(ErrorKind::unsupported, name, ": ", rate, " samples a second: want ", kMinSoundRate, " to ",
                 kMaxSoundRate);
  const auto from_rate = static_cast<uint32_t>(rate);
  TRY(Resampler resampler, Resampler::create(name, from_rate, kSoundRate));
  return SoundBuilder(name, static_cast<size_t>(channels), from_rate, limits, std::move(resampler));
}

// The sound may be moved to twice its size while it grows.
Status SoundBuilder::take_room(size_t samples) const {
  if (!room_) return {};
  const uint64_t most = sound_.samples.size() + (samples / channels_ + 1) * uint64_t{kSoundRate} / rate_;
  return room_((samples + 3 * most) * sizeof(float));
}

Status SoundBuilder::add(std::vector<float> samples) {
  CHECK(samples.size() % channels_ == 0);
  frames_ += samples.size() / channels_;
  if (frames_ > uint64_t{seconds_} * rate_)
    return error(ErrorKind::unsupported, name_, ": longer than ", seconds_, " seconds: want at most that");
  TRY_STATUS(take_room(samples.size()));
  if (!std::ranges::all_of(samples, [](float sample) { return std::isfinite(sample); }))
    return damaged_sound(name_, "a sample that is no finite number");
  average(samples, channels_);
  return resampler_.add(samples, sound_.samples);
}

Result<Sound> SoundBuilder::finish() {
  if (frames_ == 0) return damaged_sound(name_, "no samples");
  TRY_STATUS(resampler_.finish(sound_.samples));
  if (sound_.samples.empty())
    return error(ErrorKind::unsupported, name_, ": ", frames_, frames_ == 1 ? " sample" : " samples", " at ", rate_,
                 " a second: want enough for one at ", kSoundRate, " a second");
  return std::move(sound_);
}

}  // namespace sluice
