#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/images/codecs.h"
#include "nsvq/io/images/image.h"

// Damaged files throw UserError. Random damage is a matter of tests/fuzz.

namespace nsvq {
namespace {

const std::string kGoldenFolder = NSVQ_TESTS_DIR "/golden/images/";

const std::vector<std::string> kVariants = {
    "rgb-420.jpg",    "progressive.jpg", "restart.jpg",    "ycck.jpg",    "exif-6-be.jpg",
    "rgb-8.png",      "palette-4.png",   "grey-1-key.png", "la-16.png",   "rgb-interlaced.png",
    "exif-after.png", "rgb.webp",        "rgba.webp",      "exif-6.webp", "lossless.webp"};

/// Whether bytes decode, to a whole image; if not, the error is one line with the image's name.
bool decodes(const std::vector<std::byte>& bytes) {
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

TEST(DamagedImages, NoPrefixDecodes) {
  for (const std::string& name : kVariants) {
    const auto whole = read_file(kGoldenFolder + name);
    EXPECT_TRUE(decodes(whole)) << name;
    for (size_t size = 0; size < whole.size(); ++size)
      // Exactly this many bytes on the heap, so that a read beyond them is seen.
      EXPECT_FALSE(decodes({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)}))
          << name << " cut to " << size;
  }
}

TEST(DamagedImages, GarbageBehindAMagicNumberDoesNotDecode) {
  Random random(2);
  for (const char* magic : {"\xff\xd8\xff", "\x89PNG\r\n\x1a\n", "RIFF\x40\1\1\1WEBPVP8L", ""})
    for (int trial = 0; trial < 300; ++trial) {
      const std::string start = magic;
      std::vector<std::byte> bytes;
      for (const char c : start) bytes.push_back(std::byte(c));
      for (int64_t i = random.below(200); i > 0; --i) bytes.push_back(std::byte(random.below(256)));
      EXPECT_FALSE(decodes(bytes));
    }
}

TEST(DamagedImages, ExifDataThatEndsEarlyMeansUpright) {
  for (const auto& exif : {std::string("II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0", 20),
                           std::string("MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6", 20)}) {
    const auto bytes = std::as_bytes(std::span(exif));
    EXPECT_EQ(exif_orientation(bytes), 6);
    for (size_t size = 0; size + 1 < bytes.size(); ++size) {  // what is missing reads as 0
      EXPECT_EQ(exif_orientation(bytes.first(size)), 1) << size;
    }
  }
}

}  // namespace
}  // namespace nsvq
