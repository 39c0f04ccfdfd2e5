// Vorbis in Ogg by libvorbisfile, read from its beginning to its end without seeking.
#define OV_EXCLUDE_STATIC_CALLBACKS
#include <vorbis/vorbisfile.h>

#include "media/decode/sound_builder.h"
#include "media/decode/sound_kinds.h"

namespace sluice {
namespace {

constexpr int kPiece = 4096;  // samples of one channel

size_t on_read(void* out, size_t size, size_t count, void* user) {
  return static_cast<SoundCursor*>(user)->read(out, size * count) / size;
}

struct VorbisFile {
  VorbisFile() = default;
  VorbisFile(const VorbisFile&) = delete;
  VorbisFile& operator=(const VorbisFile&) = delete;
  ~VorbisFile() { ov_clear(&file); }  // also where nothing was opened

  OggVorbis_File file{};
};

// `count` samples of each channel, in turn.
std::vector<float> interleaved(float** channels, size_t n_channels, size_t count) {
  std::vector<float> out;
  out.reserve(n_channels * count);
  for (size_t i = 0; i < count; ++i)
    for (size_t channel = 0; channel < n_channels; ++channel) out.push_back(channels[channel][i]);
  return out;
}

}  // namespace

Result<Sound> decode_vorbis(const SoundBytes& file) {
  SoundCursor source(file);
  VorbisFile vorbis;
  if (ov_open_callbacks(&source, &vorbis.file, nullptr, 0, {on_read, nullptr, nullptr, nullptr}) != 0)
    return damaged_sound(file.name, "headers of Vorbis are damaged or end early");
  const vorbis_info first = *ov_info(&vorbis.file, -1);
  TRY(SoundBuilder builder, SoundBuilder::create(file.name, first.channels, first.rate, file.limits));
  for (;;) {
    float** channels = nullptr;
    int stream = 0;
    const long count = ov_read_float(&vorbis.file, &channels, kPiece, &stream);
    if (count == 0) return builder.finish();
    if (count < 0) return damaged_sound(file.name, "data of Vorbis are damaged");
    // Several streams may follow one another.
    const vorbis_info* const info = ov_info(&vorbis.file, -1);
    if (info == nullptr || info->channels != first.channels || info->rate != first.rate)
      return damaged_sound(file.name, "channels or rate change");
    TRY_STATUS(builder.add(interleaved(channels, static_cast<size_t>(first.channels), static_cast<size_t>(count))));
  }
}

}  // namespace sluice
