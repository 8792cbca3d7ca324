// Loading, overriding, saving, comparing and documenting work on the table of any struct.

#include "nsvq/settings/option_table.h"

#include <gtest/gtest.h>

#include <fstream>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/settings/option.h"

namespace nsvq {
namespace {

/// The settings of a member of some family.
struct KettleConfig {
  double volume = 1.5;
};

struct Kitchen : MemberSettings {
  std::string stove = "gas";
  int64_t burners = 4;
  std::vector<int64_t> timers = {3, 5};
  std::vector<std::string> dishes = {"soup"};
  bool open = false;
  std::string note;
  Sources sources = "market";
};

OptionTable kitchen_options(Kitchen& kitchen) {
  OptionTable table;
  table.rows = {
      {"open", &kitchen.open, "whether guests come", Range::yes_no()},
      {"stove.kind", &kitchen.stove, "what heats", Range::one_of({"gas", "electric"})},
      {"stove.burners", &kitchen.burners, "places for pots", Range::between(1, 6)},
      {"stove.kettle.volume", &kitchen.of<KettleConfig>().volume, "in litres", Range::above(0)},
      {"plan.timers", &kitchen.timers, "minutes", Range::list(0, 3, Range::at_least(1))},
      {"plan.dishes", &kitchen.dishes, "in order", Range::list(1, 2, Range::not_empty())},
      {"plan.note", &kitchen.note, "for the cook", Range::any_text("text"), Effect::not_on_result},
      {"plan.sources", &kitchen.sources, "where to buy", Range::not_empty(), Effect::not_on_result},
  };
  table.dependent_defaults = [&kitchen]() -> std::vector<std::string> {
    if (kitchen.stove == "electric") return {"stove.burners=2"};
    return {};
  };
  table.check = [&kitchen] {
    if (kitchen.open && kitchen.timers.empty()) throw UserError("open, but no timers");
  };
  table.help = "the cook knows all keys";
  return table;
}

Kitchen loaded(const std::string& path, const std::vector<std::string>& overrides = {}) {
  Kitchen kitchen;
  kitchen_options(kitchen).load(path, overrides);
  return kitchen;
}

std::string error_of_overrides(const std::vector<std::string>& overrides) {
  try {
    loaded("", overrides);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

class OptionTableTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  TemporaryFolder folder_;
};

TEST_F(OptionTableTest, LoadsARecipeWithItsBaseAndOverrides) {
  write("base.yaml", "open: true\nstove: {kind: electric, burners: 3}\n");
  const auto path = write("a.yaml", "base: base.yaml\nplan.dishes: [fish, cake]\n");
  const auto kitchen = loaded(path, {"stove.kettle.volume=2", "plan.note=a # b"});
  EXPECT_TRUE(kitchen.open);
  EXPECT_EQ(kitchen.burners, 3);
  EXPECT_EQ(kitchen.of<KettleConfig>().volume, 2);
  EXPECT_EQ(kitchen.dishes, (std::vector<std::string>{"fish", "cake"}));
  EXPECT_EQ(kitchen.note, "a # b");
  EXPECT_EQ(kitchen.timers, Kitchen().timers);
}

// 40 recipes, each of which names the next one twice.
TEST_F(OptionTableTest, BasesDoNotMultiplyWithoutEnd) {
  write("40.yaml", "open: true\n");
  for (int i = 0; i < 40; ++i) {
    write(fmt::format("{}.yaml", i), fmt::format("base: [{0}.yaml, {0}.yaml]\n", i + 1));
  }
  try {
    loaded((folder_ / "0.yaml").string());
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("more than 1000 recipes"), std::string::npos)
        << error.what();
  }
}

TEST_F(OptionTableTest, DependentDefaultsHoldForKeysThatNothingSets) {
  EXPECT_EQ(loaded("").burners, 4);
  EXPECT_EQ(loaded("", {"stove.kind=electric"}).burners, 2);
  EXPECT_EQ(loaded("", {"stove.burners=4", "stove.kind=electric"}).burners, 4);
  EXPECT_EQ(loaded(write("a.yaml", "stove: {burners: 5, kind: electric}\n")).burners, 5);
  Kitchen kitchen;
  kitchen_options(kitchen).parse("stove.kind: electric\n", "a model");
  EXPECT_EQ(kitchen.burners, 2);
}

TEST_F(OptionTableTest, ErrorsNamePlaceKeyAndNearestName) {
  EXPECT_EQ(error_of_overrides({"stove.burner=2"}),
            "command line: unknown key 'stove.burner'; did you mean 'stove.burners'?");
  EXPECT_EQ(error_of_overrides({"garden=2"}),
            "command line: unknown key 'garden'; the cook knows all keys");
  EXPECT_EQ(error_of_overrides({"stove.kind=electrik"}),
            "command line: stove.kind: expected name (gas|electric), got 'electrik'; did you mean "
            "'electric'?");
  EXPECT_EQ(error_of_overrides({"stove.burners=7"}),
            "command line: stove.burners: expected integer (1..6), got '7'");
  EXPECT_EQ(error_of_overrides({"open=true", "plan.timers=[]"}), "open, but no timers");
  Kitchen kitchen;
  try {
    kitchen_options(kitchen).parse("open: true\nplan.timers: []\n", "a model");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "a model: open, but no timers");
  }
}

TEST_F(OptionTableTest, AKeyGivenTwiceIsRefused) {
  EXPECT_EQ(error_of_overrides({"stove.burners=2", "open=true", "stove.burners=2"}),
            "command line: stove.burners is given twice; give it once");
  EXPECT_EQ(error_of_overrides({"stove.kind=electric", "stove={kind: gas}"}),
            "command line: stove.kind is given twice; give it once");
  const auto path = write("a.yaml", "stove.burners: 3\n");
  EXPECT_EQ(loaded(path, {"stove.burners=2"}).burners, 2) << "a recipe is overridden";
}

TEST_F(OptionTableTest, SourcesAreOneOrAList) {
  using Items = std::vector<std::string>;
  const auto items = [&](const std::vector<std::string>& overrides) {
    return loaded("", overrides).sources.items;
  };
  EXPECT_EQ(items({}), Items{"market"});
  EXPECT_EQ(items({"plan.sources=a-{00..03}.tar"}), Items{"a-{00..03}.tar"});
  EXPECT_EQ(items({"plan.sources=[a, b c]"}), (Items{"a", "b c"}));
  EXPECT_EQ(items({"plan.sources=[ab]*.tar"}), Items{"[ab]*.tar"}) << "a wildcard, not a list";
  // A shell makes these words of plan.sources=s-{0,1}.tar without quotes.
  EXPECT_EQ(items({"plan.sources=s-0.tar", "open=true", "plan.sources=s-1.tar"}),
            (Items{"s-0.tar", "s-1.tar"}));
  EXPECT_EQ(loaded(write("a.yaml", "plan.sources: [x, y]\n")).sources.items, (Items{"x", "y"}));
  EXPECT_EQ(loaded(write("b.yaml", "plan.sources: x\n"), {"plan.sources=y"}).sources.items,
            Items{"y"});
  EXPECT_EQ(error_of_overrides({"plan.sources="}),
            "command line: plan.sources: expected sources (not empty), got ''");
  EXPECT_EQ(error_of_overrides({"plan.sources=[]"}),
            "command line: plan.sources: expected sources (not empty), got '[]'");
  auto kitchen = loaded("", {"plan.sources=[a, 'b, c']"});
  const auto text = kitchen_options(kitchen).to_yaml();
  EXPECT_EQ(loaded(write("c.yaml", text)).sources.items, (Items{"a", "b, c"}));
  kitchen.sources = Items{"builtin:a?size=8&count=2", "b"};
  EXPECT_EQ(loaded(write("d.yaml", kitchen_options(kitchen).to_yaml())).sources.items,
            kitchen.sources.items);
}

TEST_F(OptionTableTest, SavedSettingsReadBack) {
  auto kitchen = loaded("", {"open=true", "plan.note=\"x: \\\"y\\\"\"", "stove.kettle.volume=0.7"});
  const auto text = kitchen_options(kitchen).to_yaml();
  EXPECT_EQ(
      text,
      "open: true\n\nstove:\n  kind: gas\n  burners: 4\n\nstove.kettle:\n  volume: 0.7\n"
      "\nplan:\n  timers: [3, 5]\n  dishes: [soup]\n  note: \"x: \\\"y\\\"\"\n  sources: market\n");
  auto again = loaded(write("a.yaml", text));
  EXPECT_EQ(kitchen_options(again).to_yaml(), text);
}

TEST_F(OptionTableTest, DifferencesAreThoseOfTheResult) {
  auto a = loaded("", {"plan.note=here", "stove.burners=3"}), b = loaded("");
  EXPECT_EQ(kitchen_options(a).differences(kitchen_options(b)),
            (std::vector<std::string>{"stove.burners (3 here, 4 there)"}));
}

TEST_F(OptionTableTest, TheReferenceListsEveryRow) {
  Kitchen kitchen;
  const auto table = kitchen_options(kitchen);
  const auto text = table.reference();
  for (const auto& row : table.rows) {
    EXPECT_NE(text.find("\n" + row.key + "  "), std::string::npos) << row.key;
    EXPECT_NE(text.find(row.help), std::string::npos) << row.key;
  }
}

TEST_F(OptionTableTest, FieldsOutOfRangeAreFound) {
  Kitchen kitchen;
  EXPECT_NO_THROW(require_in_range(kitchen_options(kitchen).rows));
  kitchen.dishes = {""};
  EXPECT_THROW(require_in_range(kitchen_options(kitchen).rows), UserError);
  kitchen.dishes = {"soup"};
  kitchen.burners = 0;
  EXPECT_THROW(require_in_range(kitchen_options(kitchen).rows), UserError);
}

TEST(MemberSettings, CopiesAreIndependent) {
  Kitchen a;
  const Kitchen& untouched = a;
  EXPECT_EQ(untouched.of<KettleConfig>().volume, 1.5);
  a.of<KettleConfig>().volume = 2;
  Kitchen b = a;
  b.of<KettleConfig>().volume = 3;
  EXPECT_EQ(a.of<KettleConfig>().volume, 2);
  EXPECT_EQ(untouched.of<KettleConfig>().volume, 2);
}

}  // namespace
}  // namespace nsvq
