#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/images/exif.h"
#include "nsvq/io/images/image.h"

// Broken files must decode to a whole image or throw UserError. The sanitizer builds make these
// tests strict.

namespace nsvq {
namespace {

const std::string kFuzzedImages = NSVQ_TESTS_DIR "/golden/images/";

const std::vector<std::string> kKinds = {
    "rgb-420.jpg",    "progressive.jpg", "restart.jpg",    "ycck.jpg",    "exif-6-be.jpg",
    "rgb-8.png",      "palette-4.png",   "grey-1-key.png", "la-16.png",   "rgb-interlaced.png",
    "exif-after.png", "rgb.webp",        "rgba.webp",      "exif-6.webp", "lossless.webp"};

/// Whether it decodes.
bool survives(const std::vector<std::byte>& bytes) {
  try {
    const Image image = decode_image(bytes, "x");
    EXPECT_GT(image.width, 0);
    EXPECT_GT(image.height, 0);
    EXPECT_EQ(image.pixels.size(), size_t{3} * image.width * image.height);
    return true;
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.rfind("x: ", 0), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return false;
  }
}

TEST(ImageFuzz, NoPrefixDecodes) {
  for (const std::string& name : kKinds) {
    const auto whole = read_file(kFuzzedImages + name);
    EXPECT_TRUE(survives(whole)) << name;
    for (size_t size = 0; size < whole.size(); ++size)
      // Exactly this many bytes on the heap, so that a read beyond them is seen.
      EXPECT_FALSE(survives({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)}))
          << name << " cut to " << size;
  }
}

TEST(ImageFuzz, DamagedBytes) {
  Random random(1);
  for (const std::string& name : kKinds) {
    const auto whole = read_file(kFuzzedImages + name);
    for (int trial = 0; trial < 400; ++trial) {
      auto bytes = whole;
      const int64_t damages = 1 + random.below(4);
      for (int64_t i = 0; i < damages; ++i)
        bytes[random.below(static_cast<int64_t>(bytes.size()))] = std::byte(random.below(256));
      survives(bytes);
    }
  }
}

TEST(ImageFuzz, Garbage) {
  Random random(2);
  for (const char* magic : {"\xff\xd8\xff", "\x89PNG\r\n\x1a\n", "RIFF\x40\1\1\1WEBPVP8L", ""})
    for (int trial = 0; trial < 300; ++trial) {
      const std::string start = magic;
      std::vector<std::byte> bytes;
      for (const char c : start) bytes.push_back(std::byte(c));
      for (int64_t i = random.below(200); i > 0; --i) bytes.push_back(std::byte(random.below(256)));
      EXPECT_FALSE(survives(bytes));
    }
}

TEST(ImageFuzz, ExifOrientation) {
  Random random(3);
  for (int trial = 0; trial < 20000; ++trial) {
    std::vector<std::byte> exif;
    for (const char c : std::string(trial % 2 ? "II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0"
                                              : "MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6",
                                    20))
      exif.push_back(std::byte(c));
    EXPECT_EQ(exif_orientation(exif), 6);
    exif[random.below(20)] = std::byte(random.below(256));
    exif.resize(random.below(21));
    const int orientation = exif_orientation(exif);
    EXPECT_GE(orientation, 1);
    EXPECT_LE(orientation, 8);
  }
  EXPECT_EQ(exif_orientation({}), 1);
}

}  // namespace
}  // namespace nsvq
