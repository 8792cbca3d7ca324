// Steps replayed as CUDA graphs compute what eager steps do.

#include "nsvq/train/steps/cuda_graph.h"
#include "nsvq/tokenizer/open_model.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "nsvq/core/device.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/dist/group.h"
#include "nsvq/losses/loss.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/train/vq/trainer.h"
#include "tests/train/every_quantizer.h"
#include "tests/train/run_traces.h"

namespace nsvq {
namespace {

TEST(StepGraph, IsEagerWhereItIsNotEnabled) {
  StepGraph graph(at::kCPU, false);
  int done = 0;
  for (int i = 0; i < 10; ++i) {
    const auto captured = [&](const std::vector<torch::Tensor>&) { ++done; };
    EXPECT_FALSE(graph.replay("a", {at::full({2}, i)}, captured));
  }
  EXPECT_EQ(done, 0);
}

TEST(StepGraph, ReplaysOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const c10::Device device(at::kCUDA, 0);
  const SideStreamGuard stream(device);
  StepGraph graph(device, true);
  const auto sum = at::zeros({2}, at::device(device).dtype(at::kFloat));
  int called = 0;
  for (const auto* kind : {"a", "b"}) {
    for (int i = 1; i <= 10; ++i) {
      const auto step = [&](const std::vector<torch::Tensor>& batch) {
        sum.add_(batch[0] * 2);
        ++called;
      };
      const std::vector<torch::Tensor> batch = {at::full({2}, i, sum.options())};
      if (!graph.replay(kind, batch, step)) step(batch);
    }
  }
  EXPECT_EQ(sum[1].item<float>(), 2 * 2 * 55);
  EXPECT_EQ(called, 8) << "three eager steps and one capture, of either kind";
}

TEST(StepGraph, AFailedCaptureLeavesTheGpuUsable) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const c10::Device device(at::kCUDA, 0);
  const SideStreamGuard stream(device);
  const auto fail = [] { throw std::runtime_error("not of the GPU"); };
  EXPECT_THROW(capture_graph(fail, device), std::runtime_error);
  const auto ones = at::ones({3}, at::device(device).dtype(at::kFloat));
  EXPECT_EQ(ones.sum().item<float>(), 3);
}

/// 24 steps: 12 of stage 1, two of them without the discriminator, 6 of the warm-up, 6 of stage 2.
TokenizerConfig gpu_config(const std::string& type, const std::filesystem::path& folder) {
  auto config = tiny_config_with_files(type, folder);
  config.schedule.freeze_epoch = 2;
  config.train.epochs = 4;
  config.data.train = "builtin:dead-leaves?size=16&count=48";
  config.adversarial.weight = 0.5;
  config.adversarial.start_step = 2;
  config.adversarial.width = 4;
  config.adversarial.layers = 1;
  config.schedule.ramp_epochs = 1;
  config.model.width = 32;
  config.train.log_every = 4;  // so that several steps are queued before one is checked
  return config;
}

TensorMap last_state(const std::filesystem::path& run) {
  return read_safetensors(list_checkpoints(run).back() / "training.safetensors").tensors;
}

void train_anew(const TokenizerConfig& config, const std::filesystem::path& run) {
  Trainer trainer(config, run, make_single_group());
  EXPECT_EQ(trainer.loop().graphs_disabled_reason().empty(), config.train.graphs)
      << trainer.loop().graphs_disabled_reason();
  trainer.loop().train();
}

TEST(TrainerGraphs, GiveTheSameNumbersInAllPhasesOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const auto* precision : {"bf16", "fp32", "fp16"}) {
    for (const auto& kind : quantizer_kinds()) {
      if (!kind.untrained.empty()) continue;
      const TemporaryFolder folder;
      auto config = gpu_config(kind.name, folder.path());
      config.train.precision = precision;
      train_anew(config, folder / "graphs");
      config.train.graphs = false;
      train_anew(config, folder / "plain");
      const auto graphs = last_state(folder / "graphs");
      for (const auto& [name, tensor] : last_state(folder / "plain")) {
        EXPECT_TRUE(at::equal(tensor, graphs.at(name)))
            << kind.name << " " << precision << " " << name;
      }
      EXPECT_EQ(timeless_metrics(folder / "plain"), timeless_metrics(folder / "graphs"));
    }
  }
}

TEST(TrainerGraphs, GiveTheSameNumbersWithARelativeNsLossOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const std::string type : {"nsvq", "simvq_ns"}) {
    for (const std::string kernel : {"softmax", "gaussian"}) {
      SCOPED_TRACE(type + " " + kernel);
      const TemporaryFolder folder;
      const auto config = with_relative_ns_loss(gpu_config(type, folder.path()), kernel);
      train_anew(config, folder / "graphs");
      auto eager = config;
      eager.train.graphs = false;
      train_anew(eager, folder / "plain");
      const auto graphs = last_state(folder / "graphs");
      EXPECT_EQ(first_difference(last_state(folder / "plain"), graphs), "");
      EXPECT_GT(graphs.at("model.quantizer.nearest_distance").item<double>(), 0);
      EXPECT_EQ(timeless_metrics(folder / "plain"), timeless_metrics(folder / "graphs"));
    }
  }
}

