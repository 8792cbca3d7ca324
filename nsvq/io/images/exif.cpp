#include "nsvq/io/images/codecs.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace nsvq {

namespace {

/// Reads numbers of a TIFF block in its byte order; 0 outside of it.
class TiffReader {
 public:
  explicit TiffReader(std::span<const std::byte> bytes) : bytes_(bytes) {
    little_ = at(0) == 'I' && at(1) == 'I';
    valid_ = (little_ || (at(0) == 'M' && at(1) == 'M')) && number(2, 2) == 42;
  }

  bool valid() const { return valid_; }

  uint32_t number(size_t offset, int size) const {
    uint32_t value = 0;
    for (int i = 0; i < size; ++i)
      value = value << 8 | at(offset + static_cast<size_t>(little_ ? size - 1 - i : i));
    return value;
  }

 private:
  uint32_t at(size_t i) const {
    return i < bytes_.size() ? std::to_integer<uint32_t>(bytes_[i]) : 0;
  }

  std::span<const std::byte> bytes_;
  bool little_ = false;
  bool valid_ = false;
};

constexpr uint32_t kOrientationTag = 0x0112;

/// The value of a 12-byte directory entry (tag, type, count, value) with one BYTE, SHORT or LONG.
uint32_t entry_value(const TiffReader& tiff, size_t entry) {
  if (tiff.number(entry + 4, 4) != 1) return 0;
  switch (tiff.number(entry + 2, 2)) {
    case 1:
      return tiff.number(entry + 8, 1);
    case 3:
      return tiff.number(entry + 8, 2);
    case 4:
      return tiff.number(entry + 8, 4);
    default:
      return 0;
  }
}

}  // namespace

int exif_orientation(std::span<const std::byte> exif) {
  if (exif.size() >= 6 && std::memcmp(exif.data(), "Exif\0\0", 6) == 0) exif = exif.subspan(6);
  const TiffReader tiff(exif);
  if (!tiff.valid()) return 1;
  const size_t directory = tiff.number(4, 4);
  const size_t entries = tiff.number(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (tiff.number(entry, 2) != kOrientationTag) continue;
    const uint32_t value = entry_value(tiff, entry);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image turn_upright(Image image, int orientation) {
  if (orientation < 2 || orientation > 8) return image;
  const bool swap = orientation >= 5;  // rows become columns
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;

  Image out{swap ? image.height : image.width, swap ? image.width : image.height, {}};
  out.pixels.resize(image.pixels.size());
  // Steps in `image` for one step right and one step down in `out`.
  const ptrdiff_t across = from_right ? -3 : 3;
  const ptrdiff_t down = (from_bottom ? -3 : 3) * static_cast<ptrdiff_t>(image.width);
  const ptrdiff_t step_x = swap ? down : across;
  const ptrdiff_t step_y = swap ? across : down;
  const uint8_t* first = image.pixels.data();
  if (from_right) first += 3 * static_cast<ptrdiff_t>(image.width - 1);
  if (from_bottom) first += 3 * static_cast<ptrdiff_t>(image.width) * (image.height - 1);

  // In tiles, so that a turn by 90 degrees uses each cache line it loads.
  constexpr int kTile = 32;
  for (int y0 = 0; y0 < out.height; y0 += kTile) {
    for (int x0 = 0; x0 < out.width; x0 += kTile) {
      for (int y = y0; y < std::min(y0 + kTile, out.height); ++y) {
        const uint8_t* from = first + y * step_y + x0 * step_x;
        uint8_t* to = out.pixels.data() + (static_cast<size_t>(y) * out.width + x0) * 3;
        for (int x = x0; x < std::min(x0 + kTile, out.width); ++x, from += step_x, to += 3) {
          to[0] = from[0];
          to[1] = from[1];
          to[2] = from[2];
        }
      }
    }
  }
  return out;
}

}  // namespace nsvq
