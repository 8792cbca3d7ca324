#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/core/interrupt.h"
#include "nsvq/dist/group.h"
#include "nsvq/train/run_choice.h"

namespace CLI {
class App;
}

namespace nsvq {

/// Arguments of every command that trains.
struct TrainArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  RunRequest request;
  int gpus = 0;
  bool allow_pipe = false;
};

/// `example` is a recipe.
void declare_train_arguments(CLI::App& app, TrainArguments& arguments, const std::string& example);

/// What the command line asks for, with the recipe's name; a run's folder in the place of a recipe
/// is the one to train in.
RunRequest run_request(const TrainArguments& arguments);

/// Rank 0's choice on every rank; it alone has the lock. A line in the log if it is a run that is
/// resumed without being asked for.
RunChoice agree_on_run(const RunMatch& match, const RunRequest& request, Group& group);

/// The command that resumes a run: the program as it was invoked, with the settings stored in the
/// run's folder instead of the original recipe and overrides. `command` is "train".
std::string resume_command(const std::string& command, const std::filesystem::path& run,
                           const DataConfig& data);

/// Runs `work` in the group of this process (nsvq/dist/launch.h), whose other ranks learn of what
/// it throws. `timeout` reads the settings, and gives dist.timeout, once the log is quiet on ranks
/// other than 0.
void train_in_group(const std::function<double()>& timeout,
                    const std::function<void(const std::shared_ptr<Group>&)>& work);

/// Starts `command` of the program once for each of arguments.gpus GPUs, without --gpus, and ends
/// with its exit code. `device` is the recipe's.
[[noreturn]] void start_ranks(const TrainArguments& arguments,
                              const std::vector<std::string>& command, const std::string& device);

}  // namespace nsvq
