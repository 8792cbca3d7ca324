#include <gtest/gtest.h>

#include "nsvq/recipe/dist.h"
#include "tests/error_of.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

TEST(DistSettings, AreRefusedWhereTheyDoNotApply) {
  auto config = tiny_config();
  config.dist.entropy = "all";
  EXPECT_EQ(
      error_of([&] { check_dist(config.dist, config.quantizer, config.adversarial); }),
      "dist.entropy is all, but quantizer nsvq has no entropy of a batch; set dist.entropy=own");
  config = tiny_config_of("ibq");
  config.dist.entropy = "all";
  check_dist(config.dist, config.quantizer, config.adversarial);
  config.dist.batch_norm = "all";
  EXPECT_EQ(error_of([&] { check_dist(config.dist, config.quantizer, config.adversarial); }),
            "dist.batch_norm is all, but there is no discriminator (adversarial.weight is 0); "
            "leave it out");
  config.adversarial.weight = 0.1;
  check_dist(config.dist, config.quantizer, config.adversarial);
  config.adversarial.r1 = 10;
  EXPECT_EQ(error_of([&] { check_dist(config.dist, config.quantizer, config.adversarial); }),
            "adversarial.r1 is 10, but dist.batch_norm is all, whose batch norms have no second "
            "derivative; set one of them to its default");
}

}  // namespace
}  // namespace nsvq
