#include "nsvq/io/images/image.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "tests/error_of.h"

// Files that claim more than they hold, or that would take minutes.

namespace nsvq {
namespace {

using namespace std::string_literals;

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(std::byte(std::stoul(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<std::byte> as_bytes(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

std::string decode_error(const std::vector<std::byte>& bytes, const ImageLimits& limits = {}) {
  return error_of([&] { decode_image(bytes, "x", limits); });
}

/// The most memory this process has had, in bytes.
int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

std::string big_endian_text(uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 255);
  return text;
}

std::string png_chunk(const std::string& kind, const std::string& data) {
  const auto named = kind + data;
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(named.data()), static_cast<uInt>(named.size()));
  return big_endian_text(static_cast<uint32_t>(data.size())) + named +
         big_endian_text(static_cast<uint32_t>(sum));
}

std::string deflated(const std::string& text) {
  std::string out(compressBound(text.size()), '\0');
  uLongf size = out.size();
  compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
           text.size());
  return out.substr(0, size);
}

/// An 8-bit grey PNG of black pixels, with chunks between its header and its pixels.
std::vector<std::byte> grey_png(uint32_t width, uint32_t height, const std::string& chunks = "",
                                bool with_pixels = true) {
  const auto rows = with_pixels ? std::string(size_t{height} * (width + 1), '\0') : ""s;
  return as_bytes(
      "\x89PNG\r\n\x1a\n" +
      png_chunk("IHDR", big_endian_text(width) + big_endian_text(height) + "\x08\0\0\0\0"s) +
      chunks + png_chunk("IDAT", deflated(rows)) + png_chunk("IEND", ""));
}

TEST(ImageLimits, APngChunkTakesNoMoreThanItsBytes) {
  const auto before = peak_memory();
  EXPECT_EQ(decode_error(from_hex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753"
                                  "de7fffffff744558744d4d")),
            "x: truncated PNG (premature end of data); replace or remove the file");
  for (const char* kind : {"zTXt", "iTXt", "sPLT", "pCAL", "sCAL", "iCCP", "eXIf", "PLTE"})
    EXPECT_NE(decode_error(grey_png(1, 1, big_endian_text(0x7fffffff) + kind + "MM")), "");
  EXPECT_LT(peak_memory() - before, int64_t{200} << 20);
}

TEST(ImageLimits, CompressedTextsOfAPngAreNotExpanded) {
  const auto text = png_chunk("zTXt", "a\0\0"s + deflated(std::string(7'000'000, ' ')));
  const auto before = peak_memory();
  EXPECT_EQ(decode_image(grey_png(2, 3, text), "x").height, 3);
  EXPECT_LT(peak_memory() - before, 5'000'000);
  // Not even looked at: the text is no deflated one.
  EXPECT_EQ(decode_image(grey_png(2, 3, png_chunk("zTXt", "a\0\0junk"s)), "x").width, 2);
}

TEST(ImageLimits, EachSideIsBounded) {
  EXPECT_NE(decode_error(grey_png(1 << 20, 1, "", false)).find("65500 a side"), std::string::npos);
  EXPECT_NE(decode_error(grey_png(1, 1 << 28, "", false)).find("65500 a side"), std::string::npos);
  EXPECT_EQ(decode_image(grey_png(65'500, 1), "x").width, 65'500);
}

TEST(ImageLimits, AreTheCallers) {
  const auto png = grey_png(20, 30);
  EXPECT_EQ(decode_image(png, "x", {.pixels = 600}).width, 20);
  EXPECT_EQ(decode_error(png, {.pixels = 599}),
            "x: PNG of 20 x 30 pixels, more than the limit of 599; make it smaller");
  EXPECT_NE(decode_error(png, {.side = 29}).find("29 a side"), std::string::npos);
  EXPECT_NE(decode_error(png, {.file_bytes = 20}).find("limit of 20"), std::string::npos);
  const std::string images = NSVQ_TESTS_DIR "/golden/images/";
  for (const char* name : {"rgb-420.jpg", "progressive.jpg", "rgb.webp", "lossless.webp"})
    EXPECT_NE(error_of([&] { read_image(images + name, {.pixels = 1000}); }).find("limit of 1000"),
              std::string::npos);
}

TEST(ImageLimits, ArithmeticCodedJpegIsRefused) {
  std::string hex = "ffd8ffdb004300";
  for (int i = 0; i < 64; ++i) hex += "01";
  hex += "ffc9000b084000400001011100ffda0008010100003f000000ffd9";
  EXPECT_EQ(decode_error(from_hex(hex)),
            "x: arithmetic-coded JPEG, which is not read; convert it (jpegtran does)");
}

/// A progressive grey JPEG of 8 x 8 pixels whose one scan is repeated.
std::vector<std::byte> jpeg_of_scans(int scans) {
  std::string hex = "ffd8ffdb004300";
  for (int i = 0; i < 64; ++i) hex += "01";
  hex += "ffc2000b080008000801011100";  // progressive, 8 x 8, grey
  hex +=
      "ffc4001400"
      "01000000000000000000000000000000"
      "00";  // one code: a difference of 0
  for (int i = 0; i < scans; ++i)
    hex +=
        "ffda0008010100000000"
        "7f";
  return from_hex(hex + "ffd9");
}

TEST(ImageLimits, ScansOfAJpegAreBoundedByItsPixels) {
  EXPECT_EQ(decode_image(jpeg_of_scans(400), "x").width, 8);
  EXPECT_EQ(decode_error(jpeg_of_scans(600)),
            "x: JPEG of more than 500 scans; replace or remove the file");
  EXPECT_EQ(decode_image(jpeg_of_scans(16), "x", {.pixels = 64}).width, 8);
  EXPECT_EQ(decode_error(jpeg_of_scans(40), {.pixels = 64}),
            "x: JPEG of more than 16 scans; replace or remove the file");
}

TEST(ImageLimits, OnlyRegularFilesAreRead) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe.jpg").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder / "zero.png");
  std::filesystem::create_symlink(folder / "pipe.jpg", folder / "link.jpg");
  for (const char* name : {"pipe.jpg", "zero.png", "link.jpg"}) {
    const auto error = error_of([&] { read_image(folder / name); });
    EXPECT_NE(error.find(name), std::string::npos) << error;
    EXPECT_NE(error.find("not a file"), std::string::npos) << error;
  }
}

TEST(ImageLimits, AHugeFileIsNotRead) {
  const TemporaryFolder folder;
  write_text(folder / "huge.jpg", "\xff\xd8\xff");
  std::filesystem::resize_file(folder / "huge.jpg", 60'000'000'000);  // without a byte on the disk
  const auto error = error_of([&] { read_image(folder / "huge.jpg"); });
  EXPECT_NE(error.find("huge.jpg: an image of 60000000000 bytes"), std::string::npos) << error;
}

TEST(ImageLimits, FormatsThatAreNotRead) {
  EXPECT_EQ(decode_error(as_bytes("\0\0\0\x18"
                                  "ftypheic\0\0\0\0"s)),
            "x: HEIC images are not read; convert it to JPEG or PNG (heif-convert does)");
  EXPECT_NE(decode_error(as_bytes("\0\0\0\x18"
                                  "ftypavif\0\0\0\0"s))
                .find("AVIF"),
            std::string::npos);
}

}  // namespace
}  // namespace nsvq
