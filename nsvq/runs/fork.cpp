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

/// Settings, and sections of them, that decide which tensors there are and what their numbers mean.
constexpr std::array<std::string_view, 11> kOfTensors = {
    "model.", "quantizer.type", "quantizer.codes", "quantizer.fsq.levels", "quantizer.lfq.bits",
    "quantizer.features.dim", "quantizer.bridge.", "quantizer.affine.variant", "adversarial.width",
    "adversarial.layers",
    // The schedule's counts are in its units.
    "schedule.epoch_steps"};

bool is_of_tensors(const std::string& key) {
  return std::ranges::any_of(kOfTensors, [&](std::string_view one) {
    return one.ends_with('.') ? key.starts_with(one) : key == one;
  });
}

/// The settings of a checkpoint's model.
TokenizerConfig settings_of(const Checkpoint& checkpoint, const std::string& from) {
  const auto text = checkpoint.model.metadata.find(kModelConfigKey);
  if (text != checkpoint.model.metadata.end()) return parse_config(text->second, from);
  throw UserError("{}: carries no configuration (metadata '{}')", from, kModelConfigKey);
}

/// Throws UserError where the phases up to the present one would be others.
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
                        const TokenizerConfig& config) {
  std::map<std::string, std::string> kept;
  for (const char* key : {"nsvq.step", "nsvq.epoch"}) {
    const auto found = checkpoint.model.metadata.find(key);
    if (found != checkpoint.model.metadata.end()) kept.insert(*found);
  }
  checkpoint.model = model_contents(checkpoint.model.tensors, config, kept);
  save_checkpoint(checkpoints / checkpoint_name(checkpoint.state.step), checkpoint);
}

/// The checkpoint of the best evaluation, where it is another than that of `state`.
void copy_best(const fs::path& from, const fs::path& to, const RunState& state,
               const TokenizerConfig& config) {
  if (state.best.metric.empty()) return;
  const auto name = checkpoint_name(state.best.step);
  std::error_code ignored;
  if (state.best.step != state.step) {
    if (!fs::is_directory(from / name, ignored)) return;
    auto best = load_checkpoint(from / name);
    convert_to_present_format(best.model, from / name / kModelFile);
    save_with_settings(to, std::move(best), config);
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

std::vector<std::string> changed_settings(TokenizerConfig old, TokenizerConfig now) {
  std::vector<std::string> changes;
  const auto before = option_table(old).rows, after = option_table(now).rows;
  for (size_t i = 0; i < after.size(); ++i) {
    const auto a = before[i].value(), b = after[i].value();
    if (a != b) changes.push_back(fmt::format("{} {} -> {}", after[i].key, a, b));
  }
  return changes;
}

void require_forkable(const TokenizerConfig& config, const Checkpoint& checkpoint,
                      const std::string& from) {
  const auto old = settings_of(checkpoint, from);
  auto refused = changed_settings(old, config);
  std::erase_if(refused, [](const std::string& change) {
    return !is_of_tensors(change.substr(0, change.find(' ')));
  });
  if (!refused.empty()) {
    throw UserError("{}: weights and state do not fit with {}; a fork keeps these settings", from,
                    fmt::join(refused, ", "));
  }
  if (old.adversarial.weight == 0 && config.adversarial.weight > 0) {
    throw UserError(
        "{}: has no discriminator to go on with (adversarial.weight 0 -> {}); start a new run by "
        "train.init_from={}",
        from, config.adversarial.weight, from);
  }
  require_phases(config.schedule, old.schedule, checkpoint.state, from);
}

void make_fork(const fs::path& run, const fs::path& folder, const Checkpoint& checkpoint,
               const TokenizerConfig& config) {
  refuse_links(run);
  const auto& [state, logs, model, training] = checkpoint;
  AtomicFolder made(folder);
  const auto checkpoints = made.path() / kCheckpointsFolder;
  make_run_folders(made.path());
  write_text(made.path() / kSettingsFile, to_yaml(with_absolute_paths(config)));
  copy_beginning(run / kMetricsFile, made.path() / kMetricsFile, logs.metrics);
  if (!logs.events.empty()) {
    copy_beginning(run / logs.events, made.path() / logs.events, logs.events_length);
  }
  copy_samples(run / kSamplesFolder, made.path() / kSamplesFolder, state.epoch);
  copy_best(run / kCheckpointsFolder, checkpoints, state, config);
  save_with_settings(checkpoints, checkpoint, config);
  made.commit_if_free();
}

}  // namespace nsvq
