#include "nsvq/io/images/codecs.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/io/files/byte_order.h"

namespace nsvq {

namespace {

// libpng reports errors by longjmp. It lands only in the small functions below that call setjmp:
// their frames hold plain values, so no destructor is skipped.
struct PngTrap {
  jmp_buf jump;
  char message[128] = "";
};

[[noreturn]] void fail_png(png_structp png, png_const_charp message) {
  auto* trap = static_cast<PngTrap*>(png_get_error_ptr(png));
  std::snprintf(trap->message, sizeof(trap->message), "%s", message);
  std::longjmp(trap->jump, 1);
}

void ignore_png_warning(png_structp, png_const_charp) {}

struct PngDecoder {
  explicit PngDecoder(std::span<const std::byte> bytes) : rest(bytes) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &trap, fail_png, ignore_png_warning);
    info = png ? png_create_info_struct(png) : nullptr;
    if (!info) {
      png_destroy_read_struct(&png, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  PngTrap trap;
  std::span<const std::byte> rest;
  bool truncated = false;
  png_structp png = nullptr;
  png_infop info = nullptr;
};

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (count > decoder->rest.size()) {
    decoder->truncated = true;
    png_error(png, "premature end of data");
  }
  std::memcpy(to, decoder->rest.data(), count);
  decoder->rest = decoder->rest.subspan(count);
}

/// Whether all chunks up to the last one, IEND, lie within the bytes. libpng allocates the memory
/// that a chunk claims before it reads its bytes.
bool chunks_are_there(std::span<const std::byte> bytes) {
  constexpr size_t kSignature = 8, kAround = 12;  // length and name before the data, checksum after
  bytes = bytes.subspan(kSignature);
  while (bytes.size() >= kAround) {
    const size_t length = big_endian(bytes.first(4));
    if (length > bytes.size() - kAround) return false;
    if (std::memcmp(bytes.data() + 4, "IEND", 4) == 0) return true;
    bytes = bytes.subspan(kAround + length);
  }
  return false;
}

/// Skips all ancillary chunks but eXIf, which has the orientation. Texts, colour profiles and the
/// like do not affect the decoded pixels, and a small file may contain texts that expand to
/// gigabytes.
void pass_over_ancillary_chunks(png_structp png) {
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT,
                              reinterpret_cast<png_const_bytep>("eXIf"), 1);
}

bool read_png_header(PngDecoder& decoder) {
  if (setjmp(decoder.trap.jump)) return false;
  png_set_read_fn(decoder.png, &decoder, read_bytes);
  // The caller checks the size against its own limits.
  png_set_user_limits(decoder.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  pass_over_ancillary_chunks(decoder.png);
  png_read_info(decoder.png, decoder.info);
  return true;
}

/// Converts all colour types and depths to 8-bit RGB. 16-bit samples keep their high byte, as in
/// Pillow except for 16-bit grey, which Pillow clips at 255, making most such images white.
bool set_transforms(PngDecoder& decoder) {
  if (setjmp(decoder.trap.jump)) return false;
  png_set_strip_16(decoder.png);
  png_set_palette_to_rgb(decoder.png);
  png_set_expand_gray_1_2_4_to_8(decoder.png);
  png_set_gray_to_rgb(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

bool read_png_rows(PngDecoder& decoder, png_bytepp rows) {
  if (setjmp(decoder.trap.jump)) return false;
  png_read_image(decoder.png, rows);
  png_read_end(decoder.png, decoder.info);
  return true;
}

[[noreturn]] void report_png(const PngDecoder& decoder, const std::string& name) {
  if (decoder.truncated)
    throw UserError("{}: truncated PNG (premature end of data); replace or remove the file", name);
  throw UserError("{}: cannot decode PNG ({}); replace or remove the file", name,
                  decoder.trap.message);
}

void check_png_size(const PngDecoder& decoder, size_t bytes, const ImageLimits& limits,
                    const std::string& name) {
  const uint64_t width = png_get_image_width(decoder.png, decoder.info);
  const uint64_t height = png_get_image_height(decoder.png, decoder.info);
  check_picture_size(width, height, limits, "PNG", name);
  // deflate expands at most 1032 times, so a far larger size is a broken header.
  const uint64_t bits = png_get_bit_depth(decoder.png, decoder.info) *
                        uint64_t{png_get_channels(decoder.png, decoder.info)};
  if (width * height * bits / 8 / 1032 > bytes)
    throw UserError(
        "{}: truncated PNG ({} bytes cannot hold {} x {} pixels); replace or remove the file", name,
        bytes, width, height);
}

int png_orientation(PngDecoder& decoder) {
  png_uint_32 size = 0;
  png_bytep data = nullptr;
  if (!png_get_eXIf_1(decoder.png, decoder.info, &size, &data)) return 1;
  return exif_orientation({reinterpret_cast<const std::byte*>(data), size});
}

}  // namespace

Image decode_png(std::span<const std::byte> bytes, const std::string& name,
                 const ImageLimits& limits) {
  PngDecoder decoder(bytes);
  decoder.truncated = !chunks_are_there(bytes);
  if (decoder.truncated) report_png(decoder, name);
  if (!read_png_header(decoder)) report_png(decoder, name);
  check_png_size(decoder, bytes.size(), limits, name);
  if (!set_transforms(decoder)) report_png(decoder, name);
  Image image{static_cast<int>(png_get_image_width(decoder.png, decoder.info)),
              static_cast<int>(png_get_image_height(decoder.png, decoder.info)),
              {}};
  const size_t row_bytes = size_t{3} * image.width;
  if (png_get_rowbytes(decoder.png, decoder.info) != row_bytes)
    throw RunError("{}: libpng did not convert the image to RGB", name);
  image.pixels.resize(row_bytes * image.height);
  std::vector<png_bytep> rows(image.height);
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = image.pixels.data() + y * row_bytes;
  if (!read_png_rows(decoder, rows.data())) report_png(decoder, name);
  return turn_upright(std::move(image), png_orientation(decoder));  // eXIf may follow the pixels
}

namespace {

struct PngEncoder {
  PngEncoder() {
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &trap, fail_png, ignore_png_warning);
    info = png ? png_create_info_struct(png) : nullptr;
    if (!info) {
      png_destroy_write_struct(&png, nullptr);
      throw std::bad_alloc();
    }
  }
  ~PngEncoder() { png_destroy_write_struct(&png, &info); }
  PngEncoder(const PngEncoder&) = delete;
  PngEncoder& operator=(const PngEncoder&) = delete;

  PngTrap trap;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::vector<std::byte> out;
};

// Neither an exception nor a longjmp over a live object may cross libpng.
void write_bytes(png_structp png, png_bytep from, size_t count) {
  auto& out = static_cast<PngEncoder*>(png_get_io_ptr(png))->out;
  bool full = false;
  try {
    const auto* first = reinterpret_cast<const std::byte*>(from);
    out.insert(out.end(), first, first + count);
  } catch (const std::bad_alloc&) {
    full = true;
  }
  if (full) png_error(png, "out of memory");
}

bool write_pixels(PngEncoder& encoder, const Image& image) {
  if (setjmp(encoder.trap.jump)) return false;
  png_set_write_fn(encoder.png, &encoder, write_bytes, nullptr);
  png_set_user_limits(encoder.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_IHDR(encoder.png, encoder.info, static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(encoder.png, encoder.info);
  for (int y = 0; y < image.height; ++y)
    png_write_row(encoder.png, image.pixels.data() + static_cast<size_t>(y) * image.width * 3);
  png_write_end(encoder.png, nullptr);
  return true;
}

}  // namespace

std::vector<std::byte> encode_png(const Image& image) {
  check_image(image, "encode_png");
  PngEncoder encoder;
  if (!write_pixels(encoder, image))
    throw RunError("cannot encode {} x {} pixels as PNG ({})", image.width, image.height,
                   encoder.trap.message);
  return std::move(encoder.out);
}

}  // namespace nsvq
