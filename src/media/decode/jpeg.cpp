// JPEG by libjpeg-turbo. libjpeg leaves a function by longjmp, which skips destructors. So functions that call libjpeg
// or that libjpeg calls have no local variables that own memory; JpegJob has all of these. jpeglib.h takes its types
// from headers that it does not include.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>
#include <cstring>

#include "media/decode/orientation.h"
#include "media/decode/picture_kinds.h"

namespace sluice {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kMostMarkerBytes = 0xffff;

struct JpegJob {
  explicit JpegJob(const PictureFile& picture_file) : file(picture_file) {}
  JpegJob(const JpegJob&) = delete;
  JpegJob& operator=(const JpegJob&) = delete;
  ~JpegJob() { jpeg_destroy_decompress(&jpeg); }

  const PictureFile& file;
  char found[JMSG_LENGTH_MAX] = {};
  std::jmp_buf back;
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  Picture picture;
  std::vector<uint8_t> row;  // of four inks
};

JpegJob& job_of(j_common_ptr jpeg) { return *static_cast<JpegJob*>(jpeg->client_data); }

[[noreturn]] void leave(j_common_ptr jpeg, const char* found) {
  JpegJob& job = job_of(jpeg);
  if (found != job.found) std::strncpy(job.found, found, sizeof job.found - 1);
  std::longjmp(job.back, 1);
}

void on_error(j_common_ptr jpeg) {
  (*jpeg->err->format_message)(jpeg, job_of(jpeg).found);
  leave(jpeg, job_of(jpeg).found);
}

// If a file ends early, libjpeg adds an end and warns; here that is an error. Other damage only costs some blocks, as
// in every viewer.
void on_message(j_common_ptr jpeg, int level) {
  if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF) leave(jpeg, "ends early");
}

void on_progress(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > kMaxPictureScans) leave(jpeg, "too many scans");
}

bool read_header(JpegJob& job) {
  job.jpeg.err = jpeg_std_error(&job.errors);
  job.errors.error_exit = on_error;
  job.errors.emit_message = on_message;
  job.jpeg.client_data = &job;
  if (setjmp(job.back) != 0) return false;
  jpeg_create_decompress(&job.jpeg);
  job.progress.progress_monitor = on_progress;
  job.jpeg.progress = &job.progress;
  jpeg_mem_src(&job.jpeg, job.file.data(), job.file.bytes.size());
  jpeg_save_markers(&job.jpeg, kExifMarker, kMostMarkerBytes);
  jpeg_read_header(&job.jpeg, TRUE);
  return true;
}

uint8_t times(uint32_t a, uint32_t b) {  // a * b / 255, rounded
  const uint32_t product = a * b + 128;
  return static_cast<uint8_t>((product + (product >> 8)) >> 8);
}

// Converts cyan, magenta, yellow and black. Each is stored as 255 minus its amount, as Adobe does and Pillow expects.
void rgb_of_inks(const std::vector<uint8_t>& row, uint8_t* out) {
  for (size_t i = 0; i < row.size(); i += 4)
    for (size_t ink = 0; ink < 3; ++ink) {
      const int light = row[i + 3] - times(255u - row[i + ink], row[i + 3]);
      *out++ = static_cast<uint8_t>(light < 0 ? 0 : light);
    }
}

bool read_rows(JpegJob& job) {
  if (setjmp(job.back) != 0) return false;
  jpeg_start_decompress(&job.jpeg);
  while (job.jpeg.output_scanline < job.jpeg.output_height) {
    uint8_t* out = job.picture.pixels.data() + size_t{job.jpeg.output_scanline} * job.picture.width * 3;
    JSAMPROW to = job.row.empty() ? out : job.row.data();
    jpeg_read_scanlines(&job.jpeg, &to, 1);
    if (!job.row.empty()) rgb_of_inks(job.row, out);
  }
  return true;
}

uint32_t orientation_of(const JpegJob& job) {
  constexpr std::string_view prefix("Exif\0\0", 6);
  for (auto* marker = job.jpeg.marker_list; marker != nullptr; marker = marker->next) {
    const std::string_view text(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (text.starts_with(prefix)) return read_orientation(std::as_bytes(std::span(text)));
  }
  return 1;
}

}  // namespace

Result<Picture> decode_jpeg(const PictureFile& file) {
  JpegJob job(file);
  if (!read_header(job)) return damaged(file, "JPEG", job.found);
  TRY_ASSIGN(job.picture, empty_picture(file, job.jpeg.image_width, job.jpeg.image_height));
  const int components = job.jpeg.num_components;
  if (components != 1 && components != 3 && components != 4)
    return error(ErrorKind::unsupported, file.name, ": JPEG of ", components, " components: want 1, 3 or 4");
  job.jpeg.out_color_space = components == 4 ? JCS_CMYK : JCS_RGB;
  if (components == 4) job.row.resize(size_t{job.picture.width} * 4);
  if (!read_rows(job)) return damaged(file, "JPEG", job.found);
  const uint32_t orientation = orientation_of(job);
  return upright(std::move(job.picture), orientation);
}

}  // namespace sluice
