// Ranks with parts of a batch train what one process with the whole of it does, up to the order of
// sums: every quantizer, through all phases with replacement, in real processes over Gloo.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "nsvq/core/log.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/losses/loss.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/train/vq/trainer.h"
#include "tests/train/every_quantizer.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

/// Largest difference of a tensor of a checkpoint, relative to its largest value, after 30 steps in
/// fp32. Sums in another order differ by some 1e-7; Adam divides small gradients by their own size.
constexpr double kTolerance = 5e-4;
constexpr int64_t kSteps = 30;

/// `folder` takes files that it names.
TokenizerConfig equality_config(const std::string& type, const fs::path& folder) {
  auto config = tiny_config_with_files(type, folder);
  config.data.train = "builtin:dead-leaves?size=16&count=40";
  config.data.crop = "random";
  config.data.flip = true;
  config.train.global_batch = 8;  // of 2 or 4 ranks together
  config.train.epochs = 6;
  config.train.precision = "fp32";  // on a GPU too, where "auto" would round by far more
  config.train.check_ranks = 10;
  config.loss.of<L1LossConfig>().weight =
      0;  // its gradient jumps where a pixel is hit but for rounding
  config.loss.of<L2LossConfig>().weight = 1;
  // So small that differences do not grow by the steps that follow.
  config.optimizer.lr = 1e-5;
  config.replacement.of<CopyReplacementConfig>().exempt_epochs = 0;
  if (quantizer_kind(type).batch_entropy) config.dist.entropy = "all";
  config.quantizer.of<LfqConfig>().temperature = 1;  // 0.01 would multiply rounding by 400
  return config;
}

/// A configuration for every kind, and for what they share beside their defaults.
std::map<std::string, TokenizerConfig> equality_configs(const fs::path& folder) {
  std::map<std::string, TokenizerConfig> configs;
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.untrained.empty()) continue;
    configs[kind.name] = equality_config(kind.name, folder / ("files-" + kind.name));
  }
  for (const std::string anchor : {"sampled", "closest", "random"}) {
    auto& config = configs["vq-anchor-" + anchor] = equality_config("vq", folder / "files");
    config.replacement.policy = "anchor";
    config.replacement.of<AnchorReplacementConfig>().anchor = anchor;
  }
  auto& restart = configs["ema-restart-kmeans"] = equality_config("ema", folder / "files");
  restart.replacement.policy = "restart";
  restart.replacement.threshold = 4;
  restart.quantizer.init = "kmeans";
  auto& windows = configs["nsvq-windows"] = equality_config("nsvq", folder / "files");
  vary_by_the_step(windows);
  windows.optimizer.scale.quantizer = 1;
  auto& nearest = configs["nsvq-tau-of-nearest"] = equality_config("nsvq", folder / "files");
  nearest.quantizer.tau_of_nearest = 1;
  nearest.quantizer.kernel = "gaussian";
  nearest.replacement.of<CopyReplacementConfig>().sigma_relative = 0.01;
  auto& adversarial = configs["adversarial"] = equality_config("nsvq", folder / "files");
  adversarial.adversarial.weight = 0.1;
  adversarial.adversarial.lecam = 0.01;
  adversarial.adversarial.width = 4;
  adversarial.adversarial.layers = 1;
  adversarial.adversarial.adaptive = false;  // of each rank's gradients, as in the references
  adversarial.schedule.ramp_epochs = 0;
  adversarial.dist.batch_norm = "all";
  auto& held = configs["adversarial-held"] = adversarial;
  held.adversarial.augment = {"flip", "colour", "shift", "cutout"};
  held.adversarial.target_hinge = 0.5;
  held.adversarial.lecam = 0;  // else the last bias has the difference of two nearly equal sums
  auto& plateau = configs["nsvq-plateau"] = equality_config("nsvq", folder / "files");
  plateau.schedule.freeze = "plateau";
  plateau.schedule.commitment = "validation";
  plateau.schedule.patience = 1;
  plateau.schedule.latest_epoch = 4;
  plateau.drift.images = 4;
  plateau.drift.ste_gap = true;
  configs["nsvq-refit"] = equality_config("nsvq", folder / "files");
  configs["nsvq-refit"].schedule.refit = "kmeans";
  auto& passes = configs["gumbel-passes"] = equality_config("gumbel", folder / "files");
  passes.train.accumulate = 2;
  return configs;
}

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

/// Processes of this program that run RankWorker.Trains below.
class RankProcesses {
 public:
  RankProcesses(int count, const fs::path& folder) {
    const int port = free_port();
    for (int rank = 0; rank < count; ++rank) {
      std::vector<std::string> variables = {fmt::format("RANK={}", rank),
                                            fmt::format("LOCAL_RANK={}", rank),
                                            fmt::format("WORLD_SIZE={}", count),
                                            fmt::format("LOCAL_WORLD_SIZE={}", count),
                                            "MASTER_ADDR=127.0.0.1",
                                            fmt::format("MASTER_PORT={}", port),
                                            "NSVQ_RANK_WORKER=" + folder.string()};
      for (char** entry = environ; *entry; ++entry) variables.emplace_back(*entry);
      std::vector<char*> environment;
      for (auto& text : variables) environment.push_back(text.data());
      environment.push_back(nullptr);
      std::string program = "/proc/self/exe", filter = "--gtest_filter=RankWorker.Trains";
      char* const words[] = {program.data(), filter.data(), nullptr};
      posix_spawn_file_actions_t files;
      ::posix_spawn_file_actions_init(&files);
      logs_.push_back(folder / fmt::format("rank-{}-of-{}.log", rank, count));
      ::posix_spawn_file_actions_addopen(&files, 1, logs_.back().c_str(), O_WRONLY | O_CREAT, 0600);
      ::posix_spawn_file_actions_adddup2(&files, 1, 2);
      pid_t process = 0;
      EXPECT_EQ(
          ::posix_spawn(&process, program.c_str(), &files, nullptr, words, environment.data()), 0);
      ::posix_spawn_file_actions_destroy(&files);
      processes_.push_back(process);
    }
  }
  ~RankProcesses() { wait(); }

