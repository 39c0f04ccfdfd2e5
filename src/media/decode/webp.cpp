// WebP by libwebp; the first frame of an animation by its demultiplexer.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>

#include "media/decode/orientation.h"
#include "media/decode/picture_kinds.h"

namespace sluice {
namespace {

template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* owned) const {
    destroy(owned);
  }
};
using Demuxer = std::unique_ptr<WebPDemuxer, Destroy<WebPDemuxDelete>>;
using AnimationDecoder = std::unique_ptr<WebPAnimDecoder, Destroy<WebPAnimDecoderDelete>>;

std::string_view found(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return "libwebp is out of memory";
    case VP8_STATUS_NOT_ENOUGH_DATA: return "ends early";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "a feature that libwebp does not read";
    default: return "bitstream error";
  }
}

// The first frame is decoded with transparency, which is dropped: there are no earlier frames behind it.
bool read_first_frame(const WebPData& data, Picture& picture) {
  WebPAnimDecoderOptions options;
  if (WebPAnimDecoderOptionsInit(&options) == 0) return false;
  options.color_mode = MODE_RGBA;
  const AnimationDecoder decoder(WebPAnimDecoderNew(&data, &options));
  WebPAnimInfo info;
  if (!decoder || WebPAnimDecoderGetInfo(decoder.get(), &info) == 0) return false;
  if (info.canvas_width != picture.width || info.canvas_height != picture.height) return false;
  uint8_t* frame = nullptr;  // the decoder's
  int ends_at = 0;
  if (WebPAnimDecoderGetNext(decoder.get(), &frame, &ends_at) == 0) return false;
  for (size_t i = 0; i < picture.pixels.size() / 3; ++i) std::copy_n(frame + i * 4, 3, picture.pixels.data() + i * 3);
  return true;
}

uint32_t orientation_of(const WebPData& data) {
  const Demuxer demuxer(WebPDemux(&data));
  WebPChunkIterator chunk{};
  if (!demuxer || WebPDemuxGetChunk(demuxer.get(), "EXIF", 1, &chunk) == 0) return 1;
  const uint32_t orientation =
      read_orientation({reinterpret_cast<const std::byte*>(chunk.chunk.bytes), chunk.chunk.size});
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

}  // namespace

Result<Picture> decode_webp(const PictureFile& file) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(file.data(), file.bytes.size(), &features);
  if (status != VP8_STATUS_OK) return damaged(file, "WebP", found(status));
  TRY(Picture picture,
      empty_picture(file, static_cast<uint64_t>(features.width), static_cast<uint64_t>(features.height)));
  const WebPData data{file.data(), file.bytes.size()};
  const bool whole = features.has_animation != 0
                         ? read_first_frame(data, picture)
                         : WebPDecodeRGBInto(data.bytes, data.size, picture.pixels.data(), picture.pixels.size(),
                                             static_cast<int>(picture.width * 3)) != nullptr;
  if (!whole) return damaged(file, "WebP", "damaged or ends early");
  const uint32_t orientation = orientation_of(data);
  return upright(std::move(picture), orientation);
}

}  // namespace sluice
