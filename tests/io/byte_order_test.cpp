#include "nsvq/io/files/byte_order.h"

#include <gtest/gtest.h>

#include <array>

namespace nsvq {
namespace {

TEST(ByteOrder, ReadsNumbersOfAnyLength) {
  const std::array bytes = {std::byte{0x01}, std::byte{0x02}, std::byte{0xff}, std::byte{0x80},
                            std::byte{0},    std::byte{0},    std::byte{0},    std::byte{0xfe}};
  const std::span all(bytes);
  EXPECT_EQ(big_endian(all.first(0)), 0u);
  EXPECT_EQ(little_endian(all.first(0)), 0u);
  EXPECT_EQ(big_endian(all.first(2)), 0x0102u);
  EXPECT_EQ(little_endian(all.first(2)), 0x0201u);
  EXPECT_EQ(big_endian(all.first(4)), 0x0102ff80u);
  EXPECT_EQ(little_endian(all.first(4)), 0x80ff0201u);
  EXPECT_EQ(big_endian(all), 0x0102ff80000000feu);
  EXPECT_EQ(little_endian(all), 0xfe00000080ff0201u);
}

}  // namespace
}  // namespace nsvq