  void wait() {
    for (size_t rank = 0; rank < processes_.size(); ++rank) {
      int status = 0;
      ::waitpid(processes_[rank], &status, 0);
      EXPECT_EQ(status, 0) << read_text(logs_[rank]);
    }
    processes_.clear();
  }

 private:
  std::vector<pid_t> processes_;
  std::vector<fs::path> logs_;
};

TensorMap last_tensors(const fs::path& run) {
  const auto folder = list_checkpoints(run).back();
  auto all = read_safetensors(folder / "training.safetensors").tensors;
  for (auto& [name, tensor] : read_safetensors(folder / "model.safetensors").tensors) {
    all["average." + name] = tensor;
  }
  return all;
}

struct Difference {
  double size = 0;
  std::string tensor;
};

Difference largest_difference(const fs::path& whole, const fs::path& parts) {
  const auto expected = last_tensors(whole), found = last_tensors(parts);
  EXPECT_EQ(expected.size(), found.size());
  Difference largest;
  for (const auto& [name, tensor] : expected) {
    if (!found.contains(name) || tensor.numel() == 0) continue;
    const auto one = tensor.to(at::kDouble), other = found.at(name).to(at::kDouble);
    const auto size = ((one - other).abs().max() / one.abs().max().clamp_min(1e-12)).item<double>();
    if (!(size <= largest.size)) largest = {size, name};
  }
  return largest;
}

class RankEquality : public testing::Test {
 protected:
  void SetUp() override { set_quiet(true); }
  void TearDown() override { set_quiet(false); }

  /// Trains by one process and by `count`, and compares; `names` none: all. Where rounding decides
  /// between two codes that are equally near, runs part: what does not agree has two more seeds.
  void expect_equal(int count, const std::set<std::string>& names) {
    auto left = names;
    for (const int seed : {0, 1, 2}) {
      if (seed > 0 && left.empty()) return;
      const TemporaryFolder folder;
      left = different(count, left, seed, folder.path());
    }
    for (const auto& name : left) ADD_FAILURE() << name << ", " << count << " ranks";
  }

 private:
  static std::set<std::string> different(int count, const std::set<std::string>& names, int seed,
                                         const fs::path& folder) {
    auto configs = equality_configs(folder);
    std::erase_if(configs,
                  [&](const auto& one) { return !names.empty() && !names.contains(one.first); });
    for (auto& [name, config] : configs) {
      config.seed = seed;
      write_text(folder / (name + ".yaml"), to_yaml(config));
    }
    RankProcesses ranks(count, folder);
    for (const auto& [name, config] : configs) {
      Trainer(config, folder / (name + "-1"), make_single_group()).loop().train();
    }
    ranks.wait();
    std::set<std::string> found;
    for (const auto& [name, config] : configs) {
      const auto parts = folder / fmt::format("{}-{}", name, count);
      if (!newest_checkpoint(parts)) {
        ADD_FAILURE() << name << ": not trained";
        continue;
      }
      EXPECT_EQ(load_run_state(*newest_checkpoint(parts)).step, kSteps) << name;
      const auto [size, tensor] = largest_difference(folder / (name + "-1"), parts);
      fmt::print("{} ranks, {}: largest relative difference {:.1e} ({})\n", count, name, size,
                 tensor);
      if (!(size <= kTolerance)) found.insert(name);
    }
    return found;
  }
};

TEST_F(RankEquality, OfEveryQuantizer) { expect_equal(2, {}); }

TEST_F(RankEquality, OfFourRanks) {
  expect_equal(4,
               {"nsvq", "cvq", "lfq", "gumbel", "soundstream", "adversarial", "adversarial-held"});
}

/// A rank of the tests above.
TEST(RankWorker, Trains) {
  const char* folder = std::getenv("NSVQ_RANK_WORKER");
  if (!folder) GTEST_SKIP() << "only as a process of RankEquality";
  const auto group =
      make_group(launch_from_environment(), {.timeout = 60}, [](const std::string& message) {
        log("{}", message);
        ::_exit(3);
      });
  std::set<fs::path> recipes;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml") recipes.insert(entry.path());
  }
  for (const auto& recipe : recipes) {
    const auto run = fmt::format("{}-{}", recipe.stem().string(), group->size());
    Trainer(load_config(recipe, {}), fs::path(folder) / run, group).loop().train();
  }
}

}  // namespace
}  // namespace nsvq
