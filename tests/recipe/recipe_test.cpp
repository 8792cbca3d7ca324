#include "nsvq/recipe/tokenizer_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/losses/loss.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

class ConfigTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

  /// The error of loading, without the folder's name; "no error" if there was none.
  std::string error_of(const std::string& path, const std::vector<std::string>& overrides = {}) {
    std::string message = "no error";
    try {
      load_config(path, overrides);
    } catch (const UserError& error) {
      message = error.what();
    }
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (size_t at; (at = message.find(folder_.path().string() + "/")) != std::string::npos;)
      message.erase(at, folder_.path().string().size() + 1);
    return message;
  }
  std::string error_of_text(const std::string& text) { return error_of(write("a.yaml", text)); }

  TemporaryFolder folder_;
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

fs::path configs() { return fs::path(NSVQ_TESTS_DIR) / "../../configs"; }

/// Another valid value for every option that has one.
void change(const Option& option) {
  std::string before = option.value();
  const auto try_value = [&](const YamlValue& value) {
    if (option.value() == before) (void)option.assign(value);
  };
  using Kind = YamlValue::Kind;
  for (const std::string text :
       {"17", "7", "3", "0.12345678901234567", "false", "true", "a: b #c \"d\" \xc3\xa9\n"})
    try_value({Kind::kScalar, {{text, false}}});
  for (const auto& choice : option.range.choices) {
    try_value({Kind::kScalar, {{choice, false}}});
    try_value({Kind::kList, {{choice, false}}});
  }
  try_value({Kind::kList, {{"3", false}, {"5", false}}});
  EXPECT_NE(option.value(), before) << option.key << " has one value only";
}

TEST_F(ConfigTest, ChangedSettingsSurviveWriting) {
  TokenizerConfig changed, fresh;
  for (const auto& option : option_table(changed).rows) change(option);
  changed.data.size = 64;  // keep what depends on each other consistent
  changed.model.multipliers = {3, 5, 1};
  changed.model.attention = {1, 2};
  changed.model.halvings = 1;
  changed.schedule.phases = {"stage1", "warmup"};
  changed.adversarial.target_hinge = 0;  // goes with one discriminator_loss alone, the default
  changed.checkpoint.keep_best = changed.train.metrics.front();
  const TokenizerConfig read_back = load_config(write("all.yaml", to_yaml(changed)));
  EXPECT_EQ(to_yaml(read_back), to_yaml(changed));

  TokenizerConfig a = changed, b = read_back;
  const auto table_a = option_table(a).rows, table_b = option_table(b).rows,
             defaults = option_table(fresh).rows;
  for (size_t i = 0; i < table_a.size(); ++i) {
    if (table_a[i].key != "adversarial.target_hinge") {
      EXPECT_NE(table_a[i].value(), defaults[i].value()) << table_a[i].key;
    }
    const auto same = [](auto* x, auto* y) {
      if constexpr (std::is_same_v<decltype(x), decltype(y)>) return *x == *y;
      return false;
    };
    EXPECT_TRUE(std::visit(same, table_a[i].field, table_b[i].field)) << table_a[i].key;
  }
}

TEST_F(ConfigTest, OddTextsAndNumbersSurviveWriting) {
  TokenizerConfig config;
  for (const std::string text : {"1",
                                 "1e3",
                                 "true",
                                 "null",
                                 "~",
                                 "yes",
                                 "-",
                                 "a: b",
                                 "a:",
                                 "a #b",
                                 " a ",
                                 "*.tar",
                                 "&x",
                                 "!t",
                                 "{a}",
                                 "[a]",
                                 "'",
                                 "\"",
                                 "\\",
                                 "a\nb\r\n\tc\n",
                                 "x-{00..03}.tar,y",
                                 "\xe2\x82\xac \xf0\x9f\x98\x80",
                                 "%a",
                                 "@a",
                                 "?",
                                 "|",
                                 ">",
                                 "---",
                                 "...",
                                 "a,b",
                                 "/data/a b",
                                 "\xef\xbb\xbf"
                                 "a",
                                 "<<",
                                 "="}) {
    config.data.train = text;
    EXPECT_EQ(load_config(write("a.yaml", to_yaml(config))).data.train, text);
  }
  for (const double number :
       {0.1, 1.0 / 3, 1e-300, 5e-324, 1.7976931348623157e308, 123456789012345678.0, 1e22}) {
    config.optimizer.lr = number;
    EXPECT_EQ(load_config(write("a.yaml", to_yaml(config))).optimizer.lr, number);
  }
  config.seed = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(load_config(write("a.yaml", to_yaml(config))).seed, config.seed);
}

