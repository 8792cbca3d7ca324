#pragma once

#include <filesystem>
#include <string>

#include "nsvq/core/config.h"
#include "nsvq/train/trainer.h"

namespace nsvq {

/// What the command line says about where to train.
struct RunRequest {
  std::string name;    ///< of the recipe: runs/NAME, runs/NAME-2 and so on are its runs
  std::string folder;  ///< a folder in place of these, or empty
  bool resume = false;
  bool fresh = false;
};

struct RunChoice {
  std::filesystem::path folder;
  Start start;
};

/// The folder to train in, and whether to go on there. A run of the same settings that is not
/// finished is continued, unless `fresh`; with `resume`, nothing else will do. A finished one in a
/// folder that was named is taken too, so that a command that is repeated until it succeeds does.
/// Throws UserError.
RunChoice choose_run(const Config& config, const RunRequest& request);

}  // namespace nsvq