// The way of several GPUs: buckets of gradients, sums over ranks, all of it captured.
TEST(TrainerGraphs, OneRankByNcclIsThePlainRunBitForBitOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.untrained.empty()) continue;
    for (const bool graphs : {true, false}) {
      const TemporaryFolder folder;
      auto config = gpu_config(kind.name, folder.path());
      config.train.graphs = graphs;
      config.train.check_ranks = 5;
      train_anew(config, folder / "plain");
      Trainer trainer(config, folder / "nccl",
                      make_nccl_group(make_single_group(), c10::Device(at::kCUDA, 0)));
      EXPECT_EQ(trainer.loop().graphs_disabled_reason().empty(), graphs);
      trainer.loop().train();
      SCOPED_TRACE(kind.name);
      EXPECT_EQ(first_difference(last_state(folder / "plain"), last_state(folder / "nccl")), "");
    }
  }
}

TEST(TrainerGraphs, ResumeBitForBitOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.untrained.empty()) continue;
    const TemporaryFolder folder;
    auto config = gpu_config(kind.name, folder.path());
    config.checkpoint = {.every_steps = 5, .keep = 100};
    train_anew(config, folder / "whole");
    std::filesystem::copy(folder / "whole", folder / "parts",
                          std::filesystem::copy_options::recursive);
    for (const auto* later : {"step-15", "step-20", "step-24"}) {
      EXPECT_GT(std::filesystem::remove_all(folder / "parts" / "checkpoints" / later), 0u) << later;
    }
    Trainer(config, folder / "parts", make_single_group(), Start::resume).loop().train();
    const auto parts = last_state(folder / "parts");
    for (const auto& [name, tensor] : last_state(folder / "whole")) {
      EXPECT_TRUE(at::equal(tensor, parts.at(name))) << kind.name << " " << name;
    }
  }
}

TEST(TrainerGraphs, SettingsThatVaryByTheStepOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const TemporaryFolder folder;
  auto config = gpu_config("nsvq", folder.path());
  vary_by_the_step(config);
  config.checkpoint = {.every_steps = 7, .keep = 100};
  train_anew(config, folder / "graphs");
  std::filesystem::copy(folder / "graphs", folder / "parts",
                        std::filesystem::copy_options::recursive);
  for (const auto* later : {"step-14", "step-21", "step-24"}) {
    std::filesystem::remove_all(folder / "parts" / "checkpoints" / later);
  }
  Trainer(config, folder / "parts", make_single_group(), Start::resume).loop().train();
  config.train.graphs = false;
  train_anew(config, folder / "plain");
  const auto graphs = last_state(folder / "graphs"), parts = last_state(folder / "parts");
  for (const auto& [name, tensor] : last_state(folder / "plain")) {
    EXPECT_TRUE(at::equal(tensor, graphs.at(name))) << name;
    EXPECT_TRUE(at::equal(tensor, parts.at(name))) << name << " resumed";
  }
}

// Steps with the R1 penalty run eagerly between replays; codes are refitted between two graphs.
TEST(TrainerGraphs, LeversOfTheDiscriminatorAndRefitsOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const int64_t every : {1, 3}) {
    for (const auto* precision : {"bf16", "fp32", "fp16"}) {
      SCOPED_TRACE(fmt::format("{} {}", precision, every));
      const TemporaryFolder folder;
      auto config = gpu_config("nsvq", folder.path());
      config.train.precision = precision;
      config.adversarial.augment = {"flip", "colour", "shift", "cutout"};
      config.adversarial.target_hinge = 0.99;
      config.adversarial.r1 = 0.5;
      config.adversarial.r1_every = every;
      config.schedule.refit = "kmeans";
      config.checkpoint = {.every_steps = 5, .keep = 100};
      train_anew(config, folder / "graphs");
      std::filesystem::copy(folder / "graphs", folder / "parts",
                            std::filesystem::copy_options::recursive);
      for (const auto* later : {"step-12", "step-15", "step-18", "step-20", "step-24"}) {
        std::filesystem::remove_all(folder / "parts" / "checkpoints" / later);
      }
      Trainer(config, folder / "parts", make_single_group(), Start::resume).loop().train();
      config.train.graphs = false;
      train_anew(config, folder / "plain");
      const auto plain = last_state(folder / "plain");
      EXPECT_EQ(first_difference(plain, last_state(folder / "graphs")), "");
      EXPECT_EQ(first_difference(plain, last_state(folder / "parts")), "") << "resumed";
    }
  }
}

TEST(TrainerGraphs, ABadStepIsFoundLaterAndChangedNothingOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const TemporaryFolder folder;
  auto config = gpu_config("nsvq", folder.path());
  config.adversarial.weight = 0;
  config.loss.of<L1LossConfig>().weight =
      3e38;  // Gradients overflow, so no step moves the weights.
  config.train.precision = "fp32";
  config.train.on_nonfinite = "skip";
  config.train.nonfinite_limit = 1000;
  config.train.steps = 12;
  train_anew(config, folder / "run");
  const auto last = list_checkpoints(folder / "run").back();
  EXPECT_EQ(load_run_state(last).skipped, 12);
  config.train.steps = 6;
  train_anew(config, folder / "shorter");
  const auto state = last_state(folder / "run");
  for (const auto& [name, tensor] : last_state(folder / "shorter")) {
    if (name.starts_with("model.")) EXPECT_TRUE(at::equal(tensor, state.at(name))) << name;
  }
}

}  // namespace
}  // namespace nsvq
