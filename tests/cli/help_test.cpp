// The pages of `nsvq help`.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "nsvq/cli/program/command.h"
#include "tests/cli/run.h"
#include "tests/environment.h"

namespace nsvq {
namespace {

using Words = std::vector<std::string>;

/// Calls `check` with each command and subcommand, and its words.
void for_each_command(const CLI::App& app, const Words& words,
                      const std::function<void(const CLI::App&, const Words&)>& check) {
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    auto below = words;
    below.push_back(sub->get_name());
    check(*sub, below);
    for_each_command(*sub, below, check);
  }
}

Result help(Words words, const Words& more = {}) {
  words.insert(words.begin(), "help");
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Columns of UTF-8 text.
int64_t columns_of(const std::string& line) {
  return std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; });
}

void expect_within(const std::string& text, int64_t columns) {
  for (const auto& line : lines_of(text)) EXPECT_LE(columns_of(line), columns) << line;
}

class Help : public testing::Test {
 protected:
  Help() { declare_commands(app_, commands()); }

  Environment columns_{"COLUMNS", std::nullopt};
  CLI::App app_;
};

TEST_F(Help, OfEachCommandFitsAScreen) {
  int pages = 0;
  for_each_command(app_, {}, [&](const CLI::App& command, const Words& words) {
    const auto page = help(words);
    EXPECT_EQ(page.code, 0) << page.error;
    EXPECT_LE(lines_of(page.out).size(), 24u) << page.out;
    expect_within(page.out, 80);
    EXPECT_TRUE(page.out.starts_with(command.get_description())) << page.out;
    expect_contains(page.out, {"--all"});
    ++pages;
  });
  EXPECT_GT(pages, 35);
  const auto all = help({});
  EXPECT_LE(lines_of(all.out).size(), 40u) << all.out;
  expect_within(all.out, 80);
}

TEST_F(Help, WithAllNamesEveryOptionAndTheExitCodes) {
  for_each_command(app_, {}, [&](const CLI::App& command, const Words& words) {
    const auto page = help(words, {"--all"});
    EXPECT_EQ(page.code, 0) << page.error;
    expect_within(page.out, 80);
    expect_contains(page.out, {"Exit codes: 0 done; 2 "});
    for (const auto* option : command.get_options()) {
      if (option->get_group().empty() || option->check_name("--help")) continue;
      for (const auto& name : option->get_lnames()) expect_contains(page.out, {"  --" + name});
      if (option->get_positional()) expect_contains(page.out, {"  " + option->get_name(true)});
    }
    // The short page names what must be given, and no option that the long one lacks.
    const auto page_of_a_screen = help(words).out;
    for (const auto* option : command.get_options()) {
      if (option->get_required()) expect_contains(page_of_a_screen, {option->get_name(true)});
    }
  });
  expect_contains(help({}, {"--all"}).out, {"--version", "Exit codes: "});
  EXPECT_EQ(run({"eval", "--help", "--all"}).out, help({"eval"}, {"--all"}).out);
  EXPECT_EQ(run({"eval", "-h"}).out, help({"eval"}).out);
}

TEST_F(Help, LeavesDetailsToAll) {
  const auto page = help({"eval"}).out, all = help({"eval"}, {"--all"}).out;
  for (const std::string detail :
       {"--conventions", "SOURCE#test", "keep_best", "More options:", "Exit codes"}) {
    EXPECT_EQ(page.find(detail), page.npos) << detail;
    EXPECT_NE(all.find(detail), all.npos) << detail;
  }
  expect_contains(page, {"--limit N", "--metrics NAMES", "utilisation", "nsvq help eval --all: "});
  EXPECT_EQ(help({"images", "compare"}).out.find("utilisation"), std::string::npos);
  expect_contains(help({"images"}).out, {"nsvq help images COMMAND"});
}

TEST_F(Help, IsWrappedAtTheTerminalsWidth) {
  for (const auto* width : {"44", "60", "100"}) {
    const Environment columns("COLUMNS", width);
    for (const Words& words : {Words{}, {"eval"}, {"reproduce"}, {"images"}}) {
      expect_within(help(words).out, std::stoi(width));
    }
  }
  const auto usual = help({"eval"}).out;
  for (const auto* unknown : {"0", "wide", "-7"}) {
    const Environment columns("COLUMNS", unknown);
    EXPECT_EQ(help({"eval"}).out, usual) << unknown;
  }
  const Environment wide("COLUMNS", "1000");
  expect_within(help({"eval"}, {"--all"}).out, 100);
}

TEST_F(Help, IsShownWhereNoCommandIsGiven) {
  const auto shown = run({});
  EXPECT_EQ(shown.out, help({}).out);
  EXPECT_EQ(shown.out, help({"help"}).out);
  EXPECT_EQ(shown.error, "");
  EXPECT_EQ(shown.code, 2) << "a script has left its command out";
  for (const auto& command : commands()) expect_contains(shown.out, {"  " + command.name + " "});
}

TEST_F(Help, NamesTheRightCommandForWordsOfOtherPrograms) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"sweep", "nsvq reproduce FILE.yaml does that (nsvq help reproduce)"},
      {"resume", "nsvq train RUN --resume does that (nsvq help train)"},
      {"sample", "nsvq generate sample does that (nsvq help generate sample)"},
      {"inpaint", "nsvq generate inpaint"},
      {"evaluate", "nsvq eval "}};
  for (const auto& [word, text] : rows) {
    expect_failure(run({word, "x"}), 2, {"unknown command '" + word + "'; ", text});
    EXPECT_LE(run({word}).error.size(), 101u);
    expect_failure(help({word}), 2, {text});
  }
}

/// Commands that only count images, or take them for training.
bool reads_all_images(const Words& words) {
  return words == Words{"images", "index"} || words == Words{"reproduce"};
}

TEST_F(Help, EveryCommandThatReadsImagesTakesTheFirstOfThem) {
  int limited = 0;
  for_each_command(app_, {}, [&](const CLI::App& command, const Words& words) {
    if (!command.get_option_no_throw("--data") || reads_all_images(words)) return;
    ASSERT_TRUE(command.get_option_no_throw("--limit")) << words.back();
    ++limited;
    auto wrong = words;
    wrong.insert(wrong.end(), {"--limit", "0"});
    expect_failure(run(wrong), 2, {"--limit: '0' is not a whole number from 1 to 1000000000"});
    wrong.back() = "-3";
    expect_failure(run(wrong), 2, {"--limit: '-3' is not a whole number from 1"});
  });
  EXPECT_GE(limited, 11);
}

}  // namespace
}  // namespace nsvq
