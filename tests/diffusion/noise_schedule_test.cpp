#include "nsvq/diffusion/noise_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/error_of.h"

namespace nsvq {
namespace {

/// What is left of the data's variance at the end.
double last_abar(const std::string& schedule, double start, double end) {
  return make_noise_schedule({schedule, 1000, start, end}).abar.back();
}

TEST(NoiseSchedule, EndsWhereThePaperAndCompVisEnd) {
  EXPECT_NEAR(last_abar("linear", 1e-4, 2e-2), 4.036e-5, 0.0005e-5);
  EXPECT_NEAR(last_abar("sqrt-linear", 1e-4, 2e-2), 7.334e-4, 0.0005e-4);
  EXPECT_NEAR(last_abar("sqrt-linear", 0.0015, 0.0195), 1.423e-4, 0.0005e-4);
}

TEST(NoiseSchedule, BetasByHand) {
  const auto linear = make_noise_schedule({"linear", 3, 0.1, 0.3});
  ASSERT_EQ(linear.times(), 3);
  EXPECT_DOUBLE_EQ(linear.abar[0], 0.9);
  EXPECT_DOUBLE_EQ(linear.abar[1], 0.9 * 0.8);
  EXPECT_DOUBLE_EQ(linear.abar[2], 0.9 * 0.8 * 0.7);
  const auto roots = make_noise_schedule({"sqrt-linear", 3, 0.04, 0.36});  // roots 0.2, 0.4, 0.6
  EXPECT_DOUBLE_EQ(roots.abar[2], 0.96 * 0.84 * 0.64);
  const auto cosine = make_noise_schedule({"cosine", 1000});
  const auto left = [](double t) {
    return std::pow(std::cos((t / 1000 + 0.008) / 1.008 * std::numbers::pi / 2), 2);
  };
  EXPECT_NEAR(cosine.abar[499], left(500) / left(0), 1e-12);
  EXPECT_NEAR(cosine.abar[999], cosine.abar[998] * 0.001, 1e-15) << "the last beta is limited";
}

TEST(NoiseSchedule, EveryKindFallsFromDataToNoise) {
  for (const auto& kind : noise_schedule_kinds()) {
    for (const int64_t times : {2, 10, 1000}) {
      SCOPED_TRACE(kind.name);
      const auto schedule = make_noise_schedule({kind.name, times});
      ASSERT_EQ(schedule.times(), times);
      for (int64_t t = 0; t < times; ++t) {
        EXPECT_LT(schedule.abar[t], t == 0 ? 1 : schedule.abar[t - 1]);
        EXPECT_GT(schedule.abar[t], 0);
      }
    }
    EXPECT_LT(make_noise_schedule({kind.name}).abar.back(), 1e-3) << kind.name;
  }
}

TEST(NoiseSchedule, SettingsThatMakeNoneAreNamed) {
  const auto error = [](const NoiseConfig& config) {
    return error_of([&] { make_noise_schedule(config); });
  };
  EXPECT_NE(error({"linaer"}).find("did you mean 'linear'"), std::string::npos);
  EXPECT_NE(error({"linear", 1}).find("diffusion.times"), std::string::npos);
  EXPECT_NE(error({"linear", 10, 0, 0.5}).find("no noise"), std::string::npos);
  EXPECT_NE(error({"linear", 10, 0.5, 1}).find("no signal is left"), std::string::npos);
  EXPECT_NE(error({"linear", 10, 0.5, NAN}).find("diffusion.beta_end"), std::string::npos);
}

}  // namespace
}  // namespace nsvq
