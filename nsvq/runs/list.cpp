#include "nsvq/runs/list.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/folder_checksums.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/files/lock.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/choice.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// The folder's name without the number of a repeated run. All that `nsvq reproduce` makes are
/// called "run", in a folder that has the name.
std::string name_of_run(const fs::path& folder) {
  auto whole = fs::absolute(folder).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const auto around = whole.parent_path();
  std::error_code ignored;
  if (whole.filename() == "run" && fs::exists(around / kReproducedRecipe, ignored)) {
    return around.filename().string();
  }
  const auto name = whole.filename().string();
  const auto dash = name.rfind('-');
  if (dash == std::string::npos || dash == 0) return name;
  return parse_decimal(name.substr(dash + 1)) ? name.substr(0, dash) : name;
}

uint64_t bytes_below(const fs::path& folder) {
  uint64_t bytes = 0;
  std::error_code ignored;
  auto entry = fs::recursive_directory_iterator(folder, ignored);
  for (; entry != fs::recursive_directory_iterator(); entry.increment(ignored)) {
    std::error_code error;
    if (!fs::is_regular_file(entry->symlink_status(error))) continue;
    const auto size = entry->file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

/// The step of the last line of metrics.jsonl, of which only the end is read; 0 if there is none.
/// Throws UserError for a line that is no record.
int64_t last_logged_step(const fs::path& run) {
  constexpr uint64_t most = 1 << 16;
  const auto path = run / kMetricsFile;
  if (!fs::exists(path)) return 0;
  const InputFile file(path);
  std::string text(std::min(most, file.size()), '\0');
  file.read(file.size() - text.size(), std::as_writable_bytes(std::span(text)));
  text.erase(text.find_last_of('\n') + 1);  // a line that is being written
  if (text.empty()) return 0;
  text.pop_back();
  try {
    const auto line = parse_json(text.substr(text.find_last_of('\n') + 1));
    return whole_number(line.at("step"), "step");
  } catch (const std::exception&) {
    throw UserError("{}: its last line is no record of a run", path.string());
  }
}

int64_t total_steps_of(const TrainConfig& train, const RunState& state) {
  if (has_spent(train, state)) return state.step;
  if (train.steps > 0) return train.steps;
  const int64_t a_step = state.step_samples > 0 ? state.step_samples : train.batch_size;
  const int64_t per_epoch = state.samples / std::max<int64_t>(a_step, 1);
  int64_t left = 0, total = 0;  // settings may hold any number: both may overflow
  if (__builtin_mul_overflow(per_epoch, train.epochs - state.epoch, &left) ||
      __builtin_add_overflow(state.step - state.batch, left, &total)) {
    return 0;
  }
  return std::max<int64_t>(total, 0);
}

/// The budget of a run whose other settings are not read.
TrainConfig stored_budget(const fs::path& run) {
  RunConfig stored;
  const auto rows = selected(train_options(stored.train),
                             {{"train.steps", ""}, {"train.epochs", ""}, {"train.batch_size", ""}});
  read_stored_settings(rows, run);
  return stored.train;
}

/// The budget of a run. All settings of a tokenizer are read with it, so that a list says what is
/// wrong with them; this library does not know the tables of the other kinds.
TrainConfig budget_of_run(const fs::path& run) {
  const bool tokenizer = kind_of_run(run) == RunKind::tokenizer;
  return tokenizer ? load_run_config(run).train : stored_budget(run);
}

/// What is wrong with a checkpoint, as far as the lengths of its files tell: not every weight of
/// every run is read for a list.
std::string damage_of(const fs::path& checkpoint, std::optional<RunState>& state) {
  try {
    state = load_run_state(checkpoint);
    return folder_cut_short(checkpoint).value_or("");
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// State of the newest intact checkpoint, else of the newest readable one; nullopt if there are no
/// checkpoints. `problem` says what is wrong with the newest damaged one. Throws UserError if no
/// state can be read.
std::optional<RunState> newest_state(const fs::path& run, std::string& problem) {
  const auto checkpoints = list_checkpoints(run);
  std::optional<RunState> state_of_damaged;
  for (auto at = checkpoints.rbegin(); at != checkpoints.rend(); ++at) {
    std::optional<RunState> state;
    const auto damage = damage_of(*at, state);
    if (damage.empty() && !problem.empty()) {
      problem += fmt::format("; step and figures are those of {}", at->filename().string());
    }
    if (damage.empty()) return state;
    if (problem.empty()) problem = fmt::format("{}: {}", at->filename().string(), damage);
    if (!state_of_damaged) state_of_damaged = state;
  }
  if (!checkpoints.empty() && !state_of_damaged) throw UserError("{}", problem);
  return state_of_damaged;
}

}  // namespace

RunSummary describe_run(const fs::path& run) {
  RunSummary summary;
  summary.path = run;
  summary.name = name_of_run(run);
  const bool running = FolderLock::held(run);
  summary.state = running ? "running" : "stopped";
  try {
    const auto train = budget_of_run(run);
    summary.total_steps = train.steps;  // 0: epochs, whose steps the first checkpoint tells
    if (const auto state = newest_state(run, summary.problem)) {
      if (has_spent(train, *state) && !running) summary.state = "finished";
      summary.step = state->step;
      summary.epoch = state->epoch;
      summary.evaluation = state->evaluation;
      summary.total_steps = total_steps_of(train, *state);
    }
  } catch (const std::exception& error) {  // whatever it is, the other runs are listed
    summary.problem = error.what();
    if (!running) summary.state = "damaged";
  }
  try {
    const auto logged = last_logged_step(run);
    if (running) summary.step = std::max(summary.step, logged);
  } catch (const std::exception& error) {
    if (summary.problem.empty()) summary.problem = error.what();
  }
  return summary;
}

std::vector<fs::path> find_runs(const fs::path& folder) {
  if (holds_run(folder)) return {folder};
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(
      folder, fs::directory_options::skip_permission_denied, error);
  if (error) throw UserError("cannot list {}: {}", folder.string(), error.message());
  std::vector<fs::path> runs;
  for (; entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    const bool unfinished = is_unfinished(entry->path());  // a killed command left it
    if (unfinished) entry.disable_recursion_pending();
    if (unfinished || !entry->is_directory(ignored) || !holds_run(entry->path())) continue;
    entry.disable_recursion_pending();
    runs.push_back(entry->path());
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

std::vector<RunSummary> list_runs(const fs::path& folder) {
  std::vector<RunSummary> runs;
  for (const auto& run : find_runs(folder)) {
    runs.push_back(describe_run(run));
    runs.back().bytes = bytes_below(run);
    runs.back().verdict = verdict_of_run(run, runs.back().state == "finished");
  }
  return runs;
}

}  // namespace nsvq
