#include "nsvq/runs/fork.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/runs/folder.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Settings that a run's state depends on beside those of its tokenizer.
constexpr std::array<std::string_view, 4> kOfState = {
    "adversarial.network", "adversarial.width", "adversarial.layers",
    "schedule.epoch_steps"};  // the schedule's counts are in its units

bool is_of_state(const std::string& key) {
  return decides_tensors(key) || std::ranges::find(kOfState, key) != kOfState.end();
}

/// The settings of a checkpoint's model.
TokenizerConfig settings_of(const Checkpoint& checkpoint, const std::string& from) {
  const auto text = checkpoint.model.metadata.find(kModelConfigKey);
  if (text != checkpoint.model.metadata.end()) return parse_config(text->second, from);
  throw UserError("{}: carries no configuration (metadata '{}')", from, kModelConfigKey);
}

/// Throws UserError if the phases so far would change.
void require_phases(const ScheduleConfig& now, const ScheduleConfig& old, const RunState& state,
                    const std::string& from) {
  const auto task = parse_json(state.task);
  const auto phase =
      whole_number(task.value("phase", Json(0)), "task.phase", 0, std::ssize(old.phases) - 1);
  const auto end = old.phases.begin() + phase + 1;
  const bool equal =
      std::ssize(now.phases) > phase && std::equal(old.phases.begin(), end, now.phases.begin());
  if (equal) return;
  throw UserError("{}: is in phase {}, so schedule.phases must begin with [{}]", from,
                  old.phases.at(phase), fmt::join(old.phases.begin(), end, ", "));
}

/// Copies the first `length` bytes of a regular file, or as many as there are; links are left out.
void copy_beginning(const fs::path& from, const fs::path& to, uint64_t length = UINT64_MAX) {
  std::error_code ignored;
  if (!fs::is_regular_file(fs::symlink_status(from, ignored))) return;
  const InputFile in(from);
  AtomicFile out(to);
  constexpr uint64_t at_once = 1 << 20;
  std::vector<std::byte> bytes;
  for (uint64_t at = 0, end = std::min(length, in.size()); at < end; at += bytes.size()) {
    bytes.resize(std::min(at_once, end - at));
    in.read(at, bytes);
    out.write(bytes);
  }
  out.commit();
}

void copy_samples(const fs::path& from, const fs::path& to, int64_t last_epoch) {
  std::error_code ignored;
  for (const auto& entry : entries_of(from, ignored)) {
    const auto epoch = epoch_of_sample(entry.path());
    if (epoch && *epoch <= last_epoch) copy_beginning(entry.path(), to / entry.path().filename());
  }
}

/// Writes a checkpoint with other settings in its model.
void save_with_settings(const fs::path& checkpoints, Checkpoint checkpoint,
                        const ForkContents& contents) {
  std::map<std::string, std::string> kept;
  for (const char* key : {"nsvq.step", "nsvq.epoch"}) {
    const auto found = checkpoint.model.metadata.find(key);
    if (found != checkpoint.model.metadata.end()) kept.insert(*found);
  }
  checkpoint.model = contents.with_settings(checkpoint.model, kept);
  save_checkpoint(checkpoints / checkpoint_name(checkpoint.state.step), checkpoint);
}

/// The checkpoint of the best evaluation, if it is not that of `state`.
void copy_best(const fs::path& from, const fs::path& to, const RunState& state,
               const ForkContents& contents) {
  if (state.best.metric.empty()) return;
  const auto name = checkpoint_name(state.best.step);
  std::error_code ignored;
  if (state.best.step != state.step) {
    if (!fs::is_directory(from / name, ignored)) return;
    auto best = load_checkpoint(from / name);
    contents.convert(best.model, from / name / kModelFile);
    save_with_settings(to, std::move(best), contents);
  }
  write_text(to / kBestFile, name + "\n");
}

}  // namespace

void require_free_folder(const fs::path& run, const fs::path& folder) {
  std::error_code ignored;
  const auto inside =
      fs::weakly_canonical(folder, ignored).lexically_relative(fs::weakly_canonical(run, ignored));
  if (!inside.empty() && *inside.begin() != "..") {
    throw UserError("--fork {}: lies in the run {}; choose a folder outside of it", folder.string(),
                    run.string());
  }
  if (holds_run(folder)) {
    throw UserError(
        "--fork {0}: already holds a run; choose another folder, or go on with that "
        "run by `nsvq train {0} --resume`",
        folder.string());
  }
  if (!path_exists(folder)) return;
  if (!fs::is_directory(folder, ignored) || !fs::is_empty(folder, ignored)) {
    throw UserError("--fork {}: is not an empty folder; choose another", folder.string());
  }
}

std::vector<std::string> changed_settings(const OptionTable& old, const OptionTable& now) {
  std::vector<std::string> changes;
  for (size_t i = 0; i < now.rows.size(); ++i) {
    const auto a = old.rows[i].value(), b = now.rows[i].value();
    if (a != b) changes.push_back(fmt::format("{} {} -> {}", now.rows[i].key, a, b));
  }
  return changes;
}

std::string changed_key(const std::string& change) { return change.substr(0, change.find(' ')); }

void refuse_changes(std::vector<std::string> changes,
                    const std::function<bool(const std::string& key)>& keeps,
                    const std::string& from) {
  std::erase_if(changes, [&](const std::string& change) { return !keeps(changed_key(change)); });
  if (changes.empty()) return;
  throw UserError("{}: weights and state do not fit with {}; a fork keeps these settings", from,
                  fmt::join(changes, ", "));
}

void require_forkable(const TokenizerConfig& config, const Checkpoint& checkpoint,
                      const std::string& from) {
  const auto old = settings_of(checkpoint, from);
  refuse_changes(changed_settings(old, config), is_of_state, from);
  if (old.adversarial.weight == 0 && config.adversarial.weight > 0) {
    throw UserError(
        "{}: has no discriminator to go on with (adversarial.weight 0 -> {}); start a new run by "
        "train.init_from={}",
        from, config.adversarial.weight, from);
  }
  require_phases(config.schedule, old.schedule, checkpoint.state, from);
}

bool change_evaluations(const std::vector<std::string>& changes) {
  constexpr std::array<std::string_view, 5> of_images = {"data.val", "data.size", "data.max_pixels",
                                                         "data.split.tune", "data.split.test"};
  return std::ranges::any_of(changes, [&](const std::string& change) {
    return std::ranges::find(of_images, changed_key(change)) != of_images.end();
  });
}

ForkContents fork_contents(const TokenizerConfig& config) {
  return {to_yaml(with_absolute_paths(config)), convert_to_present_format,
          [config](const TensorFile& model, const auto& kept) {
            return model_contents(model.tensors, config, kept);
          }};
}

void make_fork(const fs::path& run, const fs::path& folder, const Checkpoint& checkpoint,
               const ForkContents& contents) {
  refuse_links(run);
  const auto& [state, logs, model, training] = checkpoint;
  AtomicFolder made(folder);
  const auto checkpoints = made.path() / kCheckpointsFolder;
  make_run_folders(made.path());
  write_text(made.path() / kSettingsFile, contents.settings);
  copy_beginning(run / kMetricsFile, made.path() / kMetricsFile, logs.metrics);
  if (!logs.events.empty()) {
    copy_beginning(run / logs.events, made.path() / logs.events, logs.events_length);
  }
  copy_samples(run / kSamplesFolder, made.path() / kSamplesFolder, state.epoch);
  copy_best(run / kCheckpointsFolder, checkpoints, state, contents);
  save_with_settings(checkpoints, checkpoint, contents);
  made.commit_if_free();
}

}  // namespace nsvq
