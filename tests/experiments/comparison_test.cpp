// Claims as comparisons of figures, and the statistics behind tables.

#include "nsvq/experiments/spec/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/error_of.h"

namespace nsvq {
namespace {

using Figures = std::map<std::string, std::vector<double>>;

/// Rows whose names begin with "extra" are none that `*` stands for.
ComparisonResult compare(const std::string& text, const Figures& psnr) {
  RowNames names;
  for (const auto& [name, values] : psnr) {
    names.all.push_back(name);
    if (!name.starts_with("extra")) names.with_star.push_back(name);
  }
  return compare_figures(parse_comparison(text, "x.yaml"), names,
                         [&](const std::string& run, const std::string& column) {
                           if (column != "psnr") return SeedFigures{{}, "not measured"};
                           return SeedFigures{psnr.at(run), "failed"};
                         });
}

TEST(FigureComparison, OfTwoRunsANumberAndAFactor) {
  const Figures figures = {{"a", {20}}, {"b", {22}}};
  EXPECT_EQ(compare("a:psnr < b:psnr", figures).verdict, ClaimVerdict::holds);
  EXPECT_EQ(compare("a:psnr > b:psnr", figures).verdict, ClaimVerdict::fails);
  EXPECT_EQ(compare("a:psnr >= 20", figures).verdict, ClaimVerdict::holds);
  EXPECT_EQ(compare("b:psnr <= 1.1 * a:psnr", figures).verdict, ClaimVerdict::holds);
  EXPECT_EQ(compare("b:psnr < 1.1 * a:psnr", figures).verdict, ClaimVerdict::fails);
  EXPECT_EQ(compare("a:psnr < b:psnr", figures).why, "20 < 22");
}

TEST(FigureComparison, WithEveryOtherRow) {
  EXPECT_EQ(compare("b:psnr > *:psnr", {{"a", {20}}, {"b", {22}}, {"c", {21}}}).verdict,
            ClaimVerdict::holds);
  const auto result = compare("b:psnr > *:psnr", {{"a", {20}}, {"b", {22}}, {"c", {23}}});
  EXPECT_EQ(result.verdict, ClaimVerdict::fails);
  EXPECT_NE(result.why.find("(c)"), std::string::npos) << result.why;
  EXPECT_EQ(compare("b:psnr > *:psnr", {{"a", {21}}, {"b", {22}}, {"c", {20}}}).why, "22 > 21 (a)")
      << "the closest";
  EXPECT_EQ(compare("b:psnr > *:psnr", {{"a", {23}}, {"b", {22}}, {"c", {24}}}).why,
            "not 22 > 24 (c)")
      << "the farthest";
  EXPECT_EQ(compare("b:psnr > *:psnr", {{"b", {22}}}).verdict, ClaimVerdict::untested);
}

TEST(FigureComparison, AStarLeavesOutExtraRows) {
  const Figures figures = {{"a", {20}}, {"b", {22}}, {"extra", {30}}};
  EXPECT_EQ(compare("b:psnr > *:psnr", figures).verdict, ClaimVerdict::holds);
  EXPECT_EQ(compare("b:psnr >= max(*:psnr)", figures).verdict, ClaimVerdict::holds);
  EXPECT_EQ(compare("b:psnr > extra:psnr", figures).verdict, ClaimVerdict::fails);
}

TEST(FigureComparison, OfValuesOfASetting) {
  const Figures figures = {{"run@0.1", {1}}, {"run@10", {4}}, {"other@10", {9}}};
  EXPECT_EQ(compare("min(run@*:psnr) < 2", figures).verdict, ClaimVerdict::holds);
  EXPECT_EQ(compare("max(run@*:psnr) <= 4", figures).verdict, ClaimVerdict::holds);
  EXPECT_EQ(compare("mean(run@*:psnr) > 2.4", figures).verdict, ClaimVerdict::holds);
  EXPECT_EQ(compare("run@10:psnr > run@0.1:psnr", figures).verdict, ClaimVerdict::holds);
}

TEST(FigureComparison, WithoutAFigureIsNotTested) {
  EXPECT_EQ(compare("a:psnr > b:psnr", {{"a", {20}}, {"b", {}}}).verdict, ClaimVerdict::untested);
  EXPECT_EQ(compare("a:fid < 3", {{"a", {20}}}).verdict, ClaimVerdict::untested);
  EXPECT_EQ(compare("gone:psnr < 3", {{"a", {20}}}).verdict, ClaimVerdict::untested);
  EXPECT_EQ(compare("a:psnr < 3", {{"a", {NAN}}}).verdict, ClaimVerdict::untested);
}

TEST(FigureComparison, SaysWhenSeedsDifferByMore) {
  const auto near = compare("a:psnr < b:psnr", {{"a", {20, 22}}, {"b", {21, 22}}});
  EXPECT_EQ(near.verdict, ClaimVerdict::holds);
  EXPECT_NE(near.why.find("within the spread of seeds"), std::string::npos);
  const auto far = compare("a:psnr < b:psnr", {{"a", {20, 20.1}}, {"b", {30, 30.1}}});
  EXPECT_EQ(far.why.find("within"), std::string::npos);
}

TEST(FigureComparison, NoneIsAnErrorInOneLine) {
  for (const std::string text : {"", "a:psnr", "a:psnr = b:psnr", "a:psnr <", "a < b",
                                 "x * a:psnr < 3", "a:psnr < b:psnr < c:psnr", ":psnr < 1"}) {
    const auto error = error_of([&] { parse_comparison(text, "x.yaml: claims.c.holds"); });
    EXPECT_EQ(error.rfind("x.yaml: claims.c.holds: ", 0), 0u) << text << ": " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST(SeedStatistics, MeanDeviationMedian) {
  EXPECT_DOUBLE_EQ(mean_of({1, 2, 6}), 3);
  EXPECT_DOUBLE_EQ(deviation_of({1, 3}), std::sqrt(2.0));
  EXPECT_EQ(deviation_of({5}), 0);
  EXPECT_DOUBLE_EQ(median_of({9, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median_of({1, 2, 3, 10}), 2.5);
  EXPECT_TRUE(std::isnan(mean_of({})));
}

TEST(SeedStatistics, RankCorrelation) {
  EXPECT_DOUBLE_EQ(*rank_correlation({1, 2, 3}, {10, 200, 3000}), 1);
  EXPECT_DOUBLE_EQ(*rank_correlation({1, 2, 3}, {3, 2, 1}), -1);
  // By hand: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
  EXPECT_NEAR(*rank_correlation({1, 2, 2, 3}, {1, 2, 3, 4}), 4.5 / std::sqrt(4.5 * 5), 1e-12);
  EXPECT_FALSE(rank_correlation({1, 2}, {1, 2}));
  EXPECT_FALSE(rank_correlation({1, 1, 1}, {1, 2, 3}));
}

}  // namespace
}  // namespace nsvq
