#include "nsvq/io/image.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "nsvq/core/error.h"
#include "nsvq/io/file.h"
#include "nsvq/io/jpeg.h"
#include "nsvq/io/png.h"

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

}  // namespace

void check_image(const Image& image, std::string_view name) {
  if (image.width <= 0 || image.height <= 0)
    throw UserError("{}: the image is empty ({} x {} pixels)", name, image.width, image.height);
  if (image.pixels.size() != size_t{3} * image.width * image.height)
    throw UserError("{}: {} bytes of pixels do not make {} x {} RGB pixels", name,
                    image.pixels.size(), image.width, image.height);
}

Image decode_image(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.empty()) throw UserError("{}: is empty; replace or remove the file", name);
  if (begins_with(bytes, "\xff\xd8\xff")) return decode_jpeg(bytes, name);
  if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) return decode_png(bytes, name);
  throw UserError("{}: neither JPEG nor PNG (begins with{}); convert or remove the file", name,
                  first_bytes(bytes));
}

void write_image(const std::filesystem::path& path, const Image& image) {
  check_image(image, path.string());
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (ending == ".png")
    write_file(path, encode_png(image));
  else if (ending == ".jpg" || ending == ".jpeg")
    write_file(path, encode_jpeg(image, 95));
  else
    throw UserError("{}: cannot write images of this kind; end the name in .png or .jpg",
                    path.string());
}

Image read_image(const std::filesystem::path& path) {
  return decode_image(read_file(path), path.string());
}

}  // namespace nsvq
