#include "nsvq/io/images/codecs.h"

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/io/images/jpeg_errors.h"

#include <jerror.h>  // needs libjpeg's main header before it

namespace nsvq {

namespace {

// Unlike libjpeg's own memory source, this one does not invent an end marker for truncated data.
boolean fill_input(j_decompress_ptr info) {
  info->err->msg_code = JERR_INPUT_EOF;
  fail_jpeg(reinterpret_cast<j_common_ptr>(info));
}

void skip_input(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer) fill_input(info);
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<size_t>(count);
}

struct JpegDecoder {
  JpegDecoder() { std::memset(&info, 0, sizeof(info)); }
  ~JpegDecoder() { jpeg_destroy_decompress(&info); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  jpeg_decompress_struct info;
  JpegErrorTrap trap;
  jpeg_source_mgr source;
  jpeg_progress_mgr progress;
  int most_scans = 1;
  bool too_many_scans = false;
};

/// libjpeg's progress callback, called while scans are read.
void limit_scans(j_common_ptr info) {
  auto* decoder = static_cast<JpegDecoder*>(info->client_data);
  if (decoder->info.input_scan_number <= decoder->most_scans) return;
  decoder->too_many_scans = true;
  fail_jpeg(info);
}

/// Each scan costs a pass over the image, and a small file can hold thousands. Progressive files
/// have about ten.
int scans_allowed(const jpeg_decompress_struct& info, const ImageLimits& limits) {
  constexpr uint64_t kMostScans = 500, kScansOfLargest = 16;
  const uint64_t pixels = uint64_t{info.image_width} * info.image_height;
  return static_cast<int>(
      std::clamp(kScansOfLargest * limits.pixels / std::max<uint64_t>(pixels, 1), kScansOfLargest,
                 kMostScans));
}

bool read_header(JpegDecoder& decoder, const uint8_t* data, size_t size) {
  jpeg_decompress_struct* info = &decoder.info;
  set_jpeg_trap(decoder.trap);
  info->err = &decoder.trap.manager;
  if (setjmp(decoder.trap.jump)) return false;
  jpeg_create_decompress(info);
  decoder.source = {data,
                    size,
                    [](j_decompress_ptr) {},  // init_source
                    fill_input,
                    skip_input,
                    jpeg_resync_to_restart,  // resync_to_restart
                    [](j_decompress_ptr) {}};
  info->src = &decoder.source;
  info->client_data = &decoder;
  std::memset(&decoder.progress, 0, sizeof(decoder.progress));
  decoder.progress.progress_monitor = limit_scans;
  info->progress = &decoder.progress;
  jpeg_save_markers(info, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(info, TRUE);
  return true;
}

/// CMYK to RGB with Pillow's arithmetic. All common programs write CMYK inverted, as Adobe does.
void cmyk_to_rgb(const uint8_t* cmyk, uint8_t* rgb, JDIMENSION width) {
  for (JDIMENSION x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    const int light = cmyk[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - cmyk[c]) * light + 128;
      rgb[c] = static_cast<uint8_t>(light - ((product + (product >> 8)) >> 8));
    }
  }
}

/// `cmyk_row` is a buffer for one row of four components, used for CMYK only.
bool read_pixels(JpegDecoder& decoder, uint8_t* pixels, uint8_t* cmyk_row) {
  jpeg_decompress_struct* info = &decoder.info;
  if (setjmp(decoder.trap.jump)) return false;
  const bool cmyk = info->num_components == 4;
  info->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(info);
  while (info->output_scanline < info->output_height) {
    uint8_t* out = pixels + static_cast<size_t>(info->output_scanline) * info->output_width * 3;
    JSAMPROW row = cmyk ? cmyk_row : out;
    jpeg_read_scanlines(info, &row, 1);
    if (cmyk) cmyk_to_rgb(cmyk_row, out, info->output_width);
  }
  jpeg_finish_decompress(info);
  return true;
}

[[noreturn]] void report(const JpegDecoder& decoder, const std::string& name) {
  if (decoder.too_many_scans)
    throw UserError("{}: JPEG of more than {} scans; replace or remove the file", name,
                    decoder.most_scans);
  switch (decoder.trap.manager.msg_code) {
    case JERR_INPUT_EOF:
    case JWRN_HIT_MARKER:
      throw UserError("{}: truncated JPEG (premature end of data); replace or remove the file",
                      name);
    case JERR_EMPTY_IMAGE:
      throw UserError("{}: JPEG of zero size; replace or remove the file", name);
    default:
      throw UserError("{}: cannot decode JPEG ({}); replace or remove the file", name,
                      decoder.trap.message);
  }
}

void check_header(const jpeg_decompress_struct& info, size_t bytes, const ImageLimits& limits,
                  const std::string& name) {
  if (info.arith_code)
    throw UserError("{}: arithmetic-coded JPEG, which is not read; convert it (jpegtran does)",
                    name);
  check_picture_size(info.image_width, info.image_height, limits, "JPEG", name);
  // Every block of at most 32 x 32 pixels needs a bit or more: a far larger size is a broken
  // header.
  if (uint64_t{info.image_width} * info.image_height / uint64_t{32 * 32} > uint64_t{bytes} * 8)
    throw UserError(
        "{}: truncated JPEG ({} bytes cannot hold {} x {} pixels); replace or remove the file",
        name, bytes, info.image_width, info.image_height);
  if (info.num_components == 2 || info.num_components > 4)
    throw UserError("{}: JPEG with {} components; only grey, RGB and CMYK are supported", name,
                    info.num_components);
}

int orientation(const jpeg_decompress_struct& info) {
  for (const auto* marker = info.marker_list; marker; marker = marker->next)
    if (marker->data_length >= 6 && std::memcmp(marker->data, "Exif\0\0", 6) == 0)
      return exif_orientation(
          {reinterpret_cast<const std::byte*>(marker->data), marker->data_length});
  return 1;
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> bytes, const std::string& name,
                  const ImageLimits& limits) {
  JpegDecoder decoder;
  if (!read_header(decoder, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()))
    report(decoder, name);
  const jpeg_decompress_struct& info = decoder.info;
  check_header(info, bytes.size(), limits, name);
  decoder.most_scans = scans_allowed(info, limits);
  Image image{static_cast<int>(info.image_width), static_cast<int>(info.image_height), {}};
  image.pixels.resize(size_t{3} * info.image_width * info.image_height);
  std::vector<uint8_t> cmyk_row(info.num_components == 4 ? size_t{4} * info.image_width : 0);
  const int turn = orientation(info);  // finishing the decoder frees the markers
  if (!read_pixels(decoder, image.pixels.data(), cmyk_row.data())) report(decoder, name);
  return turn_upright(std::move(image), turn);
}

}  // namespace nsvq
