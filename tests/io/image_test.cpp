#include "nsvq/io/images/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"

namespace nsvq {
namespace {

const std::string kImages = NSVQ_TESTS_DIR "/golden/images/";

uint64_t fnv1a(const std::vector<uint8_t>& bytes) {
  uint64_t value = 0xcbf29ce484222325ULL;
  for (const uint8_t byte : bytes) value = (value ^ byte) * 0x100000001b3ULL;
  return value;
}

std::string hex(const uint8_t* rgb) {
  return fmt::format("{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]);
}

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

/// The message of the UserError that decoding throws; empty where it throws none.
std::string decoding_error(const std::vector<std::byte>& bytes) {
  try {
    decode_image(bytes, "photos/a.jpg");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

Image gradient(int width, int height) {
  Image image{width, height, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (const int value : {x * 3, y * 3, 128 + x - y})
        image.pixels.push_back(static_cast<uint8_t>(value));
  return image;
}

TEST(Image, DecodesAsPillow) {
  std::ifstream in(kImages + "expected.txt");
  int count = 0;
  for (std::string line; std::getline(in, line);) {
    if (line[0] == '#') continue;
    std::istringstream fields(line);
    std::string name, first, last;
    int width, height;
    uint64_t hash;
    fields >> name >> width >> height >> std::hex >> hash >> first >> last;
    ASSERT_TRUE(fields) << line;
    const Image image = read_image(kImages + name);
    ++count;
    EXPECT_EQ(image.width, width) << name;
    EXPECT_EQ(image.height, height) << name;
    ASSERT_EQ(image.pixels.size(), size_t{3} * width * height) << name;
    EXPECT_EQ(hex(image.pixels.data()), first) << name;
    EXPECT_EQ(hex(image.pixels.data() + image.pixels.size() - 3), last) << name;
    EXPECT_EQ(fnv1a(image.pixels), hash) << name;
  }
  EXPECT_EQ(count, 70);
}

TEST(Image, PngRoundTripIsExact) {
  const TemporaryFolder folder;
  for (const auto& [width, height] : {std::pair{1, 1}, {31, 33}, {33, 31}, {1, 100}, {257, 2}}) {
    const Image image = gradient(width, height);
    write_image(folder / "a.png", image);
    const Image back = read_image(folder / "a.png");
    EXPECT_EQ(back.width, width);
    EXPECT_EQ(back.height, height);
    EXPECT_EQ(back.pixels, image.pixels);
    EXPECT_EQ(decode_image(encode_png(image), "x").pixels, image.pixels);
  }
}

TEST(Image, JpegRoundTripIsClose) {
  const TemporaryFolder folder;
  const Image image = gradient(33, 31);
  for (const std::string name : {"a.jpg", "a.JPEG"}) {
    write_image(folder / name, image);
    const Image back = read_image(folder / name);
    ASSERT_EQ(back.pixels.size(), image.pixels.size());
    int worst = 0;
    for (size_t i = 0; i < image.pixels.size(); ++i)
      worst = std::max(worst, std::abs(back.pixels[i] - image.pixels[i]));
    EXPECT_LE(worst, 12);
  }
}

TEST(Image, WriteRejects) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_image(folder / "a.gif", gradient(2, 2)), UserError);
  EXPECT_THROW(write_image(folder / "a", gradient(2, 2)), UserError);
  EXPECT_THROW(write_image(folder / "a.png", Image{}), UserError);
  EXPECT_THROW(write_image(folder / "a.jpg", Image{2, 2, {1, 2, 3}}), UserError);
  EXPECT_THROW(write_image(folder / "a.jpg", gradient(70000, 1)), UserError);
  EXPECT_THROW(encode_png(Image{-1, 2, {}}), UserError);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(read_image(folder / "missing.png"), UserError);
}

TEST(Image, MessagesNameFileAndCause) {
  auto jpeg = read_file(kImages + "rgb-420.jpg");
  jpeg.resize(jpeg.size() - 30);
  EXPECT_EQ(decoding_error(jpeg),
            "photos/a.jpg: truncated JPEG (premature end of data); replace or remove the file");
  auto png = read_file(kImages + "rgb-8.png");
  png.resize(png.size() / 2);
  EXPECT_EQ(decoding_error(png),
            "photos/a.jpg: truncated PNG (premature end of data); replace or remove the file");
  EXPECT_EQ(decoding_error({}), "photos/a.jpg: is empty; replace or remove the file");
  EXPECT_EQ(decoding_error(to_bytes("GIF89a")),
            "photos/a.jpg: neither JPEG, PNG nor WebP (begins with 47 49 46 38); convert or remove "
            "the file");
  EXPECT_EQ(
      decoding_error(to_bytes("G")),
      "photos/a.jpg: neither JPEG, PNG nor WebP (begins with 47); convert or remove the file");
  EXPECT_NE(decoding_error(to_bytes("\xff\xd8\xffgarbage")), "");
  EXPECT_NE(decoding_error(to_bytes("\x89PNG\r\n\x1a\ngarbage garbage")), "");
}

/// The JPEG with other sides in its frame header.
std::vector<std::byte> with_size(std::vector<std::byte> jpeg, int width, int height) {
  for (size_t i = 2; i + 9 < jpeg.size();) {
    const int marker = std::to_integer<int>(jpeg[i + 1]);
    const size_t length =
        std::to_integer<size_t>(jpeg[i + 2]) * 256 + std::to_integer<size_t>(jpeg[i + 3]);
    if (marker >= 0xc0 && marker <= 0xc2) {
      for (const auto& [at, side] : {std::pair{i + 5, height}, {i + 7, width}}) {
        jpeg[at] = std::byte(side >> 8);
        jpeg[at + 1] = std::byte(side & 255);
      }
      return jpeg;
    }
    i += 2 + length;
  }
  ADD_FAILURE() << "no frame header";
  return jpeg;
}

TEST(Image, ImpossibleJpegSizes) {
  for (const std::string name : {"rgb-420.jpg", "progressive.jpg", "cmyk.jpg"}) {
    const auto jpeg = read_file(kImages + name);
    EXPECT_EQ(decoding_error(with_size(jpeg, 37, 29)), "");
    EXPECT_NE(decoding_error(with_size(jpeg, 65500, 65500)).find("more than the limit"),
              std::string::npos);
    EXPECT_NE(decoding_error(with_size(jpeg, 11000, 11000)).find("cannot hold"), std::string::npos);
    EXPECT_NE(decoding_error(with_size(jpeg, 400, 400)).find("truncated"), std::string::npos)
        << name;
    EXPECT_NE(decoding_error(with_size(jpeg, 0, 29)), "");
    EXPECT_NE(decoding_error(with_size(jpeg, 37, 0)), "");
  }
}

/// A PNG header with a valid checksum, and nothing after it.
std::string png_header(const char* ihdr_and_checksum) {
  return std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16) + std::string(ihdr_and_checksum, 17);
}

TEST(Image, ImpossiblePngSizes) {
  // Checksums from Python: zlib.crc32(b"IHDR" + struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)).
  const std::string idat("\0\0\0\0IDAT\x35\xaf\x06\x1e\0\0\0\0IEND\xae\x42\x60\x82", 24);
  const auto decode = [&](const char* header) {
    return decoding_error(to_bytes(png_header(header) + idat));
  };
  EXPECT_NE(decode("\0\1\0\0\0\1\0\0\x08\2\0\0\0\xe3\xe6\xa7\xb4").find("more than the limit"),
            std::string::npos);
  EXPECT_NE(decode("\0\0\x20\0\0\0\x40\0\x08\2\0\0\0\x76\x7e\x11\xeb").find("cannot hold"),
            std::string::npos);
  EXPECT_NE(decode("\0\0\0\0\0\0\0\1\x08\2\0\0\0\x7f\xb5\x38\xe0"), "");
}

}  // namespace
}  // namespace nsvq
