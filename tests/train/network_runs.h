#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/list.h"
#include "nsvq/train/loop.h"
#include "tests/tokenizer/tiny_tokenizer.h"
#include "tests/train/run_traces.h"
#include "tests/two_ranks.h"

namespace nsvq {

// What holds for every run of a single network on a tokenizer; `Trainer` is that of its kind.

/// Trains in a folder, or goes on there.
template <typename Trainer, typename Config>
Outcome train_network(const Config& config, const std::filesystem::path& run,
                      const Loop::Hook& hook = {}) {
  const auto start = std::filesystem::exists(run) ? Start::resume : Start::fresh;
  Trainer trainer(config, run, make_single_group(), start);
  if (hook) trainer.loop().on_step(hook);
  return trainer.loop().train();
}

inline TensorMap averaged_weights(const std::filesystem::path& run) {
  return read_safetensors(list_checkpoints(run).back() / "model.safetensors").tensors;
}

/// A run learns, leaves samples and a report, and lists know its kind and its budget.
template <typename Trainer, typename Config>
void expect_a_whole_run(Config config, const std::filesystem::path& run) {
  config.train.epochs = 6;
  EXPECT_TRUE(train_network<Trainer>(config, run).finished);
  const auto evaluations = lines_of_kind(run, "eval");
  ASSERT_EQ(evaluations.size(), 6u);
  EXPECT_LT(evaluations.back().at("loss"), evaluations.front().at("loss"));
  EXPECT_TRUE(std::filesystem::exists(newest_samples(run)));
  EXPECT_TRUE(std::filesystem::exists(run / "report.html"));
  for (const bool whole : {true, false}) {  // also by the checkpoints alone
    if (!whole) std::filesystem::rename(run / kSettingsFile, run / "away");
    EXPECT_EQ(kind_of_run(run), Config::kind);
    const auto summary = describe_run(run);
    EXPECT_EQ(summary.state, "finished") << summary.problem;
    EXPECT_EQ(summary.total_steps, summary.step);
  }
  std::filesystem::rename(run / "away", run / kSettingsFile);
}

/// A run that is killed and goes on ends as one that is not. The child of a death test runs its
/// file again, so the folder's name comes by the environment `variable`.
template <typename Trainer, typename Config>
void expect_a_killed_run_goes_on(const char* variable,
                                 Config (*settings)(const std::filesystem::path& tokenizer)) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TemporaryFolder own;
  setenv(variable, own.path().c_str(), /*overwrite=*/0);
  const std::filesystem::path folder = std::getenv(variable);
  const auto tokenizer = folder / "tokenizer.safetensors";
  if (!std::filesystem::exists(tokenizer)) write_tiny_tokenizer(folder);
  auto config = settings(tokenizer);
  config.train.epochs = 3;
  config.train.accumulate = 2;
  config.optimizer.schedule = {.shape = "cosine", .warmup_steps = 2};
  config.checkpoint.every_steps = 2;
  config.checkpoint.keep = 100;
  EXPECT_EXIT(train_network<Trainer>(config, folder / "killed",
                                     [](const RunState& state) {
                                       if (state.step == 3) raise(SIGKILL);
                                     }),
              testing::KilledBySignal(SIGKILL), "");
  train_network<Trainer>(config, folder / "killed");
  train_network<Trainer>(config, folder / "whole");
  expect_same_runs(folder / "whole", folder / "killed");
  unsetenv(variable);
}

/// Two ranks train what one trains. Adam makes whole steps of the rounding of gradients near zero,
/// hence the large eps.
template <typename Trainer, typename Config>
void expect_two_ranks_are_one(Config config, const std::filesystem::path& folder) {
  config.train.global_batch = 8;
  config.optimizer.eps = 1e-2;
  train_network<Trainer>(config, folder / "one");
  on_two_ranks([&](int rank, Group& group) {
    // The group belongs to the thread that lends it.
    const std::shared_ptr<Group> lent(&group, [](Group*) {});
    Trainer(config, folder / "two", lent).loop().train();
    EXPECT_EQ(lent->rank(), rank);
  });
  const auto one = averaged_weights(folder / "one"), two = averaged_weights(folder / "two");
  ASSERT_EQ(one.size(), two.size());
  for (const auto& [name, tensor] : one) {
    EXPECT_TRUE(at::allclose(tensor, two.at(name), 1e-3, 1e-5))
        << name << " differs by " << (tensor - two.at(name)).abs().max().template item<double>();
  }
  const auto last_loss = [&](const char* run) {
    return lines_of_kind(folder / run, "eval").back().at("loss").template get<double>();
  };
  EXPECT_NEAR(last_loss("two"), last_loss("one"), 1e-4);
}

/// A run on a GPU is captured as a CUDA graph, and trains as one that is not.
template <typename Trainer, typename Config>
void expect_graphs_are_eager(Config config, const std::filesystem::path& folder) {
  config.train.epochs = 4;
  config.device = "cuda";
  config.train.precision = "bf16";
  EXPECT_EQ(Trainer(config, folder / "trial", make_single_group()).loop().graphs_disabled_reason(),
            "");
  train_network<Trainer>(config, folder / "graphs");
  config.train.graphs = false;
  train_network<Trainer>(config, folder / "eager");
  expect_same_training(folder / "eager", folder / "graphs");
}

/// A tokenizer whose latents are not finite. (A model that holds infinity itself is refused.)
inline std::filesystem::path write_overflowing_tokenizer(const std::filesystem::path& folder) {
  const auto settings = tiny_tokenizer_config();
  auto tokenizer = make_tokenizer(settings, at::kCPU);
  tokenizer->encoder->named_parameters()["conv_out.weight"].data().fill_(3e38);
  const auto file = folder / "tokenizer.safetensors";
  write_model(file, named_tensors(*tokenizer), settings);
  return file;
}

}  // namespace nsvq
