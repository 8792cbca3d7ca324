// A run beside other processes: how its threads wait changes while it trains.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/core/threads/parallel.h"
#include "nsvq/train/vq/trainer.h"
#include "tests/train/run_traces.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

/// With layers large enough for torch to divide their work.
TokenizerConfig config_of_threads() {
  auto config = tiny_config();
  config.threads = 2;
  config.model.width = 32;
  config.data.size = 32;
  config.data.train = "builtin:dead-leaves?size=32&count=24";
  config.data.val = "builtin:dead-leaves?size=32&count=7&seed=1";
  config.adversarial.weight = 0.1;
  config.adversarial.width = 8;
  config.adversarial.layers = 1;
  return config;
}

void train_in(const TokenizerConfig& config, const std::filesystem::path& folder) {
  Trainer(config, folder, make_single_group(), Start::fresh).loop().train();
}

/// While it lives, more threads of OpenMP exist than cores, and then not, by turns of some steps.
class Disturbance {
 public:
  Disturbance() : thread_([this](const std::stop_token& stop) { disturb(stop); }) {}
  int turns() const { return turns_; }

 private:
  void disturb(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const int turn = turns_++;
      std::jthread team;
      if (turn % 2 == 0) {
        team = std::jthread([](const std::stop_token& end) {
          parallel_tasks(2, [](int64_t) {});
          while (!end.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
  }

  std::atomic<int> turns_ = 0;
  std::jthread thread_;
};

TEST(SharedCoresInTraining, LeaveEveryBitAsItIs) {
  const TemporaryFolder folder;
  train_in(config_of_threads(), folder / "alone");
  {
    const Disturbance others;
    train_in(config_of_threads(), folder / "beside");
    EXPECT_GT(others.turns(), 4);
  }
  expect_same_runs(folder / "alone", folder / "beside");
}

}  // namespace
}  // namespace nsvq
