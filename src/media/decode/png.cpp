// PNG by libpng. libpng leaves a function by longjmp, which skips destructors. So functions that call libpng or that
// libpng calls have no local variables that own memory; PngJob has all of these.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "media/decode/orientation.h"
#include "media/decode/picture_kinds.h"

namespace sluice {
namespace {

constexpr png_alloc_size_t kMostChunkBytes = 1 << 24;  // a profile or a text; such chunks are kept or inflated whole
constexpr png_uint_32 kMostChunks = 1000;              // of those that are kept

struct PngJob {
  explicit PngJob(const PictureFile& picture_file) : file(picture_file) {}
  PngJob(const PngJob&) = delete;
  PngJob& operator=(const PngJob&) = delete;
  ~PngJob() { png_destroy_read_struct(&png, &info, nullptr); }

  const PictureFile& file;
  size_t read = 0;
  char found[128] = {};
  png_structp png = nullptr;
  png_infop info = nullptr;
  uint32_t width = 0, height = 0;
  int passes = 1;
  Picture picture;
};

void on_error(png_structp png, png_const_charp text) {
  auto* job = static_cast<PngJob*>(png_get_error_ptr(png));
  std::strncpy(job->found, text, sizeof job->found - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep out, png_size_t size) {
  auto* job = static_cast<PngJob*>(png_get_io_ptr(png));
  if (size > job->file.bytes.size() - job->read) png_error(png, "ends early");
  std::memcpy(out, job->file.data() + job->read, size);
  job->read += size;
}

// False after an error.
bool read_header(PngJob& job) {
  if (setjmp(png_jmpbuf(job.png)) != 0) return false;
  png_set_read_fn(job.png, &job, on_read);
  png_set_chunk_malloc_max(job.png, kMostChunkBytes);
  png_set_chunk_cache_max(job.png, kMostChunks);
  // libpng's own limits are lifted, because Sluice checks the size itself, with a clearer error.
  png_set_user_limits(job.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_read_info(job.png, job.info);
  job.width = png_get_image_width(job.png, job.info);
  job.height = png_get_image_height(job.png, job.info);
  return true;
}

// Palettes and few bits become 8 bits, gray becomes RGB. Transparency goes last, because palettes bring it.
bool set_transforms(PngJob& job) {
  if (setjmp(png_jmpbuf(job.png)) != 0) return false;
  png_set_expand(job.png);
  png_set_strip_16(job.png);
  png_set_gray_to_rgb(job.png);
  png_set_strip_alpha(job.png);
  job.passes = png_set_interlace_handling(job.png);
  png_read_update_info(job.png, job.info);
  return true;
}

bool read_rows(PngJob& job) {
  if (setjmp(png_jmpbuf(job.png)) != 0) return false;
  const size_t row_bytes = size_t{job.width} * 3;
  for (int pass = 0; pass < job.passes; ++pass)
    for (uint32_t y = 0; y < job.height; ++y) png_read_row(job.png, job.picture.pixels.data() + y * row_bytes, nullptr);
  return true;
}

// What stands before the pixels.
uint32_t orientation_of(const PngJob& job) {
  png_uint_32 size = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(job.png, job.info, &size, &exif) == 0) return 1;
  return read_orientation({reinterpret_cast<const std::byte*>(exif), size});
}

}  // namespace

Result<Picture> decode_png(const PictureFile& file) {
  PngJob job(file);
  job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
  if (job.png != nullptr) job.info = png_create_info_struct(job.png);
  if (job.info == nullptr) return error(ErrorKind::out_of_memory, file.name, ": no memory for libpng");
  if (!read_header(job)) return damaged(file, "PNG", job.found);
  TRY_ASSIGN(job.picture, empty_picture(file, job.width, job.height));
  if (!set_transforms(job)) return damaged(file, "PNG", job.found);
  CHECK(png_get_rowbytes(job.png, job.info) == size_t{job.width} * 3);
  if (!read_rows(job)) return damaged(file, "PNG", job.found);
  const uint32_t orientation = orientation_of(job);
  return upright(std::move(job.picture), orientation);
}

}  // namespace sluice
