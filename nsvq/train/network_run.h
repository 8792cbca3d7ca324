#pragma once

#include <fmt/ranges.h>

#include <concepts>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/runs/config.h"
#include "nsvq/train/run_setup.h"

namespace nsvq {

// What runs of a single network share, whatever they learn.

/// What the loop needs of the settings.
template <std::derived_from<RunConfig> Config>
LoopOptions network_loop_options(const Config& config, c10::Device device) {
  return {.train = config.train,
          .checkpoint = config.checkpoint,
          .seed = config.seed,
          .precision = precision_on(config, device),
          .gradients = config.dist.gradients == "bf16" ? at::kBFloat16 : at::kFloat,
          .settings = summarize_settings(config),
          .samples = "images",
          .best_is_highest = false};
}

/// Where a run is, and how it begins: in a new folder, resumed in `run`, or as a fork of `fork_of`.
struct RunPlace {
  std::filesystem::path run;
  Start start = Start::fresh;
  std::optional<FolderLock> lock;
  std::filesystem::path fork_of = {};

  /// The run that has the checkpoint to go on from.
  const std::filesystem::path& source() const { return start == Start::fork ? fork_of : run; }
};

/// What kinds of runs differ in.
template <typename Config>
struct NetworkRunKind {
  /// The settings that a model file holds; errors call it `from`.
  std::function<Config(const TensorFile& model, const std::string& from)> settings_of;
  /// Whether a setting decides the network's tensors, so that a fork keeps it.
  std::function<bool(const std::string& key)> decides_network;
};

/// The checkpoint and the folder of a run, which outlive its loop.
template <std::derived_from<RunConfig> Config>
class NetworkRun {
 public:
  /// Throws UserError for a checkpoint that does not fit the settings.
  NetworkRun(const Config& config, std::shared_ptr<Group> group, RunPlace place,
             const NetworkRunKind<Config>& kind)
      : config_(config),
        group_(std::move(group)),
        place_(std::move(place)),
        lock_(lock_for(*group_, place_.start, place_.run, std::move(place_.lock))),
        device_(choose_device(config.device, group_->local_rank())),
        flags_(settings_of_rank(training_torch_settings(config, precision_on(config, device_)),
                                *group_)),
        // Before a model is made by the recipe: if it is not the run's, it may ask for any size.
        from_(checkpoint_to_resume(
            place_.source(), place_.start, *group_,
            [&](Checkpoint& checkpoint, const std::filesystem::path& folder) {
              require_settings(kind, kind.settings_of(checkpoint.model, folder.string()),
                               folder.string());
            })) {}

  c10::Device device() const { return device_; }

  /// Lets `loop` go on from the checkpoint, if there is one and `check` throws nothing, and write
  /// to the run's folder. `with_settings` is a model of the checkpoint with a fork's settings, as
  /// ForkContents has it.
  void begin(Loop& loop,
             const std::function<void(const Checkpoint& from, const std::string& folder)>& check,
             const std::function<TensorFile(const TensorFile& model, const Config& settings,
                                            const std::map<std::string, std::string>& kept)>&
                 with_settings) {
    const auto from = std::exchange(from_, std::nullopt);
    const bool forks = place_.start == Start::fork;
    if (from && group_->leads()) check(*from, place_.source().string());
    if (forks) {
      load_forked(loop, from, config_.train, place_.fork_of);
    } else if (from) {
      loop.load(*from, place_.run.string());
    }
    if (!group_->leads()) return;
    const auto settings = with_absolute_paths(config_);
    if (forks) {
      const ForkContents contents{to_yaml(settings),
                                  [](TensorFile&, const std::filesystem::path&) {},
                                  [&](const TensorFile& model, const auto& kept) {
                                    return with_settings(model, settings, kept);
                                  }};
      const auto before = with_absolute_paths(load_run_config<Config>(place_.fork_of));
      lock_.emplace(begin_fork(place_.fork_of, place_.run, *from, contents,
                               changed_settings(before, settings)));
    }
    run_ = open_run_directory(place_.run, forks ? Start::resume : place_.start, std::move(lock_),
                              to_yaml(settings), loop.state(), from ? &*from : nullptr);
    loop.write_to(*run_);
  }

 private:
  void require_settings(const NetworkRunKind<Config>& kind, const Config& there,
                        const std::string& from) const {
    if (place_.start == Start::fork) {
      return refuse_changes(changed_settings(there, config_), kind.decides_network, from);
    }
    const auto differences = essential_differences(config_, there);
    if (differences.empty()) return;
    throw UserError(
        "{}: of another configuration: {}; --fork NEW goes on with the settings here in a folder "
        "NEW",
        from, fmt::join(differences, ", "));
  }

  const Config config_;
  std::shared_ptr<Group> group_;
  RunPlace place_;
  std::optional<FolderLock> lock_;  ///< until `run_` has it
  c10::Device device_;
  TorchFlags flags_;
  std::optional<Checkpoint> from_;     ///< until it is loaded
  std::unique_ptr<RunDirectory> run_;  ///< null on ranks other than 0
};

}  // namespace nsvq
