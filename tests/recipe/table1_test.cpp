// The recipes of configs/table1 have the sizes of the paper's table, and their quantizers can be
// made.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/recipe/tokenizer_config.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(NSVQ_TESTS_DIR) / "../../configs/table1";

struct Row {
  std::string type;
  int64_t dim, codes;
};

const std::map<std::string, Row> kRows = {
    {"vqgan", {"vq", 128, 65536}},
    {"vqgan-ema", {"ema", 128, 65536}},
    {"vqgan-fc-d128", {"factorised", 128, 65536}},
    {"vqgan-fc-d8", {"factorised", 8, 65536}},
    {"fsq", {"fsq", 6, 64000}},
    {"lfq", {"lfq", 16, 65536}},
    {"vqgan-lc", {"vqgan_lc", 128, 65536}},
    {"simvq", {"simvq", 128, 65536}},
    {"fvq", {"fvq", 128, 65536}},
    {"simvq-ns", {"simvq_ns", 128, 65536}},
    {"nsvq", {"nsvq", 128, 65536}},
    {"nsvq-tracking", {"nsvq", 128, 65536}},
    {"ablation-neither", {"nsvq", 128, 65536}},
    {"ablation-ns-only", {"nsvq", 128, 65536}},
    {"ablation-replacement-only", {"nsvq", 128, 65536}},
    {"ablation-stage1", {"nsvq", 128, 65536}},
    {"ablation-stage1-warmup", {"nsvq", 128, 65536}},
    {"ablation-stage1-stage2", {"nsvq", 128, 65536}},
    {"ablation-freeze-only", {"nsvq", 128, 65536}},
};

TEST(Table1, EveryRowHasItsSizes) {
  for (const auto& [name, row] : kRows) {
    SCOPED_TRACE(name);
    const auto config = load_config(kFolder / (name + ".yaml"));
    EXPECT_EQ(config.quantizer.type, row.type);
    EXPECT_EQ(config.model.latent_dim, row.dim);
    EXPECT_EQ(config.data.size / config.model.stride(), 16);
    EXPECT_EQ(config.train.epochs, 70);
    EXPECT_EQ(make_quantizer(config.quantizer, row.dim)->codes(), row.codes);
  }
}

TEST(Table1, EveryRecipeIsARow) {
  const std::set<std::string> shared = {"baseline",        "small", "gpu",       "gpu-2500",
                                        "gpu-5000",        "cpu",   "gpu-20000", "tracking",
                                        "cosine-adaptive", "tiny"};
  for (const auto& file : fs::directory_iterator(kFolder)) {
    const auto name = file.path().stem().string();
    if (file.path().extension() != ".yaml" || shared.count(name)) continue;
    EXPECT_TRUE(kRows.count(name)) << file.path();
  }
}

TEST(Table1, AblationsDifferInWhatTheyName) {
  const auto of = [](const std::string& name) { return load_config(kFolder / (name + ".yaml")); };
  const auto full = of("nsvq");
  using Phases = std::vector<std::string>;
  EXPECT_EQ(full.schedule.phases, (Phases{"stage1", "warmup", "stage2"}));
  for (const auto& [name, alpha, policy] : {std::tuple{"ablation-neither", 0.0, "none"},
                                            {"ablation-ns-only", 0.1, "none"},
                                            {"ablation-replacement-only", 0.0, "auto"},
                                            {"ablation-stage1", 0.1, "auto"}}) {
    const auto config = of(name);
    EXPECT_EQ(config.quantizer.alpha, alpha) << name;
    EXPECT_EQ(config.replacement.policy, policy) << name;
    EXPECT_EQ(quantizer_kind(config.quantizer.type).replacement, "copy") << "what auto stands for";
    EXPECT_EQ(config.schedule.phases, Phases{"stage1"}) << name;
  }
  const auto freeze = of("ablation-freeze-only");
  EXPECT_EQ(freeze.schedule.phases, full.schedule.phases);
  EXPECT_EQ(freeze.quantizer.alpha, 0);
  EXPECT_EQ(freeze.replacement.policy, "none");
  EXPECT_EQ(of("ablation-stage1-warmup").schedule.phases, (Phases{"stage1", "warmup"}));
  const auto no_warmup = of("ablation-stage1-stage2");
  EXPECT_EQ(no_warmup.schedule.phases, (Phases{"stage1", "stage2"}));
  EXPECT_EQ(no_warmup.schedule.ramp_epochs, 0);
  EXPECT_EQ(full.schedule.ramp_epochs, 2);
  EXPECT_EQ(of("simvq-ns").schedule.phases, full.schedule.phases);
  EXPECT_EQ(of("simvq").schedule.phases, Phases{"stage1"});
}

TEST(Table1, EveryRowHasASmallTwin) {
  const TemporaryFolder folder;
  for (const auto& [name, row] : kRows) {
    SCOPED_TRACE(name);
    const auto recipe = (folder / (name + ".yaml")).string();
    std::ofstream(recipe) << "base: [" << kFolder / (name + ".yaml") << ", "
                          << kFolder / "small.yaml"
                          << "]\n";
    const auto config = load_config(recipe, {"train.epochs=16"});
    EXPECT_EQ(config.train.epochs, 16);
    EXPECT_EQ(config.quantizer.codes, 1024);
    EXPECT_EQ(config.quantizer.type, row.type);
    make_quantizer(config.quantizer, config.model.latent_dim);  // throws if sizes do not fit
  }
}

}  // namespace
}  // namespace nsvq
