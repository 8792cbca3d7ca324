// Kills real training processes with SIGKILL, also while they write checkpoints, continues them,
// and compares with a run that was left alone. NSVQ_KILLS sets the number of kills.

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "tests/cli/kill.h"
#include "tests/train/run_traces.h"

namespace nsvq {
namespace {

constexpr auto kRecipe = R"(
threads: 1
data: {train: "builtin:dead-leaves?size=16&count=24", val: "builtin:dead-leaves?size=16&count=7&seed=1", size: 16}
model: {width: 8, multipliers: [1, 2], blocks: 1, latent_dim: 8}
quantizer: {codes: 64, init: data}
adversarial: {weight: 0.1, width: 4, layers: 1, lecam: 0.1}
optimizer: {lr: 1e-3, ema_decay: 0.9}
replacement: {exempt_epochs: 1}
schedule: {freeze: epoch, freeze_epoch: 5, warmup_epochs: 2}
train: {epochs: 16, batch_size: 8, log_every: 1, samples: 2, samples_every: 4, eval_every: 2}
drift: {every_steps: 3, images: 4}
checkpoint: {every_steps: 1, keep: 2}
)";

TEST(Kill, ARunSurvivesAnyNumberOfKills) {
  TemporaryFolder folder;
  const auto recipe = folder / "recipe.yaml";
  write_text(recipe, kRecipe);
  const auto command = [&](const std::filesystem::path& run) -> std::vector<std::string> {
    return {"train", recipe.string(), "--run", run.string()};
  };
  kill_and_compare(folder.path(), command, expect_same_runs);
}

}  // namespace
}  // namespace nsvq
