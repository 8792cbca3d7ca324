#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/dist/group.h"
#include "nsvq/runs/choice.h"

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

/// The run that the command line asks for, with the recipe's name. A run's folder given as the
/// recipe is the one to train in.
RunRequest run_request(const TrainArguments& arguments);

/// Rank 0's choice of a run, on every rank; rank 0 alone has the lock. A line in the log says where
/// a run is resumed without --resume.
RunChoice agree_on_run(const RunMatch& match, const RunRequest& request, Group& group);

/// The run that one to start goes on from as a fork; empty: it is no fork.
std::filesystem::path forked_run(const TrainArguments& arguments, Start start);

/// The command that resumes a run: the program as it was invoked, with the settings stored in the
/// run's folder instead of the original recipe and overrides. `command` is "train".
std::string resume_command(const std::string& command, const std::filesystem::path& run,
                           const DataConfig& data);

/// The last line of a training that has finished: how the run went (nsvq/runs/verdict.h). Empty
/// where its log does not say.
std::string verdict_line(const std::filesystem::path& run);

/// A line of the log on how a run that failed went, if its own log says so.
void log_verdict_of_failed(const std::filesystem::path& run);
/// What `train` returns; with that line in the log if it fails.
template <typename Train>
auto train_with_verdict(const std::filesystem::path& run, const Train& train) {
  try {
    return train();
  } catch (const RunError&) {
    log_verdict_of_failed(run);
    throw;
  }
}

/// Joins the processes that train together (rank_process.h), with a recipe's settings.
std::shared_ptr<Group> join_ranks_to_train(const Launch& launch, const DistConfig& dist,
                                           const std::string& device);

}  // namespace nsvq
