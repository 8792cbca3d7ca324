#include "nsvq/train/run_choice.h"

#include <fmt/ranges.h>

#include "nsvq/core/error.h"
#include "nsvq/io/lock.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/recipe.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

fs::path numbered(const std::string& name, int n) {
  return fs::path("runs") / (n == 1 ? name : fmt::format("{}-{}", name, n));
}

bool holds_run(const fs::path& folder) { return fs::exists(folder / "config.yaml"); }

/// Whether the run in a folder has reached its budget and `config` does not extend it.
bool finished(const fs::path& folder, const Config& config) {
  const auto checkpoints = list_checkpoints(folder);
  if (checkpoints.empty()) return false;
  const auto before = load_config((folder / "config.yaml").string()).train;
  if (before.epochs != config.train.epochs || before.steps != config.train.steps) return false;
  try {
    return load_run_state(checkpoints.back()).finished;
  } catch (const UserError&) {
    return false;  // damaged: training continues from the checkpoint before it
  }
}

/// The reason why the run in a folder cannot be continued; empty if it can. A run without a
/// checkpoint can start over with any settings.
std::string obstacle(const fs::path& folder, const Config& config) {
  if (list_checkpoints(folder).empty()) return "";
  const auto differences =
      essential_differences(config, load_config((folder / "config.yaml").string()));
  if (differences.empty()) return "";
  return fmt::format("holds a run of another configuration: {}; choose another folder with --run",
                     fmt::join(differences, ", "));
}

RunChoice choose_in(const fs::path& folder, const Config& config, const RunRequest& request) {
  if (!holds_run(folder)) {
    if (request.resume) throw UserError("{}: holds no run to resume", folder.string());
    return {folder, Start::fresh};
  }
  if (request.fresh) {
    throw UserError("{}: already holds a run; choose another folder with --run or remove it",
                    folder.string());
  }
  const auto why_not = obstacle(folder, config);
  if (!why_not.empty()) throw UserError("{}: {}", folder.string(), why_not);
  return {folder, Start::resume};
}

}  // namespace

RunChoice choose_run(const Config& config, const RunRequest& request) {
  if (request.resume && request.fresh) throw UserError("--resume and --new exclude each other");
  if (!request.folder.empty()) return choose_in(request.folder, config, request);

  int count = 0;
  while (fs::exists(numbered(request.name, count + 1))) ++count;
  const auto newest = numbered(request.name, std::max(count, 1));
  if (request.resume) return choose_in(newest, config, request);
  const bool free = count > 0 && holds_run(newest) && FolderLock::try_take(newest).has_value();
  if (free && !request.fresh && !finished(newest, config) && obstacle(newest, config).empty()) {
    return {newest, Start::resume};
  }
  return {numbered(request.name, count + 1), Start::fresh};
}

}  // namespace nsvq
