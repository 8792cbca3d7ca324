// NaN and infinity written into one tensor of a training after another: the run ends with a line
// that names the tensor, nothing has moved, and the last checkpoint is intact. On a CPU, and on a
// GPU with eager and with captured steps.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/core/device.h"
#include "nsvq/core/log.h"
#include "nsvq/recipe/loader_options.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/verdict.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/train/vq/trainer.h"
#include "tests/expect_contains.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"
#include "tests/train/trainer_fixture.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// Training images, with NaN in a pixel of batch number `spoiled`.
class SpoiledImages : public ImageBatchSource {
 public:
  using ImageBatchSource::ImageBatchSource;
  std::optional<TensorBatch> next() override {
    auto batch = ImageBatchSource::next();
    if (batch && batches_++ == spoiled) batch->front()[1][2][3][4] = NAN;
    return batch;
  }

  int64_t spoiled = -1;

 private:
  int64_t batches_ = 0;
};

/// A device to train on. A tensor is spoiled after `step`; on a GPU steps are captured by then.
struct Where {
  const char* name;
  c10::DeviceType device;
  bool graphs;
  int64_t step;
};

TokenizerConfig config_at(const Where& where) {
  auto config = tiny_config();
  config.model.multipliers = {1};
  config.train.graphs = where.graphs;
  config.adversarial.weight = 0.1;
  config.adversarial.width = 4;
  config.adversarial.layers = 1;
  config.train.steps = where.step + 2;
  config.train.eval_every = 0;
  config.train.samples_every = 0;
  config.checkpoint.every_steps = 1;
  config.checkpoint.keep = 1;
  return config;
}

/// A training whose tensors can be reached.
struct OpenTraining {
  OpenTraining(const TokenizerConfig& config, const fs::path& folder, c10::Device device)
      : flags(training_torch_settings(config, precision_on(config, device))),
        batches(open_training_source(config.data), training_loader_options(config, *group, device)),
        task(config, batches, group, device),
        loop(task, batches,
             {.train = config.train, .checkpoint = config.checkpoint, .settings = to_yaml(config)},
             group, device),
        run(RunDirectory::create(folder, to_yaml(config))) {
    task.start_fresh();
    loop.write_to(run);
  }

  TorchFlags flags;
  std::shared_ptr<Group> group = make_single_group();
  SpoiledImages batches;
  TokenizerTask task;
  Loop loop;
  RunDirectory run;
};

TensorMap copies_of(const TensorMap& tensors) {
  TensorMap copies;
  for (const auto& [name, tensor] : tensors) copies[name] = tensor.detach().clone();
  return copies;
}

/// Whether the bytes are equal, so that NaN equals NaN.
bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  const auto bytes = [](const torch::Tensor& tensor) {
    return tensor.contiguous().view(-1).view(at::kByte);
  };
  return at::equal(bytes(a), bytes(b));
}

