#include "nsvq/io/formats/tensorboard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <regex>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/crc32c.h"
#include "nsvq/io/files/file.h"

// What TensorBoard itself reads from such files is tested in tests/python/read_back.py.

namespace nsvq {
namespace {

std::span<const std::byte> event_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

template <typename Number>
Number take(const std::string& text, size_t at) {
  Number number{};
  std::memcpy(&number, text.data() + at, sizeof(number));
  return number;
}

/// The records of a TFRecord file, their checksums checked.
std::vector<std::string> records(const std::string& text) {
  std::vector<std::string> found;
  for (size_t at = 0; at < text.size();) {
    if (text.size() - at < 16) throw std::runtime_error("cut record");
    const auto length = take<uint64_t>(text, at);
    EXPECT_EQ(take<uint32_t>(text, at + 8), masked_crc32c(event_bytes(text.substr(at, 8))));
    found.push_back(text.substr(at + 12, length));
    EXPECT_EQ(take<uint32_t>(text, at + 12 + length), masked_crc32c(event_bytes(found.back())));
    at += 16 + length;
  }
  return found;
}

// Vectors of RFC 3720, B.4, and the usual check value.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(event_bytes("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(event_bytes(std::string(32, '\0'))), 0x8a9136aau);
  EXPECT_EQ(crc32c(event_bytes(std::string(32, '\xff'))), 0x62a8ab43u);
  const std::string text = "in pieces of any length, the same";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const auto front = crc32c(event_bytes(text.substr(0, cut)));
    EXPECT_EQ(crc32c(event_bytes(text.substr(cut)), front), crc32c(event_bytes(text))) << cut;
  }
  const uint32_t crc = 0xe3069283u;
  EXPECT_EQ(masked_crc32c(event_bytes("123456789")), ((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

TEST(EventWriter, FileNameAndFirstRecord) {
  TemporaryFolder folder;
  const EventWriter one(folder / "made/when/missing"), two(folder / "made/when/missing");
  EXPECT_NE(one.path(), two.path());
  const std::regex name("events\\.out\\.tfevents\\.[0-9]{10,}\\..+\\." +
                        std::to_string(::getpid()) + "\\.[0-9]+");
  EXPECT_TRUE(std::regex_match(one.path().filename().string(), name)) << one.path();
  const auto found = records(read_text(one.path()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].substr(9),
            "\x1a\x0d"
            "brain.Event:2");
}

TEST(EventWriter, GoesOnBehindAGivenLength) {
  TemporaryFolder folder;
  EventWriter writer(folder.path());
  writer.scalar("a", 1, 1);
  writer.flush();
  const auto length = writer.length();
  EXPECT_EQ(length, std::filesystem::file_size(writer.path()));
  writer.scalar("dropped", 2, 2);
  writer.flush();
  EventWriter next(writer.path(), length);
  EXPECT_EQ(next.length(), length);
  next.flush();
  EXPECT_EQ(next.length(), length);
  next.scalar("b", 2, 2);
  next.flush();
  EXPECT_EQ(next.length(), std::filesystem::file_size(writer.path()));
  const auto text = read_text(writer.path());
  EXPECT_EQ(records(text).size(), 3u);
  EXPECT_EQ(text.find("dropped"), std::string::npos);
}

TEST(EventWriter, ScalarBytes) {
  TemporaryFolder folder;
  EventWriter writer(folder.path());
  writer.scalar("loss", 300, 0.5);
  writer.flush();
  const auto found = records(read_text(writer.path()));
  ASSERT_EQ(found.size(), 2u);
  const std::string expected("\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f", 18);
  EXPECT_EQ(found[1].substr(9), expected);
  EXPECT_EQ(found[1][0], '\x09');
  EXPECT_GT(take<double>(found[1], 1), 1.6e9);
}

TEST(EventWriter, EverythingIsFramed) {
  TemporaryFolder folder;
  EventWriter writer(folder.path());
  writer.scalar("nan", -1, std::nan(""));
  writer.image("image", 1, {33, 31, std::vector<uint8_t>(33 * 31 * 3, 9)});
  writer.text("text", INT64_MAX, std::string(100000, 'x'));
  writer.text("", 0, "");
  writer.flush();
  EXPECT_EQ(records(read_text(writer.path())).size(), 5u);
}

TEST(EventWriter, ALinkIsNotFollowed) {
  TemporaryFolder folder;
  write_text(folder / "precious", "text");
  std::filesystem::create_symlink("precious", folder / "events.out.tfevents.1");
  EXPECT_THROW(EventWriter(folder / "events.out.tfevents.1", 0), RunError);
  EXPECT_EQ(read_text(folder / "precious"), "text");
}

TEST(EventWriter, ErrorsNameThePath) {
  TemporaryFolder folder;
  write_text(folder / "file", "text");
  EXPECT_THROW(EventWriter(folder / "file"), RunError);
  EXPECT_THROW(EventWriter(folder / "file/below"), RunError);
}

}  // namespace
}  // namespace nsvq
