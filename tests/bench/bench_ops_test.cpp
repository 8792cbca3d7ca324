#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/bench/run.h"

namespace nsvq {
namespace {

std::vector<std::string> ops(const std::string& only, std::vector<std::string> more) {
  std::vector<std::string> all = {"ops", "--only", only, "--rounds", "1", "--device", "cpu"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(BenchOps, ARowForEachOperatorAndCase) {
  const auto result = run_bench(ops("group_norm_silu", {"--json", "-"}));
  ASSERT_EQ(result.code, 0) << result.error;
  expect_contains(result.error, {"| group_norm_silu + backward |"});  // the table
  const auto rows = nlohmann::json::parse(result.out).at("rows");
  EXPECT_GE(rows.size(), 4u);
  for (const auto& row : rows) {
    EXPECT_TRUE(row.at("operator").get<std::string>().starts_with("group_norm_silu")) << row;
    EXPECT_GT(row.at("nsvq").at("milliseconds").get<double>(), 0) << row;
    EXPECT_GT(row.at("ratio").get<double>(), 0) << row;
  }
}

TEST(BenchOps, NamesTheOperatorsThereAre) {
  const auto result = run_bench(ops("nosuch", {}));
  expect_failure(result, 2, {"nosuch", "nearest_codes", "code_usage", "adam_step"});
  EXPECT_EQ(result.out, "") << "nothing was measured";
}

TEST(BenchOps, MeasuresTheSizesAskedFor) {
  const auto with = [](const std::string& option, const std::string& value) {
    return run_bench(ops("code_sums", {option, value}));
  };
  expect_contains(with("--sizes", "d 128").out, {"| code_sums | N 8192, K 65536, d 128 |"});
  expect_failure(with("--sizes", "d 129"), 2, {"--sizes d 129"});
  expect_failure(with("--kernels", "3"), 2, {"--kernels", "GPU"});
}

TEST(BenchProgram, ErrorsAreOneLine) {
  expect_failure(run_bench({}), 2, {"subcommand", "nsvq_bench --help"});
  expect_failure(run_bench({"ops", "--sizs", "1"}), 2, {"--sizs"});
  const auto help = run_bench({"--help"});
  EXPECT_EQ(help.code, 0);
  expect_contains(help.out, {"ops", "step", "tokenize", "diffusion", "generation"});
}

}  // namespace
}  // namespace nsvq
