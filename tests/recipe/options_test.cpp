// The table of a tokenizer's options: its rows, ranges, overrides, contradictions and reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/losses/loss.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

std::string error_of_override(const std::string& text) {
  try {
    load_config("", {text});
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

// Counts the fields of an aggregate: the most initializers it can be braced with.
struct Anything {
  template <typename T>
  operator T() const;
};
template <typename T, typename... Fields>
constexpr size_t field_count() {
  if constexpr (requires { T{Fields{}..., Anything{}}; }) {
    return field_count<T, Fields..., Anything>();
  } else {
    return sizeof...(Fields);
  }
}
template <typename... Sections>
constexpr size_t total_fields() {
  return field_count<TokenizerConfig>() - sizeof...(Sections) + (field_count<Sections>() + ...);
}

/// Rows that quantizers, losses and policies add to the fields of TokenizerConfig.
size_t rows_of_members() {
  TokenizerConfig config;
  std::set<std::string> keys;
  const auto add = [&](const std::vector<Option>& rows) {
    for (const auto& row : rows) keys.insert(row.key);
  };
  for (const auto& kind : quantizer_kinds()) {
    if (kind.options) add(kind.options(config.quantizer));
  }
  for (const auto& kind : replacement_kinds()) {
    if (kind.options) add(kind.options(config.replacement));
  }
  for (const auto& kind : loss_kinds()) add(kind.options(config.loss));
  return keys.size();
}

TEST(Options, EveryFieldHasOneRow) {
  TokenizerConfig config;
  std::set<std::string> keys;
  std::set<const void*> fields;
  for (const auto& option : option_table(config).rows) {
    EXPECT_TRUE(keys.insert(option.key).second) << option.key;
    const auto address = [](auto* field) -> const void* { return field; };
    EXPECT_TRUE(fields.insert(std::visit(address, option.field)).second) << option.key;
    EXPECT_FALSE(option.help.empty()) << option.key;
    EXPECT_FALSE(option.range.text.empty()) << option.key;
  }
  // A section that members add to counts its base class as a field.
  constexpr size_t kBases = 3;
  // optimizer.decayed, optimizer.undecayed and fall_share of two schedules: generators' and
  // diffusion models' recipes alone have rows for them (recipe/network_training.h).
  constexpr size_t kOfNetworks = 4;
  constexpr size_t kFields =
      total_fields<RunConfig, DataConfig, Split, ModelConfig, QuantizerConfig, LossConfig,
                   AdversarialConfig, DiscriminatorConfig, OptimizerConfig, ReplacementConfig,
                   ScheduleConfig, TrainConfig, DistConfig, DriftConfig, AlarmConfig,
                   CheckpointConfig, LrScaleConfig, LrScheduleConfig, LrScheduleConfig>() -
      kBases - kOfNetworks;
  static_assert(field_count<LossConfig>() == 2);
  EXPECT_EQ(keys.size(), kFields + rows_of_members());
}

TEST(Options, DefaultsAreWithinTheirRanges) {
  TokenizerConfig config;
  for (const auto& option : option_table(config).rows) {
    TokenizerConfig other;
    const auto settings = parse_yaml_value(option.key, option.value(), "test");
    ASSERT_EQ(settings.size(), 1u) << option.key;
    EXPECT_EQ(option.assign(settings[0].value), "") << option.key;
  }
  EXPECT_NO_THROW(check_settings(config));
}

TEST(Options, RangesAreChecked) {
  const std::vector<std::string> bad = {"seed=-1",
                                        "threads=1025",
                                        "threads=-1",
                                        "data.size=7",
                                        "data.size=4097",
                                        "model.multipliers=[]",
                                        "model.multipliers=[0]",
                                        "model.multipliers=[65]",
                                        "model.multipliers=[1,1,1,1,1,1,1,1,1]",
                                        "quantizer.codes=0",
                                        "quantizer.codes=16777217",
                                        "quantizer.tau=0",
                                        "quantizer.beta=-0.1",
                                        "optimizer.lr=0",
                                        "optimizer.beta1=1",
                                        "optimizer.eps=0",
                                        "optimizer.ema_decay=1",
                                        "train.epochs=0",
                                        "checkpoint.keep=0",
                                        "schedule.phases=[]",
                                        "schedule.phases=[stage3]",
                                        "data.crop=left",
                                        "data.train=",
                                        "optimizer.lr=nan",
                                        "optimizer.lr=inf",
                                        "optimizer.lr=1e400",
                                        "seed=9223372036854775808"};
  for (const auto& text : bad)
    EXPECT_EQ(error_of_override(text).rfind("command line: ", 0), 0u)
        << text << error_of_override(text);
  const std::vector<std::string> good = {"seed=0",
                                         "seed=9223372036854775807",
                                         "threads=0",
                                         "threads=1024",
                                         "data.size=8",
                                         "data.size=4096",
                                         "model.multipliers=[64]",
                                         "quantizer.codes=1",
                                         "quantizer.codes=16777216",
                                         "quantizer.beta=0",
                                         "optimizer.beta1=0",
                                         "optimizer.lr=5e-324",
                                         "optimizer.ema_decay=0",
                                         "train.eval_every=0"};
  for (const auto& text : good) EXPECT_EQ(error_of_override(text), "no error") << text;
}

TEST(Overrides, AMisspeltQuantizerIsNamedWithTheNearest) {
  const std::string message = error_of_override("quantizer.type=nsqv");
  EXPECT_EQ(message.rfind("command line: quantizer.type: expected name (vq|ema|", 0), 0u);
  EXPECT_NE(message.find("got 'nsqv'; did you mean 'nsvq'?"), std::string::npos) << message;
}

TEST(Overrides, ErrorsNameTheCommandLine) {
  EXPECT_EQ(error_of_override("train.epochs"),
            "command line: expected key=value, got 'train.epochs'");
  EXPECT_EQ(error_of_override("=3"), "command line: expected key=value, got '=3'");
  EXPECT_EQ(error_of_override("a\nb=[3"), "command line: expected key=value, got 'a\\x0ab=[3'");
  EXPECT_EQ(error_of_override(""), "command line: expected key=value, got ''");
  EXPECT_EQ(error_of_override("train.epoch=3"),
            "command line: unknown key 'train.epoch'; did you mean 'train.epochs'?");
  EXPECT_EQ(error_of_override("steps_=8").find("'adversarial.schedule.steps'?"), std::string::npos);
  EXPECT_EQ(error_of_override("base=simvq.yaml").find("did you mean"), std::string::npos);
  EXPECT_EQ(error_of_override("train.epochs="),
            "command line: train.epochs: expected integer (1..1000000000), got nothing");
  EXPECT_EQ(error_of_override("train.epochs=x"),
            "command line: train.epochs: expected integer (1..1000000000), got 'x'");
  for (const std::string text : {"model.multipliers=[1", "model.multipliers=[1]]", "data.train=\"x",
                                 "seed=1: 2", "seed=\x01", "data.train=\xff", "seed=&a 1",
                                 "seed=*a", "seed=- 1", "model=3", "base=a.yaml"})
    EXPECT_EQ(error_of_override(text).rfind("command line: ", 0), 0u)
        << text << error_of_override(text);
}

TEST(Overrides, WordsOfOtherProgramsAndSectionsLeadToTheKey) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"batch_size", "train.batch_size"},
      {"batch", "train.batch_size"},
      {"train.device", "device"},
      {"train.seed", "seed"},
      {"lr", "optimizer.lr"},
      {"train.lr", "optimizer.lr"},
      {"loss.lr", "optimizer.lr"},
      {"learning_rate", "optimizer.lr"},
      {"optimizer.Learning_Rate", "optimizer.lr"},
      {"epochs", "train.epochs"},
      {"steps", "train.steps"},
      {"max_steps", "train.steps"},
      {"codebook_size", "quantizer.codes"},
      {"model.codes", "quantizer.codes"},
      {"quantizer.dim", "model.latent_dim"},
      {"latent_dim", "model.latent_dim"},
      {"num_workers", "data.threads"},
      {"train.workers", "data.threads"},
      {"precision", "train.precision"},
      {"train.epoch", "train.epochs"},
      {"trian.epochs", "train.epochs"},
      {"tarin.epoch", "train.epochs"}};
  for (const auto& [word, key] : rows) {
    EXPECT_EQ(error_of_override(word + "=3"),
              fmt::format("command line: unknown key '{}'; did you mean '{}'?", word, key));
  }
  // A suggestion that is not meant is worse than the list.
  for (const std::string word : {"train.elephant", "train.size_of_all", "zebra", "loss.zz", "x"}) {
    EXPECT_EQ(
        error_of_override(word + "=3"),
        fmt::format("command line: unknown key '{}'; `nsvq config --reference` lists all keys",
                    word));
  }
  // Every word leads to a key that there is.
  TokenizerConfig config;
  const auto table = option_table(config);
  for (const auto& [word, key] : words_of_other_programs()) {
    EXPECT_EQ(word, lower_case(word));
    EXPECT_EQ(std::ranges::count(table.rows, key, &Option::key), 1) << word;
    EXPECT_EQ(std::ranges::count(table.rows, word, &Option::key), 0) << word;
  }
}

