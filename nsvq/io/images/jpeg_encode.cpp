#include <csetjmp>
#include <cstdlib>
#include <cstring>

#include "nsvq/core/error.h"
#include "nsvq/io/images/codecs.h"
#include "nsvq/io/images/jpeg_errors.h"

namespace nsvq {

namespace {

struct JpegEncoder {
  JpegEncoder() { std::memset(&info, 0, sizeof(info)); }
  ~JpegEncoder() {
    jpeg_destroy_compress(&info);
    std::free(data);
  }
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;

  jpeg_compress_struct info;
  JpegErrorTrap trap;
  unsigned char* data = nullptr;  // allocated by libjpeg
  unsigned long size = 0;
};

bool encode(JpegEncoder& encoder, const Image& image, int quality) {
  jpeg_compress_struct* info = &encoder.info;
  set_jpeg_trap(encoder.trap);
  info->err = &encoder.trap.manager;
  if (setjmp(encoder.trap.jump)) return false;
  jpeg_create_compress(info);
  jpeg_mem_dest(info, &encoder.data, &encoder.size);
  info->image_width = static_cast<JDIMENSION>(image.width);
  info->image_height = static_cast<JDIMENSION>(image.height);
  info->input_components = 3;
  info->in_color_space = JCS_RGB;
  jpeg_set_defaults(info);
  jpeg_set_quality(info, quality, TRUE);
  jpeg_start_compress(info, TRUE);
  while (info->next_scanline < info->image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.pixels.data()) +
                   static_cast<size_t>(info->next_scanline) * info->image_width * 3;
    jpeg_write_scanlines(info, &row, 1);
  }
  jpeg_finish_compress(info);
  return true;
}

}  // namespace

std::vector<std::byte> encode_jpeg(const Image& image, int quality) {
  JpegEncoder encoder;
  if (!encode(encoder, image, quality))
    throw UserError("cannot encode {} x {} pixels as JPEG ({})", image.width, image.height,
                    encoder.trap.message);
  const auto* first = reinterpret_cast<const std::byte*>(encoder.data);
  return {first, first + encoder.size};
}

}  // namespace nsvq
