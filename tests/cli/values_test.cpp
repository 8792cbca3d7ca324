#include "nsvq/cli/arguments/values.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>

#include "tests/environment.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// K/N that the option gives with these variables, and no others of launchers.
std::string part_of(const std::string& option, const Variables& variables = {}) {
  std::deque<Environment> set;
  for (const auto* name :
       {"RANK", "WORLD_SIZE", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT",
        "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP", "SLURM_NTASKS", "SLURM_PROCID"}) {
    set.emplace_back(name, std::nullopt);
  }
  for (const auto& [name, value] : variables) set.emplace_back(name, value);
  const auto part = choose_part(option);
  while (!set.empty()) set.pop_back();  // the last first
  return fmt::format("{}/{}", part.number, part.count);
}

std::string error_of_part(const std::string& option, const Variables& variables = {}) {
  return error_of([&] { part_of(option, variables); });
}

TEST(WorkPart, ByHand) {
  EXPECT_EQ(part_of(""), "1/1");
  EXPECT_EQ(part_of("3/64"), "3/64");
  EXPECT_EQ(part_of("4/4", {{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "4/4");
  expect_contains(error_of_part("0/4"), {"--part", "0/4", "1/4 to 4/4"});
  expect_contains(error_of_part("5/4"), {"--part", "5/4", "1/4 to 4/4"});
  expect_contains(error_of_part("1/2000000"), {"--part", "2000000"});
  for (const auto* wrong : {"x", "3", "/", "3/", "/4", "-1/4", "1/4/5", "1.5/4", " 1/4", "1/x"}) {
    expect_contains(error_of_part(wrong), {"--part", "K/N", "auto"});
  }
}

TEST(WorkPart, OfTorchrun) {
  EXPECT_EQ(part_of("", {{"RANK", "2"}, {"WORLD_SIZE", "8"}}), "3/8");
  EXPECT_EQ(part_of("auto", {{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "1/1");
  EXPECT_EQ(part_of("", {{"WORLD_SIZE", "8"}}), "1/1");
  expect_contains(error_of_part("", {{"RANK", "8"}, {"WORLD_SIZE", "8"}}), {"RANK is 8", "--part"});
  expect_contains(error_of_part("auto", {{"RANK", "x"}, {"WORLD_SIZE", "8"}}), {"RANK is 'x'"});
  expect_contains(error_of_part("auto", {{"RANK", "0"}, {"WORLD_SIZE", "0"}}),
                  {"WORLD_SIZE is '0'"});
}

TEST(WorkPart, OfSlurm) {
  const auto array = [](const std::string& id, const std::string& first, const std::string& step) {
    return Variables{{"SLURM_ARRAY_TASK_ID", id},
                     {"SLURM_ARRAY_TASK_COUNT", "4"},
                     {"SLURM_ARRAY_TASK_MIN", first},
                     {"SLURM_ARRAY_TASK_STEP", step}};
  };
  EXPECT_EQ(part_of("auto", array("0", "0", "1")), "1/4");
  EXPECT_EQ(part_of("auto", array("4", "1", "1")), "4/4");
  EXPECT_EQ(part_of("auto", array("16", "10", "2")), "4/4");
  EXPECT_EQ(part_of("auto", array("9", "1", "1")), "1/4") << "--array=1,2,3,9";
  EXPECT_EQ(part_of("", array("2", "0", "1")), "1/1") << "only where it is asked for";
  auto both = array("2", "0", "1");
  both.insert(both.end(), {{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "5"}});
  EXPECT_EQ(part_of("auto", both), "22/32");
  EXPECT_EQ(part_of("auto", {{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "5"}}), "6/8");
  expect_contains(error_of_part("auto"), {"--part auto", "torchrun", "SLURM"});
  expect_contains(error_of_part("auto", {{"SLURM_ARRAY_TASK_ID", "?"}}), {"SLURM_ARRAY_TASK_ID"});
}

}  // namespace
}  // namespace nsvq