TEST(Overrides, SpacesAroundTheSignAreNamed) {
  const auto error = [](const std::vector<std::string>& words) {
    return error_of([&] { load_config("", words); });
  };
  const std::string mean = "; did you mean data.train=../raw?";
  EXPECT_EQ(error({"data.train", "=", "../raw"}),
            "command line: expected key=value, got data.train" + mean);
  EXPECT_EQ(error({"data.train=", "../raw"}),
            "command line: expected key=value, got data.train=" + mean);
  EXPECT_EQ(error({"data.train", "=../raw", "seed=1"}),
            "command line: expected key=value, got data.train" + mean);
  EXPECT_EQ(error({"data.train", "../raw"}),
            "command line: expected key=value, got data.train" + mean);
  EXPECT_EQ(
      error({"data.train", "my photos"}),
      "command line: expected key=value, got data.train; did you mean 'data.train=my photos'?");
  EXPECT_EQ(error({"train.epochs", "seed=1"}),
            "command line: expected key=value, got 'train.epochs'");
  EXPECT_EQ(load_config("", {"checkpoint.keep_best=", "seed=2"}).seed, 2) << "a text may be empty";
}

TEST(Overrides, WordsOfOtherProgramsLeadToTheChoice) {
  EXPECT_EQ(error_of_override("device=gpu"),
            "command line: device: expected name (auto|cpu|cuda), got 'gpu'; did you mean 'cuda'?");
  EXPECT_NE(error_of_override("train.precision=half").find("; did you mean 'fp16'?"),
            std::string::npos);
  EXPECT_NE(error_of_override("data.flip=yes").find("; did you mean 'true'?"), std::string::npos);
  EXPECT_EQ(error_of_override("device=tpu").find("did you mean 'cuda'"), std::string::npos);
}

