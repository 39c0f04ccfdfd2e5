// MP3 by libmpg123. libsndfile could call libmpg123, too, but then libmpg123 prints messages about a damaged file.
#include <mpg123.h>

#include <memory>

#include "media/decode/sound_builder.h"
#include "media/decode/sound_kinds.h"

namespace sluice {
namespace {

constexpr size_t kPiece = 4096;  // samples of all channels

ssize_t on_read(void* user, void* out, size_t count) {
  return static_cast<ssize_t>(static_cast<SoundCursor*>(user)->read(out, count));
}

off_t on_seek(void* user, off_t offset, int whence) { return static_cast<SoundCursor*>(user)->seek(offset, whence); }

struct Delete {
  void operator()(mpg123_handle* decoder) const { mpg123_delete(decoder); }
};
using Decoder = std::unique_ptr<mpg123_handle, Delete>;

// Quiet, in 32-bit float, at the file's own rate, without the coder's padding, ending where the stream's kind changes.
bool open(mpg123_handle* decoder, SoundCursor& source) {
  constexpr long flags =
      MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_GAPLESS | MPG123_SKIP_ID3V2 | MPG123_NO_FRANKENSTEIN;
  return mpg123_param(decoder, MPG123_REMOVE_FLAGS, MPG123_AUTO_RESAMPLE, 0) == MPG123_OK &&
         mpg123_param(decoder, MPG123_ADD_FLAGS, flags, 0) == MPG123_OK &&
         mpg123_replace_reader_handle(decoder, on_read, on_seek, nullptr) == MPG123_OK &&
         mpg123_open_handle(decoder, &source) == MPG123_OK;
}

}  // namespace

Result<Sound> decode_mp3(const SoundBytes& file) {
  SoundCursor source(file);
  const Decoder decoder(mpg123_new(nullptr, nullptr));
  if (!decoder) return error(ErrorKind::out_of_memory, file.name, ": no memory for libmpg123");
  const auto failed = [&] { return damaged_sound(file.name, mpg123_strerror(decoder.get())); };
  long rate = 0;
  int channels = 0, encoding = 0;
  if (!open(decoder.get(), source)) return failed();
  if (mpg123_getformat(decoder.get(), &rate, &channels, &encoding) != MPG123_OK)
    return damaged_sound(file.name, "no frame of MP3");
  if (encoding != MPG123_ENC_FLOAT_32) return failed();
  TRY(SoundBuilder builder, SoundBuilder::create(file.name, channels, rate, file.limits));
  for (;;) {
    std::vector<float> piece(kPiece / static_cast<size_t>(channels) * static_cast<size_t>(channels));
    size_t bytes = 0;
    const int state = mpg123_read(decoder.get(), piece.data(), piece.size() * sizeof(float), &bytes);
    piece.resize(bytes / sizeof(float));
    TRY_STATUS(builder.add(std::move(piece)));
    if (state == MPG123_DONE) return builder.finish();
    if (state != MPG123_OK) return failed();
  }
}

}  // namespace sluice
