#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "nsvq/core/config.h"
#include "nsvq/train/trainer.h"

namespace nsvq {

/// The command line's choice of where to train.
struct RunRequest {
  std::string name;    ///< name of the recipe, whose runs are runs/NAME, runs/NAME-2 and so on
  std::string folder;  ///< --run, or empty
  bool resume = false;
  bool fresh = false;
};

/// A folder made for a new run, so that no other process takes its name. Removed again if it stays
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

struct RunChoice {
  std::filesystem::path folder;
  Start start;
  std::optional<FolderLock> lock;            ///< of the run to resume, for the trainer
  std::unique_ptr<ReservedFolder> reserved;  ///< where the name of a new run was chosen
};

/// Chooses the folder to train in and whether to resume there. Of all runs of the name, the newest
/// unfinished one of equal settings and data that no other process trains is resumed, unless
/// `fresh`; with `resume` it is an error if there is none. A finished run in an explicit `folder`
/// is chosen too (there is nothing left to train), so that a script that repeats the command until
/// it succeeds ends. Throws UserError.
RunChoice choose_run(const Config& config, const RunRequest& request);

}  // namespace nsvq
