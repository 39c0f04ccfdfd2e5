// WAV, FLAC and AIFF by libsndfile. It also opens Ogg, but leaks memory where a header is damaged.
#include <sndfile.h>

#include <memory>

#include "media/decode/sound_builder.h"
#include "media/decode/sound_kinds.h"

namespace sluice {
namespace {

constexpr size_t kPiece = 4096;  // samples of all channels

SoundCursor& cursor(void* user) { return *static_cast<SoundCursor*>(user); }

sf_count_t on_size(void* user) { return cursor(user).size(); }
sf_count_t on_tell(void* user) { return cursor(user).at(); }
sf_count_t on_seek(sf_count_t offset, int whence, void* user) { return cursor(user).seek(offset, whence); }
sf_count_t on_write(const void*, sf_count_t, void*) { return 0; }
sf_count_t on_read(void* out, sf_count_t count, void* user) {
  return count <= 0 ? 0 : static_cast<sf_count_t>(cursor(user).read(out, static_cast<size_t>(count)));
}

struct Close {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

uint32_t number_at(std::string_view text, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(text[at + i]);
  return value;
}

// libsndfile accepts a WAV file that ends early as a shorter sound, so the length is checked here.
//   "RIFF" | u32 size | "WAVE" | chunks: 4 letters, u32 size, data padded to 2 bytes; the samples are the chunk "data"
Status check_wav_length(const SoundBytes& file) {
  constexpr uint32_t unknown = 0x7fff0000;  // and more: what programs write that do not know the length yet
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  if (!text.starts_with("RIFF")) return {};
  for (size_t at = 12; at + 8 <= text.size();) {
    const size_t size = number_at(text, at + 4);
    const size_t left = text.size() - at - 8;
    if (text.substr(at).starts_with("data") && size > left && size < unknown)
      return damaged_sound(file.name, cat("ends early: ", left, " of ", size, " bytes of samples"));
    at += 8 + size + size % 2;
  }
  return {};
}

}  // namespace

Result<Sound> decode_by_sndfile(const SoundBytes& bytes) {
  TRY_STATUS(check_wav_length(bytes));
  SoundCursor source(bytes);
  SF_VIRTUAL_IO callbacks{on_size, on_seek, on_read, on_write, on_tell};
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, Close> file(sf_open_virtual(&callbacks, SFM_READ, &info, &source));
  if (!file) return damaged_sound(bytes.name, sf_strerror(nullptr));
  TRY(SoundBuilder builder, SoundBuilder::create(bytes.name, info.channels, info.samplerate, bytes.limits));
  const size_t frames = kPiece / static_cast<size_t>(info.channels);
  for (;;) {
    std::vector<float> piece(frames * static_cast<size_t>(info.channels));
    const sf_count_t read = sf_readf_float(file.get(), piece.data(), static_cast<sf_count_t>(frames));
    if (read <= 0) break;
    piece.resize(static_cast<size_t>(read * info.channels));
    TRY_STATUS(builder.add(std::move(piece)));
  }
  if (sf_error(file.get()) != SF_ERR_NO_ERROR) return damaged_sound(bytes.name, sf_strerror(file.get()));
  if (info.frames != SF_COUNT_MAX && builder.frames() < static_cast<uint64_t>(info.frames))
    return damaged_sound(bytes.name, cat("ends early: ", builder.frames(), " of ", info.frames, " samples"));
  return builder.finish();
}

}  // namespace sluice