TEST_F(ConfigTest, NestedAndDottedKeysAreAlike) {
  const TokenizerConfig config =
      load_config(write("a.yaml",
                        "data:\n  size: 64\n  flip: true\n"
                        "model.multipliers:\n  - 1\n  - 2\n"
                        "loss: {l1: 0, l2: 1e-4}\n"
                        "optimizer.lr: .5\ndata.val: \"5\"\nreplacement:\n"));
  EXPECT_EQ(config.data.size, 64);
  EXPECT_TRUE(config.data.flip);
  EXPECT_EQ(config.model.multipliers, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.loss.of<L1LossConfig>().weight, 0);
  EXPECT_EQ(config.loss.of<L2LossConfig>().weight, 1e-4);
  EXPECT_EQ(config.optimizer.lr, 0.5);
  EXPECT_EQ(config.data.val, "5");
  EXPECT_EQ(config.train.epochs, TokenizerConfig().train.epochs);
}

TEST_F(ConfigTest, OverridesComeLast) {
  const std::string path = write("a.yaml", "train.epochs: 2\nseed: 1\n");
  const TokenizerConfig config = load_config(
      path, {"train.epochs=4", "model={width: 8, blocks: 1}", "model.multipliers=[1,3]",
             "data.train=/a b/{00..03}#1: *.tar", "data.val=\"q\\\"\"", "quantizer.alpha=1e-2"});
  EXPECT_EQ(config.seed, 1);
  EXPECT_EQ(config.train.epochs, 4);
  EXPECT_EQ(config.model.width, 8);
  EXPECT_EQ(config.model.blocks, 1);
  EXPECT_EQ(config.model.multipliers, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(config.data.train, "/a b/{00..03}#1: *.tar");
  EXPECT_EQ(config.data.val, "q\"");
  EXPECT_EQ(config.quantizer.alpha, 0.01);
  EXPECT_EQ(to_yaml(load_config("")), to_yaml(TokenizerConfig()));
}

TEST_F(ConfigTest, ErrorsNameFileLineKeyAndExpectation) {
  EXPECT_EQ(error_of_text("seed: 1\ntrain:\n  epoch: 3\n"),
            "a.yaml:3: unknown key 'train.epoch'; did you mean 'train.epochs'?");
  EXPECT_EQ(error_of_text("lr: 1\n"), "a.yaml:1: unknown key 'lr'; did you mean 'optimizer.lr'?");
  EXPECT_EQ(error_of_text("trian: {epochs: 1}\n"),
            "a.yaml:1: unknown key 'trian.epochs'; did you mean 'train.epochs'?");
  EXPECT_EQ(error_of_text("zebra: 1\n"),
            "a.yaml:1: unknown key 'zebra'; `nsvq config --reference` lists all keys");
  EXPECT_EQ(error_of_text("loss: 1\n"),
            "a.yaml:1: 'loss' is a section, not a setting; its keys are loss.l1, loss.l2, "
            "loss.chroma, loss.perceptual, loss.perceptual_net, loss.logits, loss.vq");
  EXPECT_EQ(error_of_text("\n\ntrain.epochs: 0\n"),
            "a.yaml:3: train.epochs: expected integer (1..1000000000), got '0'");
  EXPECT_EQ(
      error_of_text("data.crop: centre\n"),
      "a.yaml:1: data.crop: expected name (random|center), got 'centre'; did you mean 'center'?");
  EXPECT_EQ(
      error_of_text("model:\n  multipliers: 4\n"),
      "a.yaml:2: model.multipliers: expected a list of integers (1 to 8, each 1..64), got '4'");
  EXPECT_EQ(error_of_text("schedule.phases: stage1\n"),
            "a.yaml:1: schedule.phases: expected a list of names (1 to 4, each "
            "stage1|warmup|stage2|decoder), got 'stage1'; a list of one is [stage1]");
  EXPECT_EQ(error_of_text("seed: 1\ntrain.epochs: 1\nseed: 2\n"),
            "a.yaml:3: key 'seed' appears twice");
  EXPECT_EQ(error_of_text("loss.l1: 1\nloss:\n  l1: 1\n"), "a.yaml:3: key 'loss.l1' appears twice");
}

TEST_F(ConfigTest, TypesAreStrict) {
  for (const std::string text : {"3.0", "3.5e0", "3e-1", "1e300", "1e", "-1e3", "\"1e3\"", "65_536",
                                 "\"3\"", "0x10", "+3", "three", "[3]", "", "{}x", "3 4"})
    EXPECT_NE(error_of_text("train.epochs: " + text + "\n"), "no error") << text;
  for (const std::string text : {"yes", "1", "True", "\"true\"", "on", "", "[true]"})
    EXPECT_NE(error_of_text("data.flip: " + text + "\n"), "no error") << text;
  for (const std::string text : {"\"1\"", "1e", "1,5", "nan", ".inf", "inf", "one", "1 2", "0x1p3"})
    EXPECT_NE(error_of_text("loss.l1: " + text + "\n"), "no error") << text;
  for (const std::string text : {"", "~", "[]", "[a, [b]]", "{a: b}"})
    EXPECT_NE(error_of_text("data.train: " + text + "\n"), "no error") << text;
  for (const std::string text : {"1", "1.5", "1e-4", "1E+2", "-0", "0.5"})
    EXPECT_EQ(error_of_text("loss.l1: " + text + "\nloss.l2: 1\n"), "no error") << text;
}

TEST_F(ConfigTest, IntegersMayHaveAnExponent) {
  const auto epochs = [&](const std::string& text) {
    return load_config(write("a.yaml", "train.epochs: " + text + "\n")).train.epochs;
  };
  EXPECT_EQ(epochs("1e3"), 1000);
  EXPECT_EQ(epochs("2.5E+2"), 250);
  EXPECT_EQ(epochs("7e0"), 7);
  EXPECT_EQ(load_config("", {"model.multipliers=[1e0, 2]"}).model.multipliers,
            (std::vector<int64_t>{1, 2}));
  // Digits are exact beyond what a double holds; an exponent is taken only where it is exact.
  EXPECT_EQ(load_config("", {"seed=9007199254740993"}).seed, 9007199254740993);
  EXPECT_NE(error_of("", {"seed=1e16"}), "no error");
  const std::string start = "command line: train.epochs: expected integer (1..1000000000), got ";
  EXPECT_EQ(error_of("", {"train.epochs=10k"}), start + "'10k'; write 10000");
  EXPECT_EQ(error_of("", {"train.epochs=1_000"}), start + "'1_000'; write 1000");
  EXPECT_EQ(error_of("", {"train.epochs=2M"}), start + "'2M'; write 2000000");
  EXPECT_EQ(error_of("", {"train.epochs=k"}), start + "'k'");
  EXPECT_EQ(error_of("", {"train.epochs=0"}), start + "'0'");
}

TEST_F(ConfigTest, ErrorsOfYamlSayWhatIsLikely) {
  const auto expect = [&](const std::string& text, const std::string& start,
                          const std::string& end) {
    const auto error = error_of_text(text);
    EXPECT_TRUE(error.starts_with(start)) << error;
    EXPECT_TRUE(error.ends_with(end)) << error;
  };
  const std::string rule = "keys of a section begin in one column";
  expect("data:\n  train: a\n   val: b\n", "a.yaml:3: no valid YAML: ",
         "; wrong indentation: it begins further right than line 2, which has a value already; " +
             rule);
  for (const std::string text :
       {"data:\n    train: a\n  val: b\n", "data:\n  train: a\n\n # c\n val: b\n"}) {
    const std::string line = text.find("# c") == std::string::npos ? "3" : "5";
    expect(text, "a.yaml:" + line + ": no valid YAML: ", "; " + rule);
    EXPECT_NE(error_of_text(text).find("no line above begins in its column"), std::string::npos);
  }
  expect(" data:\n  train: a\nmodel:\n", "a.yaml:3: wrong indentation: ", rule);
  expect("model:\n  multipliers: [1, 2\n  width: 3\n", "a.yaml:3: ", "is a ']' missing in line 2?");
  expect("data:\n  train: a\n  val b\n  size: 64\n", "a.yaml:4: ", "is ': ' missing in line 3?");
  expect("data:\n  train: a: b\n", "a.yaml:2: ", "a value that holds ': ' needs quotes");
  EXPECT_EQ(error_of_text("data.val:b: 3\n"),
            "a.yaml:1: unknown key 'data.val:b'; is a space missing in 'data.val: b'?");
}

TEST_F(ConfigTest, OddFilesAreRefused) {
  EXPECT_EQ(error_of((folder_ / "none.yaml").string()),
            "none.yaml: cannot read this recipe: No such file or directory");
  EXPECT_NE(error_of(folder_.path().string()).find("a folder"), std::string::npos);
  for (const std::string text : {"", "\n", "# nothing\n", "---\n", "{}"})
    EXPECT_EQ(error_of_text(text), "a.yaml: holds no settings") << text;
  EXPECT_EQ(error_of_text("data:\n# size: 3\n"), "no error");  // a section commented out
  EXPECT_EQ(error_of_text(std::string("seed: 1\n\0\n", 10)),
            "a.yaml:2: not a text file: a control character or broken UTF-8");
  EXPECT_EQ(error_of_text("seed: 1\n\xff\xfe"),
            "a.yaml:2: not a text file: a control character or broken UTF-8");
  EXPECT_EQ(error_of_text("data.train: \"a\\0b\"\n"),
            "a.yaml:1: a control character or broken UTF-8");
  EXPECT_EQ(error_of_text("data.train: \"a\\_b\"\n").rfind("a.yaml:1: ", 0), 0u);
  EXPECT_EQ(error_of_text("seed: 1\n" + std::string(1 << 20, '#')),
            "a.yaml: over 1 MB, so not a recipe");
  EXPECT_EQ(error_of_text("data:\n\tsize: 64\n"), "a.yaml:2: a tab indents this line; use spaces");
  for (const std::string text :
       {"\"abc", "'abc", "\"abc\nseed: 1", "'a''", "\"a\\\"", "\"a\nb\"", "'"})
    EXPECT_EQ(error_of_text("# \xc3\xa9\r\ndata.train: " + text + "\n"),
              "a.yaml:2: a quote is not closed on its line")
        << text;
  EXPECT_EQ(error_of_text("\xef\xbb\xbfseed: 1\ndata.train: 'a''\"'\n\"data.val\": \"b\\\\\"\n"),
            "no error");
  EXPECT_EQ(error_of_text("model.multipliers: [1, 2\n").rfind("a.yaml:", 0), 0u);
  EXPECT_NE(error_of_text("seed: 1\n---\nseed: 2\n").find("a.yaml:3: stray text"),
            std::string::npos);
  EXPECT_EQ(error_of_text("just words\n"), "a.yaml:1: expected lines such as 'train.epochs: 10'");
  for (const std::string text :
       {"- 1\n- 2\n", "? [a]\n: 1\n", "? {a: b}\n: 1\n", ": 1\n", "seed: !!int 1\n", "a: [[1]]\n",
        "a: [{b: 1}]\n", "a: [,]\n", "model.multipliers: [1, ~]\n"})
    EXPECT_EQ(error_of_text(text).rfind("a.yaml:1: ", 0), 0u) << text << error_of_text(text);
}

TEST_F(ConfigTest, DeepNestingAndAliasesAreRefused) {
  std::string bomb = "a: &a [x, x, x, x]\n";
  for (char c = 'b'; c < 'z'; ++c)
    bomb += std::string(1, c) + ": &" + c + " [*" + std::string(1, c - 1) + ", *" +
            std::string(1, c - 1) + "]\n";
  EXPECT_EQ(error_of_text(bomb).rfind("a.yaml:1: anchors and aliases", 0), 0u);
  EXPECT_EQ(error_of_text("data.train: *.tar\n").rfind("a.yaml:1: anchors and aliases", 0), 0u);
  for (const char* piece : {"[", "{", "{a: ", "- ", "a: ", "? ", "!", "&"}) {
    std::string text;
    for (int i = 0; i < 20000; ++i) text += piece;
    EXPECT_NE(error_of_text(text), "no error") << piece;
    EXPECT_NE(error_of_text("a: " + text), "no error") << piece;
  }
  std::string indented;
  for (int i = 0; i < 500; ++i) indented += std::string(i, ' ') + "a:\n";
  EXPECT_NE(error_of_text(indented), "no error");
}

TEST_F(ConfigTest, BasesAreReadFirst) {
  fs::create_directory(folder_ / "sub");
  write("root.yaml", "seed: 1\ntrain: {epochs: 5, batch_size: 7}\n");
  write("sub/middle.yaml", "base: ../root.yaml\ntrain.epochs: 6\n");
  const std::string path = write("top.yaml", "seed: 3\nbase: sub/middle.yaml\n");
  const TokenizerConfig config = load_config(path);
  EXPECT_EQ(config.seed, 3);
  EXPECT_EQ(config.train.epochs, 6);
  EXPECT_EQ(config.train.batch_size, 7);
  const TokenizerConfig of_two =
      load_config(write("two.yaml", "base: [sub/middle.yaml, root.yaml]\nseed: 4\n"));
  EXPECT_EQ(of_two.seed, 4);
  EXPECT_EQ(of_two.train.epochs, 5);  // the later base

  EXPECT_EQ(error_of_text("base: a.yaml\n"),
            "a.yaml:1: base a.yaml: a recipe that is its own base");
  write("x.yaml", "base: y.yaml\n");
  EXPECT_EQ(error_of(write("y.yaml", "seed: 1\nbase: ./x.yaml\n")),
            "x.yaml:1: base y.yaml: a recipe that is its own base");
  EXPECT_EQ(error_of_text("base: none.yaml\n"),
            "a.yaml:1: base none.yaml: cannot read this recipe: No such file or directory");
  EXPECT_NE(error_of_text("base: sub\n").find("a folder"), std::string::npos);
  for (const std::string text :
       {"base:\n", "base: []\n", "base: [a, '']\n", "base: ''\n", "base: {a: 1}\n"})
    EXPECT_EQ(error_of_text(text).rfind("a.yaml:1: ", 0), 0u) << text << error_of_text(text);
  write("bad.yaml", "seed: x\n");
  EXPECT_EQ(error_of_text("base: bad.yaml\n"),
            "bad.yaml:1: seed: expected integer (>= 0), got 'x'");
}

TEST(Recipes, AllOfThemLoad) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(configs())) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    EXPECT_NO_THROW(load_config(entry.path().string())) << entry.path();
    EXPECT_EQ(read(entry.path()).rfind("# ", 0), 0u)
        << entry.path() << " begins with no explanation";
  }
  EXPECT_GE(count, 4);
}

