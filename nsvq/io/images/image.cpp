#include "nsvq/io/images/image.h"

#include <algorithm>
#include <cstring>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/images/codecs.h"

namespace nsvq {

namespace {

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

std::string first_bytes(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes.first(std::min<size_t>(bytes.size(), 4)))
    text += fmt::format(" {:02x}", std::to_integer<unsigned>(byte));
  return text;
}

/// "AVIF" or "HEIC", formats that phones and browsers write and this program does not read: ISO
/// media files, whose first box names the format. Null for anything else.
const char* unread_format(std::span<const std::byte> bytes) {
  if (bytes.size() < 12 || !begins_with(bytes.subspan(4), "ftyp")) return nullptr;
  const auto brand = bytes.subspan(8);
  if (begins_with(brand, "avif") || begins_with(brand, "avis")) return "AVIF";
  for (const char* heic : {"heic", "heix", "hevc", "hevx", "heim", "heis", "mif1", "msf1"})
    if (begins_with(brand, heic)) return "HEIC";
  return nullptr;
}

}  // namespace

void check_picture_size(uint64_t width, uint64_t height, const ImageLimits& limits,
                        std::string_view kind, std::string_view name) {
  if (width == 0 || height == 0)
    throw UserError("{}: {} of zero size; replace or remove the file", name, kind);
  if (width > limits.side || height > limits.side)
    throw UserError("{}: {} of {} x {} pixels, more than the limit of {} a side; make it smaller",
                    name, kind, width, height, limits.side);
  if (width * height > limits.pixels)
    throw UserError("{}: {} of {} x {} pixels, more than the limit of {}; make it smaller", name,
                    kind, width, height, limits.pixels);
}

void check_image_bytes(uint64_t bytes, const ImageLimits& limits, std::string_view name) {
  if (bytes > limits.file_bytes)
    throw UserError("{}: an image of {} bytes, more than the limit of {}; replace or remove it",
                    name, bytes, limits.file_bytes);
}

void check_image(const Image& image, std::string_view name) {
  if (image.width <= 0 || image.height <= 0)
    throw UserError("{}: the image is empty ({} x {} pixels)", name, image.width, image.height);
  if (image.pixels.size() != size_t{3} * image.width * image.height)
    throw UserError("{}: {} bytes of pixels do not make {} x {} RGB pixels", name,
                    image.pixels.size(), image.width, image.height);
}

Image decode_image(std::span<const std::byte> bytes, const std::string& name,
                   const ImageLimits& limits) {
  if (bytes.empty()) throw UserError("{}: is empty; replace or remove the file", name);
  check_image_bytes(bytes.size(), limits, name);
  if (begins_with(bytes, "\xff\xd8\xff")) return decode_jpeg(bytes, name, limits);
  if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) return decode_png(bytes, name, limits);
  if (is_webp(bytes)) return decode_webp(bytes, name, limits);
  if (const char* format = unread_format(bytes))
    throw UserError("{}: {}", name, convert_advice(format, "it"));
  throw UserError("{}: neither JPEG, PNG nor WebP (begins with{}); convert or remove the file",
                  name, first_bytes(bytes));
}

void write_image(const std::filesystem::path& path, const Image& image) {
  check_image(image, path.string());
  const std::string ending = lower_case(path.extension().string());
  if (ending == ".png")
    write_file(path, encode_png(image));
  else if (ending == ".jpg" || ending == ".jpeg")
    write_file(path, encode_jpeg(image, 95));
  else
    throw UserError("{}: cannot write images of this format; end the name in .png or .jpg",
                    path.string());
}

Image read_image(const std::filesystem::path& path, const ImageLimits& limits) {
  const InputFile file(path);
  check_image_bytes(file.size(), limits, path.string());
  std::vector<std::byte> bytes(file.size());
  file.read(0, bytes);
  return decode_image(bytes, path.string(), limits);
}

std::string convert_advice(std::string_view format, std::string_view which) {
  return fmt::format("{} images are not read; convert {} to JPEG or PNG (heif-convert does)",
                     format, which);
}

}  // namespace nsvq
