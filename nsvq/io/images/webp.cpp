#include "nsvq/io/images/codecs.h"

#include <webp/decode.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/io/files/byte_order.h"

namespace nsvq {

namespace {

constexpr size_t kRiffHeader = 12, kChunkHeader = 8;

bool four_letters_are(std::span<const std::byte> bytes, const char* letters) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), letters, 4) == 0;
}

/// The orientation in the EXIF chunk, which may follow the picture.
int webp_orientation(std::span<const std::byte> bytes) {
  bytes = bytes.subspan(kRiffHeader);
  while (bytes.size() >= kChunkHeader) {
    const size_t length = little_endian(bytes.subspan(4, 4));
    const auto data = bytes.subspan(kChunkHeader);
    if (four_letters_are(bytes, "EXIF"))
      return exif_orientation(data.first(std::min(length, data.size())));
    const size_t padded = length + length % 2;
    if (padded > data.size()) break;
    bytes = data.subspan(padded);
  }
  return 1;
}

[[noreturn]] void report_webp(VP8StatusCode status, const std::string& name) {
  if (status == VP8_STATUS_NOT_ENOUGH_DATA)
    throw UserError("{}: truncated WebP (premature end of data); replace or remove the file", name);
  if (status == VP8_STATUS_OUT_OF_MEMORY) throw RunError("{}: out of memory for the image", name);
  throw UserError("{}: cannot decode WebP; replace or remove the file", name);
}

}  // namespace

bool is_webp(std::span<const std::byte> bytes) {
  return bytes.size() >= kRiffHeader && four_letters_are(bytes, "RIFF") &&
         four_letters_are(bytes.subspan(8), "WEBP");
}

Image decode_webp(std::span<const std::byte> bytes, const std::string& name,
                  const ImageLimits& limits) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) throw RunError("libwebp is of another version");
  // libwebp would decode a truncated file as long as its picture is complete.
  if (little_endian(bytes.subspan(4, 4)) > bytes.size() - kChunkHeader)
    report_webp(VP8_STATUS_NOT_ENOUGH_DATA, name);
  auto status = WebPGetFeatures(data, bytes.size(), &config.input);
  if (status != VP8_STATUS_OK) report_webp(status, name);
  if (config.input.has_animation)
    throw UserError("{}: animated WebP; convert one of its pictures or remove the file", name);
  Image image{config.input.width, config.input.height, {}};
  check_picture_size(image.width, image.height, limits, "WebP", name);
  image.pixels.resize(size_t{3} * image.width * image.height);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {image.pixels.data(), 3 * image.width, image.pixels.size()};
  status = WebPDecode(data, bytes.size(), &config);
  if (status != VP8_STATUS_OK) report_webp(status, name);
  return turn_upright(std::move(image), webp_orientation(bytes));
}

}  // namespace nsvq