TEST_F(ConfigTest, DamagedRecipesLoadOrAreRefused) {
  const std::string text =
      to_yaml(load_config((configs() / "quickstart.yaml").string())) + "# x: \"y\" [1]\n";
  int files = 0, parsed = 0;
  // Anything but a UserError fails the test. Most rounds stay off the disk and give no value to
  // every setting, which is slow.
  const auto load = [&](const std::string& damaged) {
    try {
      if (++files % 20 == 0) load_config(write("damaged.yaml", damaged));
      TokenizerConfig config;
      const auto settings = parse_yaml(damaged, "damaged.yaml");
      ++parsed;
      if (parsed % 20 != 0) return;
      for (const auto& option : option_table(config).rows)
        for (const auto& setting : settings) (void)option.assign(setting.value);
    } catch (const UserError&) {
    }
  };
  for (size_t size = 0; size < text.size(); size += 3) load(text.substr(0, size));
  Random random(7);
  const std::string indicators = "\n\t :-?[]{},#&*!|>'\"%@`\\~\x80\xff";
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = text;
    for (int64_t i = random.below(4); i >= 0; --i) {
      const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(damaged.size())));
      const bool flip = random.below(2) == 0;
      const auto any = static_cast<size_t>(random.below(static_cast<int64_t>(indicators.size())));
      damaged[at] =
          flip ? static_cast<char>(damaged[at] ^ (1 << random.below(8))) : indicators[any];
    }
    load(damaged);
  }
  EXPECT_GT(parsed, 100);
  EXPECT_LT(parsed, files);
}

}  // namespace
}  // namespace nsvq
