#include "nsvq/data/sources/source.h"

#include <gtest/gtest.h>

#include "tests/data/fake_source.h"
#include "tests/data/piped_tars.h"

namespace nsvq {
namespace {

TEST(FirstReadable, IsTheFirstThatCanBeDecoded) {
  const FakeSource source(9, {1, 4});
  EXPECT_EQ(first_readable(source, {}), std::nullopt);
  EXPECT_EQ(first_readable(source, {1, 4}), std::nullopt);
  EXPECT_EQ(first_readable(source, {1, 4, 5, 7}), 5);
  const auto use = [](const Image& image) {
    if ((image.pixels[0] ^ 128) == 5) throw UserError("too small");
  };
  EXPECT_EQ(first_readable(source, {1, 4, 5, 7}, use), 7);
}

TEST(FirstReadable, ReadsAShardOfAPipeOnce) {
  const testing_files::PipedTars tars({3, 0, 5, 1, 2}, {1, 3, 6, 8});
  const auto source = tars.open();
  tars.shards_read();
  EXPECT_EQ(first_readable(*source, {1, 3, 6, 8}), std::nullopt);
  EXPECT_EQ(tars.shards_read(), (std::vector<std::string>{"0.tar", "2.tar", "3.tar"}));
  EXPECT_EQ(first_readable(*source, {1, 3, 5, 6, 8, 9}), 5);
  EXPECT_EQ(tars.shards_read(), (std::vector<std::string>{"0.tar", "2.tar"}));
}

}  // namespace
}  // namespace nsvq