class NonfiniteTest : public TrainerTest, public testing::WithParamInterface<Where> {
 protected:
  void SetUp() override {
    if (GetParam().device == at::kCUDA && gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
    set_quiet(true);
  }
  void TearDown() override { set_quiet(false); }

  static TokenizerConfig config() { return config_at(GetParam()); }
  static c10::Device device() {
    return {GetParam().device,
            static_cast<c10::DeviceIndex>(GetParam().device == at::kCUDA ? 0 : -1)};
  }

  /// Trains some steps, lets `spoil` change a tensor, trains on, and gives the line with which the
  /// run ended. `unmoved`: nothing else of the training has changed since.
  std::string line_after(const std::function<void(OpenTraining&)>& spoil, bool unmoved = true,
                         const std::function<void(OpenTraining&)>& prepare = {}) {
    const auto folder = folder_ / std::to_string(runs_++);
    OpenTraining training(config(), folder, device());
    if (prepare) prepare(training);
    TensorMap before;
    training.loop.on_step([&](const RunState& state) {
      if (state.step != GetParam().step) return;
      const torch::NoGradGuard no_grad;
      spoil(training);
      before = copies_of(training.task.shared_tensors());
    });
    std::string line;
    try {
      training.loop.train();
      return "it ended as if nothing had happened";
    } catch (const RunError& error) {
      line = error.what();
    }
    EXPECT_EQ(line.find('\n'), line.npos);
    if (unmoved) {
      for (const auto& [name, tensor] : training.task.shared_tensors()) {
        EXPECT_TRUE(same_bits(tensor.detach(), before.at(name))) << name << " moved; " << line;
      }
    }
    expect_whole_checkpoint(folder);
    expect_recorded(folder, line);
    return line;
  }

  static void expect_whole_checkpoint(const fs::path& run) {
    const auto newest = newest_checkpoint(run);
    ASSERT_TRUE(newest);
    const auto checkpoint = load_checkpoint(*newest);
    for (const auto& tensors : {checkpoint.model.tensors, checkpoint.training}) {
      for (const auto& [name, tensor] : tensors) {
        EXPECT_TRUE(at::isfinite(tensor).all().item<bool>()) << name;
      }
    }
  }

  static void expect_recorded(const fs::path& run, const std::string& line) {
    const auto alarms = lines_of_kind(run, "alarm");
    ASSERT_FALSE(alarms.empty());
    EXPECT_EQ(alarms.back().at("sign"), kNonfiniteSign);
    EXPECT_TRUE(line.starts_with(alarms.back().at("reason").get<std::string>())) << line;
    EXPECT_EQ(verdict_of_run(run, /*finished=*/false).word, "diverged");
  }

  /// Names of the tensors of a training that begin with `prefix`, without it. A fifth of them, as
  /// all take minutes; NSVQ_ALL_NUMBERS=1: all.
  std::vector<std::string> names(const std::string& prefix) {
    OpenTraining training(config(), folder_ / "names", device());
    std::vector<std::string> found;
    for (const auto& [name, tensor] : with_prefix(training.task.shared_tensors(), prefix)) {
      if (tensor.is_floating_point() && tensor.numel() > 0) found.push_back(name);
    }
    fs::remove_all(folder_ / "names");
    if (std::getenv("NSVQ_ALL_NUMBERS")) return found;
    std::vector<std::string> some;
    for (size_t i = 0; i < found.size(); i += 5) some.push_back(found[i]);
    found = some;
    EXPECT_FALSE(found.empty()) << prefix;
    return found;
  }

  /// Writes a value into the middle of a tensor between two steps.
  static auto put(const std::string& name, double value) {
    return [=](OpenTraining& training) {
      const auto tensor = training.task.shared_tensors().at(name).detach();
      tensor.as_strided({tensor.numel()}, {1})[tensor.numel() / 2] = value;  // of any memory format
    };
  }

 private:
  int runs_ = 0;
};

TEST_P(NonfiniteTest, TheCodes) {
  for (const double value : {double{NAN}, double{INFINITY}}) {
    expect_contains(line_after(put("model.quantizer.codebook", value)), {"quantizer.codebook"});
  }
}

TEST_P(NonfiniteTest, Weights) {
  double value = NAN;
  for (const auto& name : names("model.")) {
    expect_contains(line_after(put("model." + name, value)), {name});
    value = std::isnan(value) ? INFINITY : NAN;
  }
}

TEST_P(NonfiniteTest, WeightsOfTheDiscriminator) {
  for (const auto& name : names("discriminator.")) {
    if (name.starts_with("adam.")) continue;
    expect_contains(line_after(put("discriminator." + name, NAN)), {name});
  }
}

// They show in the weights after one more step, or nowhere in training.
TEST_P(NonfiniteTest, MomentsAndAverages) {
  for (const std::string prefix : {"adam.", "average.", "discriminator.adam."}) {
    for (const auto& name : names(prefix)) {
      const auto parameter = prefix == "average." ? name : name.substr(0, name.rfind('.'));
      expect_contains(line_after(put(prefix + name, NAN), /*unmoved=*/false), {parameter});
    }
  }
}

TEST_P(NonfiniteTest, Gradients) {
  for (const auto& name : names("model.")) {
    const auto added = at::zeros({}, device());  // read by captured steps too
    const auto line = line_after(
        [&](OpenTraining&) { added.fill_(-INFINITY); }, /*unmoved=*/true,
        [&](OpenTraining& training) {
          training.task.shared_tensors()
              .at("model." + name)
              .register_hook([added](const torch::Tensor& gradient) { return gradient + added; });
        });
    expect_contains(line, {"the gradient of " + name});
  }
}

TEST_P(NonfiniteTest, ConvolutionsThatOverflow) {
  for (const auto& name : names("model.")) {
    if (name.find("conv") == name.npos || !name.ends_with(".weight")) continue;
    const auto line = line_after([&](OpenTraining& training) {
      training.task.shared_tensors().at("model." + name).detach().fill_(3e38);
    });
    expect_contains(line, {"conv", " at " + name.substr(0, name.rfind('.'))});
  }
}

TEST_P(NonfiniteTest, AnImage) {
  const auto line =
      line_after([](OpenTraining& training) { training.batches.spoiled = GetParam().step; });
  expect_contains(line, {"step " + std::to_string(GetParam().step + 1), "the images",
                         "the last checkpoint is intact"});
}

TEST_P(NonfiniteTest, ASkippedImageMovesNothing) {
  const auto step = GetParam().step;
  auto skipping = config();
  skipping.train.on_nonfinite = "skip";
  skipping.train.steps = step + 1;
  OpenTraining training(skipping, run_, device());
  training.batches.spoiled = step;
  TensorMap before;
  training.loop.on_step([&](const RunState& state) {
    if (state.step == step) before = copies_of(training.task.shared_tensors());
  });
  EXPECT_TRUE(training.loop.train().finished);
  EXPECT_EQ(training.loop.state().skipped, 1);
  for (const auto& [name, tensor] : training.task.shared_tensors()) {
    EXPECT_TRUE(same_bits(tensor.detach(), before.at(name))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, NonfiniteTest,
                         testing::Values(Where{"Cpu", at::kCPU, false, 1},
                                         Where{"GpuEager", at::kCUDA, false, 1},
                                         Where{"GpuCaptured", at::kCUDA, true, 4}),
                         [](const auto& where) { return where.param.name; });

using LearningRateTest = TrainerTest;

/// The last step of a run may leave numbers that no step looks at: an evaluation fails.
TEST_F(LearningRateTest, OfTheLastStepIsSaidToDiverge) {
  for (const double lr : {1e30, 1e38}) {  // weights that are finite, and codes that are not
    const auto run = folder_ / fmt::format("{}", lr);
    auto config = tiny_config();
    config.optimizer.lr = lr;
    config.train.steps = 1;
    std::string line;
    try {
      train(config, run);
    } catch (const RunError& error) {
      line = error.what();
    }
    expect_contains(line, {"step 1: ", "no checkpoint is written; lower optimizer.lr"});
    const auto alarms = lines_of_kind(run, "alarm");
    ASSERT_EQ(alarms.size(), 1u) << line;
    EXPECT_EQ(alarms[0].at("sign"), kNonfiniteSign);
    EXPECT_EQ(verdict_of_run(run, /*finished=*/false).text,
              "diverged (numbers that were not finite ended training at step 1); try a lower "
              "optimizer.lr in a new run");
  }
}

TEST_F(LearningRateTest, OfTenIsSaidToDivergeWithinAnEpoch) {
  auto config = tiny_config();
  config.data.train = "builtin:dead-leaves?size=16&count=800";  // 100 steps an epoch
  config.optimizer.lr = 10;
  config.train.steps = 30;
  train(config, run_);
  const auto alarms = lines_of_kind(run_, "alarm");
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_EQ(alarms[0].at("sign"), "diverging");
  EXPECT_EQ(alarms[0].at("step"), 30);
  EXPECT_EQ(alarms[0].at("epoch"), 1);
  expect_contains(alarms[0].at("reason"), {"each of the last 3 windows of 10 steps", "diverges"});
  const auto verdict = verdict_of_run(run_, /*finished=*/true);
  EXPECT_EQ(verdict.word, "diverged") << verdict.text;
  expect_contains(read_text(run_ / "report.html"), {verdict.text});
}

TEST_F(LearningRateTest, OfTenIsSaidToDiverge) {
  auto config = tiny_config();
  config.optimizer.lr = 10;
  config.train.epochs = 3;
  train(config, run_);
  std::vector<std::string> signs;
  std::ifstream log(run_ / "metrics.jsonl");
  for (std::string text; std::getline(log, text);) {
    const auto line = nlohmann::json::parse(text);
    if (line.at("kind") != "alarm") continue;
    signs.push_back(line.at("sign"));
    expect_contains(line.at("reason"), {"diverges", "optimizer.lr"});
  }
  EXPECT_EQ(signs, std::vector<std::string>{"diverging"});
}

}  // namespace
}  // namespace nsvq
