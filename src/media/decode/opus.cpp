// Opus in Ogg by libopusfile.
#include <opusfile.h>

#include <memory>

#include "media/decode/sound_builder.h"
#include "media/decode/sound_kinds.h"

namespace sluice {
namespace {

constexpr size_t kPiece = 5760 * kMaxSoundChannels;  // samples: the longest packet, 120 ms
constexpr int64_t kRate = 48000;                     // of every decoder

struct Free {
  void operator()(OggOpusFile* file) const { op_free(file); }
};

}  // namespace

Result<Sound> decode_opus(const SoundBytes& file) {
  int failure = 0;
  const auto* const data = reinterpret_cast<const unsigned char*>(file.bytes.data());
  const std::unique_ptr<OggOpusFile, Free> opus(op_open_memory(data, file.bytes.size(), &failure));
  if (!opus) return damaged_sound(file.name, "headers of Opus are damaged or end early");
  const int channels = op_channel_count(opus.get(), 0);
  TRY(SoundBuilder builder, SoundBuilder::create(file.name, channels, kRate, file.limits));
  for (;;) {
    std::vector<float> piece(kPiece);
    int stream = 0;
    const int count = op_read_float(opus.get(), piece.data(), static_cast<int>(piece.size()), &stream);
    if (count == 0) return builder.finish();
    if (count < 0) return damaged_sound(file.name, "data of Opus are damaged");
    // Several streams may follow one another.
    if (op_channel_count(opus.get(), stream) != channels)
      return damaged_sound(file.name, "the number of channels changes");
    piece.resize(static_cast<size_t>(count) * static_cast<size_t>(channels));
    TRY_STATUS(builder.add(std::move(piece)));
  }
}

}  // namespace sluice
