#include "nsvq/runs/choice.h"

#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/folder.h"
#include "nsvq/runs/fork.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// The runs of a name, oldest first, with their numbers: runs/NAME is 1, then runs/NAME-2 and so
/// on.
std::map<int64_t, fs::path> runs_named(const std::string& name) {
  std::map<int64_t, fs::path> runs;
  std::error_code ignored;
  for (const auto& entry : entries_of(kRunsFolder, ignored)) {
    const auto found = entry.path().filename().string();
    if (found == name) runs[1] = entry.path();
    if (!found.starts_with(name + "-")) continue;
    const auto number = parse_decimal(std::string_view(found).substr(name.size() + 1));
    if (number && *number > 1 && found == fmt::format("{}-{}", name, *number)) {
      runs[*number] = entry.path();
    }
  }
  return runs;
}

/// Whether the run in a folder has spent its budget. With `extend`, a larger one of `train` is a
/// wish to go on with it; without `extend` a finished run stays, since its result may be one of
/// several to compare.
bool finished(const fs::path& folder, const TrainConfig& train, bool extend) {
  const auto checkpoints = list_checkpoints(folder);
  if (checkpoints.empty()) return false;
  try {
    const auto state = load_run_state(checkpoints.back());
    return extend ? has_spent(train, state) : state.finished;
  } catch (const UserError&) {
    return false;  // damaged: training continues from the checkpoint before it
  }
}

/// The reason why the run in a folder cannot be continued; empty if it can. A run without a
/// checkpoint can start over with any settings.
std::string obstacle(const fs::path& folder, const RunMatch& match) {
  if (list_checkpoints(folder).empty()) return "";
  const auto differences = match.differences(folder);
  if (differences.empty()) return "";
  auto advice = fmt::format("`{} {} --fork NEW ...` goes on with the settings here in a folder NEW",
                            run_kind(match.kind).command, shown_shell_word(folder.string()));
  if (match.kind == RunKind::tokenizer) {
    advice += fmt::format(", train.init_from={} starts a new run with its networks",
                          shown_shell_word(list_checkpoints(folder).back().string()));
  }
  return fmt::format("holds a run of another configuration: {}; {}", fmt::join(differences, ", "),
                     advice);
}

/// Whether a command with these settings started the run in a folder. Its files may move, but a
/// command that names others means another run, unless it names this one's folder.
bool was_started_with(const fs::path& folder, const RunMatch& match) {
  try {
    if (!holds_run(folder)) return false;
    return match.started(folder);
  } catch (const UserError& error) {
    log("skipped: {}", error.what());
    return false;
  }
}

RunChoice choose_in(const fs::path& folder, const RunMatch& match, const RunRequest& request) {
  if (!holds_run(folder)) {
    if (request.resume) throw UserError("{}: holds no run to resume", folder.string());
    return {folder, Start::fresh, std::nullopt, nullptr};
  }
  if (request.fresh) {
    throw UserError("{}: already holds a run; choose another folder with --run or remove it",
                    folder.string());
  }
  auto lock = lock_run(folder);
  const auto why_not = obstacle(folder, match);
  if (!why_not.empty()) throw UserError("{}: {}", folder.string(), why_not);
  return {folder, Start::resume, std::move(lock), nullptr};
}

RunChoice choose_fork(const RunRequest& request) {
  if (request.resume || request.fresh || !request.folder.empty()) {
    throw UserError("--fork excludes --run, --resume and --new");
  }
  if (!fs::is_directory(request.source) || !holds_run(request.source)) {
    throw UserError("--fork goes on from a run: name its folder in place of {}", request.source);
  }
  require_free_folder(request.source, request.fork);
  return {request.fork, Start::fork, std::nullopt, nullptr};
}

/// The first free name from `number` on. Another process may start at the same moment.
RunChoice reserve(const std::string& name, int64_t number) {
  std::error_code error;
  fs::create_directories(kRunsFolder, error);
  for (;; ++number) {
    const auto folder =
        fs::path(kRunsFolder) / (number == 1 ? name : fmt::format("{}-{}", name, number));
    if (fs::create_directory(folder, error)) {
      return {folder, Start::fresh, std::nullopt, std::make_unique<ReservedFolder>(folder)};
    }
    // Where nothing can be made, the run's folder says why.
    if (error) return {folder, Start::fresh, std::nullopt, nullptr};
  }
}

/// The newest run that this command started and that is not finished (see `finished`). One that
/// another process trains is left to it. `newest_finished` becomes the newest one that is, if there
/// is any.
std::optional<RunChoice> unfinished(const std::map<int64_t, fs::path>& runs, const RunMatch& match,
                                    bool extend, fs::path& newest_finished) {
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    const auto& folder = run->second;
    if (!was_started_with(folder, match)) continue;
    if (!finished(folder, match.train, extend)) {
      auto lock = FolderLock::try_take(folder);
      if (!lock) {
        log("{}: another process is training this run", folder.string());
        continue;
      }
      if (!finished(folder, match.train, extend)) {  // it may have ended until now
        return RunChoice{folder, Start::resume, std::move(lock), nullptr};
      }
    }
    if (newest_finished.empty()) newest_finished = folder;
  }
  return std::nullopt;
}

}  // namespace

bool has_spent(const TrainConfig& train, const RunState& state) {
  return state.finished &&
         (train.steps > 0 ? train.steps <= state.step : train.epochs <= state.epoch);
}

RunChoice choose_run(const RunMatch& match, const RunRequest& request) {
  if (!request.fork.empty()) return choose_fork(request);
  if (request.resume && request.fresh) throw UserError("--resume and --new exclude each other");
  if (!request.folder.empty()) return choose_in(request.folder, match, request);

  const auto runs = runs_named(request.name);
  fs::path own_finished;
  if (!request.fresh) {
    if (auto choice = unfinished(runs, match, request.resume, own_finished))
      return std::move(*choice);
  }
  const fs::path first = fs::path(kRunsFolder) / request.name;
  if (request.resume)
    return choose_in(runs.empty() ? first : runs.rbegin()->second, match, request);
  auto choice = reserve(request.name, runs.empty() ? 1 : runs.rbegin()->first + 1);
  if (!own_finished.empty()) {
    log("{0}: the run with these settings is finished (nsvq info {0} shows it; with --resume and "
        "a larger train.epochs or train.steps it goes on); a new one starts in {1}",
        own_finished.string(), choice.folder.string());
  }
  return choice;
}

ReservedFolder::~ReservedFolder() {
  std::error_code ignored;
  fs::remove(path_, ignored);  // fails for a folder that holds anything
}

}  // namespace nsvq