TEST(Options, ListsOfSourcesMayHoldBracesAndGlobs) {
  const auto items = [](const std::string& list) {
    return load_config("", {"data.train=" + list}).data.train.items;
  };
  using Items = std::vector<std::string>;
  EXPECT_EQ(items("[a-{00..03}.tar,b-{x,y}.tar]"), (Items{"a-{00..03}.tar", "b-{x,y}.tar"}));
  EXPECT_EQ(items("[ photos/ , more/*.tar ]"), (Items{"photos/", "more/*.tar"}));
  EXPECT_EQ(items("[\"a,b.tar\", c.tar]"), (Items{"a,b.tar", "c.tar"}));
  EXPECT_EQ(items("[one.tar]"), (Items{"one.tar"}));
  EXPECT_NE(error_of_override("data.train=[a.tar,,b.tar]"), "no error");
  EXPECT_NE(error_of_override("data.train=[]"), "no error");
  // What a shell makes of data.train=[a-{00..01}.tar,b.tar] without quotes.
  try {
    load_config("", {"data.train=[a-00.tar,b.tar]", "data.train=[a-01.tar,b.tar]"});
    ADD_FAILURE() << "b.tar twice";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("data.train: b.tar is named twice"), std::string::npos)
        << error.what();
  }
}

TEST(Check, ContradictionsAreExplained) {
  const auto has = [](const std::string& override_text, const std::string& part) {
    const std::string message = error_of_override(override_text);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has("data.size=100", "data.size 100 is not a multiple of 8");
  has("model.attention=[4]", "model.attention names level 4");
  has("schedule.freeze=epoch", "schedule.freeze_epoch must");
  has("schedule.phases=[stage1, stage1]", "names stage1 twice");
  has("loss.l1=0", "loss.l1 and loss.l2 are both 0");
  EXPECT_NE(error_of([] {
              load_config("", {"drift.ste_gap=true", "drift.images=0"});
            }).find("drift.ste_gap is true, so drift.images must say"),
            std::string::npos);
  EXPECT_NO_THROW(load_config("", {"schedule.freeze=never"}));
  EXPECT_NE(error_of([] {
              load_config("", {"optimizer.schedule.shape=cosine", "optimizer.schedule.steps=10",
                               "optimizer.schedule.warmup_steps=11"});
            }).find("optimizer.schedule.warmup_steps is 11, but"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              load_config("", {"quantizer.type=none", "checkpoint.keep_best=perplexity",
                               "train.metrics=[perplexity]"});
            }).find("quantizer none has no tokens"),
            std::string::npos);
  has("optimizer.scale.discriminator=0", "adversarial.weight=0 is without one");
  has("schedule.phases=[stage2, warmup]", "warmup is not reached; set schedule.stage2_epochs");
  EXPECT_NO_THROW(load_config("", {"schedule.freeze=never", "schedule.stage2_epochs=2",
                                   "schedule.phases=[stage2, warmup]"}));
  EXPECT_NO_THROW(load_config("", {"schedule.freeze=epoch", "schedule.freeze_epoch=1"}));
  EXPECT_NO_THROW(load_config("", {"model.attention=[0, 3]"}));
}

