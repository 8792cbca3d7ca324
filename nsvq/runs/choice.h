#pragma once

#include <concepts>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/io/files/lock.h"
#include "nsvq/recipe/run_config.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/config.h"

namespace nsvq {

/// The command line's choice of where to train.
struct RunRequest {
  std::string name;    ///< name of the recipe, whose runs are runs/NAME, runs/NAME-2 and so on
  std::string folder;  ///< --run, or empty
  std::string fork;    ///< --fork, or empty: a new folder in which the run in `source` goes on
  std::string source;  ///< what the command line names: a recipe or a run's folder
  bool resume = false;
  bool fresh = false;
};

/// A folder made for a new run, so that no other process uses its name. Removed again if it stays
/// empty.
class ReservedFolder {
 public:
  explicit ReservedFolder(std::filesystem::path path) : path_(std::move(path)) {}
  ~ReservedFolder();
  ReservedFolder(const ReservedFolder&) = delete;
  ReservedFolder& operator=(const ReservedFolder&) = delete;

 private:
  std::filesystem::path path_;
};

/// Whether a run begins anew, goes on from its newest checkpoint, or goes on from that of another
/// run (fork.h).
enum class Start { fresh, resume, fork };

struct RunChoice {
  std::filesystem::path folder;
  Start start;
  std::optional<FolderLock> lock;            ///< lock of the run to resume, for the trainer
  std::unique_ptr<ReservedFolder> reserved;  ///< where the name of a new run was chosen
};

/// Whether a run is finished and this budget asks for no more steps.
bool has_spent(const TrainConfig& train, const RunState& state);

/// What the choice of a run asks about the settings of the command.
struct RunMatch {
  TrainConfig train;  ///< its budget
  RunKind kind;
  /// Settings with an effect on the result in which a run's stored ones differ, as text. Throws
  /// UserError.
  std::function<std::vector<std::string>(const std::filesystem::path& run)> differences;
  /// Whether a command with these settings and files started a run. Throws UserError.
  std::function<bool(const std::filesystem::path& run)> started;
};

template <std::derived_from<RunConfig> Config>
RunMatch match_of(const Config& config) {
  return {config.train, Config::kind,
          [config](const std::filesystem::path& run) {
            return essential_differences(config, load_run_config<Config>(run));
          },
          [config](const std::filesystem::path& run) {
            auto here = with_absolute_paths(config);
            auto there = with_absolute_paths(load_run_config<Config>(run));
            return essential_differences(here, there).empty() &&
                   equal_training_files(option_table(here), option_table(there));
          }};
}

/// Chooses the folder to train in and whether to resume there. Unless `fresh`, the run of
/// the name that is resumed is the newest unfinished one with equal settings and data that no other
/// process trains; with `resume` also a finished one if its budget has grown, and it is an error if
/// there is none. A finished run in an explicit `folder` is chosen too (nothing is left to train),
/// so that a script that repeats the command until it succeeds ends. A fork gets the folder that it
/// names. Throws UserError.
RunChoice choose_run(const RunMatch& match, const RunRequest& request);

}  // namespace nsvq
