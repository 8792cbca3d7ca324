#include <fmt/format.h>
#include <zlib.h>

#include <cstring>
#include <stdexcept>

#include "nsvq/core/error.h"
#include "nsvq/io/images/codecs.h"
#include "nsvq/io/images/image.h"
#include "tests/fuzz/byte_edits.h"
#include "tests/fuzz/target.h"

namespace nsvq {

namespace {

/// Fewer pixels than users may have, so that a fuzzer does not spend its time on large pictures.
constexpr ImageLimits kLimits{.pixels = 1 << 20, .side = 4096, .file_bytes = 1 << 20};

/// A whole image, or one line that begins with the image's name.
void decode(std::span<const std::byte> bytes) {
  try {
    const auto image = decode_image(bytes, "input", kLimits);
    if (image.pixels.empty() || image.pixels.size() != size_t{3} * image.width * image.height) {
      throw std::logic_error("half an image");
    }
  } catch (const UserError& error) {
    const std::string message = error.what();
    if (!message.starts_with("input: ") || message.find('\n') != std::string::npos) {
      throw std::logic_error("not a line about the input: " + message);
    }
    throw;
  }
}

void read_orientation(std::span<const std::byte> bytes) {
  const int orientation = exif_orientation(bytes);
  if (orientation < 1 || orientation > 8) throw std::logic_error("no orientation of EXIF");
}

/// A file of any format. Even a fuzzer's small files exceed these limits.
void read_any(std::span<const std::byte> bytes) {
  read_image(file_with(bytes, "input"), {.pixels = 1 << 14, .side = 256, .file_bytes = 2048});
}

Image picture(int width, int height) {
  Image image{width, height, {}};
  for (int i = 0; i < width * height * 3; ++i) {
    image.pixels.push_back(static_cast<uint8_t>(i * 37 % 251));
  }
  return image;
}

/// The first directory of a TIFF file with the orientation 6.
Bytes exif_seed() {
  return bytes_of(
      std::string("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 32));
}

std::map<std::string, Bytes> jpeg_seeds() {
  auto seeds = std::map<std::string, Bytes>{{"16x16.jpg", encode_jpeg(picture(16, 16), 90)},
                                            {"33x7.jpg", encode_jpeg(picture(33, 7), 20)}};
  // With EXIF data behind the first marker: APP1, its length, the data.
  auto upright = encode_jpeg(picture(8, 8), 90);
  auto segment = exif_seed();
  const auto length = static_cast<uint16_t>(segment.size() + 2);
  const Bytes head = {std::byte{0xff}, std::byte{0xe1}, std::byte(length >> 8),
                      std::byte(length & 255)};
  segment.insert(segment.begin(), head.begin(), head.end());
  upright.insert(upright.begin() + 2, segment.begin(), segment.end());
  seeds["exif.jpg"] = upright;
  return seeds;
}

std::map<std::string, Bytes> png_seeds() {
  return {{"5x3.png", encode_png(picture(5, 3))}, {"31x33.png", encode_png(picture(31, 33))}};
}

/// Chunks of a PNG: length, type, data, CRC-32 of type and data.
void mend_png(Bytes& bytes) {
  for (size_t at = 8; at + 12 <= bytes.size();) {
    const size_t length = big_endian32(bytes, at);
    if (length > bytes.size() - at - 12) break;
    const auto crc =
        crc32(0, reinterpret_cast<const Bytef*>(&bytes[at + 4]), static_cast<uInt>(length + 4));
    put_big_endian32(bytes, at + 8 + length, static_cast<uint32_t>(crc));
    at += length + 12;
  }
}

/// A lossless picture of one colour, 1x1.
std::map<std::string, Bytes> webp_seeds() {
  return {{"1x1.webp",
           bytes_of(std::string(
               "RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0",
               34))}};
}

/// The length of the file and of its chunks.
void mend_webp(Bytes& bytes) {
  if (bytes.size() < 20) return;
  put_little_endian32(bytes, 4, static_cast<uint32_t>(bytes.size() - 8));
  if (little_endian32(bytes, 16) > bytes.size() - 20) {
    put_little_endian32(bytes, 16, static_cast<uint32_t>(bytes.size() - 20));
  }
}

}  // namespace

std::vector<FuzzTarget> image_targets() {
  return {
      {"image", read_any,
       [] {
         return std::map<std::string, Bytes>{{"2x2.png", encode_png(picture(2, 2))}};
       }},
      {"jpeg", decode, jpeg_seeds},
      {"png", decode, png_seeds, mend_png},
      {"webp", decode, webp_seeds, mend_webp},
      {"exif", read_orientation,
       [] {
         std::map<std::string, Bytes> seeds = {
             {"orientation-6", exif_seed()},
             {"big-endian",
              bytes_of(std::string("MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6", 20))}};
         for (const auto type : {1, 4}) {  // BYTE and LONG
           (seeds[fmt::format("type-{}", type)] = exif_seed())[18] = std::byte(type);
         }
         return seeds;
       }},
  };
}

}  // namespace nsvq