/// Images of the drift meter change no result, unless the freeze goes by them.
TEST(EssentialDifferences, HaveTheDriftMetersImagesWhereTheyDecide) {
  const auto differences = [](const std::string& commitment) {
    const auto with = [&](const std::string& images) {
      return load_config("", {"schedule.commitment=" + commitment, "drift.images=" + images});
    };
    return essential_differences(with("4"), with("5"));
  };
  EXPECT_TRUE(differences("train").empty());
  EXPECT_EQ(differences("validation"), std::vector<std::string>{"drift.images (4 here, 5 there)"});
}

TEST(Reference, ListsEveryOptionWithinTheWidth) {
  const std::string text = config_reference();
  TokenizerConfig config;
  for (const auto& option : option_table(config).rows) {
    EXPECT_NE(text.find("\n" + option.key + "  "), std::string::npos) << option.key;
    EXPECT_NE(text.find(option.help.substr(0, 12)), std::string::npos) << option.key;
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 110u) << line;
}

// A kind's own defaults hold where nothing sets their key, and only with that kind.
TEST(DefaultsOfKinds, HoldUnlessTheirKeyIsSet) {
  int differing = 0;
  for (const auto& kind : quantizer_kinds()) {
    SCOPED_TRACE(kind.name);
    const std::string type = "quantizer.type=" + kind.name;
    const auto with_defaults = to_yaml(load_config("", {type}));
    auto explicitly = kind.defaults;
    explicitly.push_back(type);
    EXPECT_EQ(with_defaults, to_yaml(load_config("", explicitly)));
    TokenizerConfig chosen;
    chosen.quantizer.type = kind.name;
    if (kind.latent_dim) chosen.model.latent_dim = kind.latent_dim(chosen.quantizer);
    EXPECT_EQ(with_defaults == to_yaml(chosen), kind.defaults.empty());
    // What was saved reads back to itself, and so do the general defaults.
    EXPECT_EQ(to_yaml(parse_config(with_defaults, "saved")), with_defaults);
    EXPECT_EQ(to_yaml(parse_config(to_yaml(chosen), "saved")), to_yaml(chosen));
    differing += !kind.defaults.empty();
  }
  EXPECT_GE(differing, 5);
  const auto soundstream = load_config("", {"quantizer.type=soundstream"});
  EXPECT_EQ(soundstream.replacement.threshold, 2);
  EXPECT_EQ(soundstream.quantizer.init, "kmeans");
  for (const auto* type : {"ema", "ibq", "gumbel", "sqvae"}) {
    const std::string chosen = std::string("quantizer.type=") + type;
    EXPECT_EQ(load_config("", {chosen}).quantizer.init, "normal") << type;
    EXPECT_EQ(load_config("", {chosen, "quantizer.init=uniform"}).quantizer.init, "uniform");
  }
  EXPECT_EQ(load_config("", {"quantizer.type=affine"}).quantizer.beta, 0.95);
  EXPECT_EQ(load_config("", {"quantizer.type=affine", "quantizer.beta=0.25"}).quantizer.beta, 0.25);
  EXPECT_NE(config_reference().find("quantizer.init=kmeans replacement.threshold=2"),
            std::string::npos);
}

TEST(Differences, OnlyWhatMakesAnotherRunCounts) {
  const auto differences = [](std::vector<std::string> overrides) {
    return essential_differences(load_config("", overrides), TokenizerConfig{});
  };
  EXPECT_TRUE(differences({}).empty());
  EXPECT_TRUE(differences({"train.epochs=7", "train.log_every=3", "data.train=moved/photos.tar",
                           "checkpoint.keep=9", "device=cpu"})
                  .empty());
  EXPECT_EQ(differences({"optimizer.lr=0.5", "train.epochs=7", "seed=3"}),
            (std::vector<std::string>{"seed (3 here, 0 there)",
                                      "optimizer.lr (0.5 here, 0.0001 there)"}));
}

TEST(Options, NumbersThatFp32DoesNotHoldAreRefused) {
  for (const std::string setting :
       {"quantizer.tau=1e-300", "optimizer.clip_norm=1e300", "optimizer.eps_quantizer=1e-60"}) {
    const auto key = setting.substr(0, setting.find('='));
    EXPECT_NE(error_of([&] { load_config("", {setting}); }).find(key), std::string::npos);
  }
}

}  // namespace
}  // namespace nsvq
