#include "nsvq/runs/checkpoint.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <tuple>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/folder_checksums.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/io/formats/tensorboard.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

using nlohmann::json;

namespace {

/// The format of the training state. Models have a format of their own
/// (nsvq/tokenizer/model_file.h), which stays readable; training goes on in the format that began
/// it.
constexpr int kTrainingFormat = 3;
/// The name of RunState::evaluation_pending in files.
constexpr auto kEvaluationPending = "epoch_end_due";

constexpr int64_t kMostEpochsDone = 2'000'000'000;

RunState run_state_from(const json& all) {
  const auto number = [&all](const char* name) {
    return whole_number(all.at(name), name, 0, kMostCounted);
  };
  RunState state;
  state.step = number("step");
  state.epoch = whole_number(all.at("epoch"), "epoch", 0, kMostEpochsDone);
  state.batch = number("batch");
  if (all.contains("used")) state.used = number("used");
  if (all.contains("step_samples")) state.step_samples = number("step_samples");
  state.skipped = number("skipped");
  state.samples = number("samples");
  state.finished = all.at("finished");
  state.evaluation_pending = all.value(kEvaluationPending, false);
  for (const auto& [name, value] : all.at("evaluation").items()) {
    state.evaluation[name] = value.is_null() ? NAN : value.get<double>();  // JSON has no NaN
  }
  if (const auto best = all.find("best"); best != all.end()) {
    state.best = {best->at("metric"), best->at("value"),
                  whole_number(best->at("step"), "best.step", 0, kMostCounted)};
  }
  state.task = all.at("task").dump();
  return state;
}

/// The name is joined to the run's folder, and the file is cut and written to: nothing but an event
/// file may be named.
LogPosition log_position_from(const json& all) {
  const auto length = [&all](const char* key) {
    return static_cast<uint64_t>(whole_number(all.at(key), key));
  };
  LogPosition position{length("metrics_length"), all.at("events"), length("events_length")};
  const auto& name = position.events;
  if (name.empty() || is_event_file(name)) return position;
  throw UserError("'events' is {}, not the name of an event file ({}...)", quote(name),
                  kEventFilePrefix);
}

}  // namespace

std::string state_to_json(const RunState& state, const LogPosition& logs) {
  json all = {{"format", kTrainingFormat},
              {"step", state.step},
              {"epoch", state.epoch},
              {"batch", state.batch},
              {"used", state.used},
              {"step_samples", state.step_samples},
              {"skipped", state.skipped},
              {"samples", state.samples},
              {"finished", state.finished},
              {kEvaluationPending, state.evaluation_pending},
              {"evaluation", state.evaluation},
              {"task", json::parse(state.task)},
              {"metrics_length", logs.metrics},
              {"events", logs.events},
              {"events_length", logs.events_length}};
  if (!state.best.metric.empty()) {
    all["best"] = {
        {"metric", state.best.metric}, {"value", state.best.value}, {"step", state.best.step}};
  }
  return all.dump(1);
}

std::pair<RunState, LogPosition> state_from_json(const std::string& text,
                                                 const std::string& source) {
  try {
    const auto all = parse_json(text);
    if (all.at("format") != kTrainingFormat) {
      throw UserError(
          "training state of format {}, this nsvq continues format {}; the model can be used "
          "(nsvq eval, tokenize, export), but training goes on only with the nsvq that began it",
          shown_json(all.at("format")), kTrainingFormat);
    }
    return {run_state_from(all), log_position_from(all)};
  } catch (const json::exception& error) {
    throw UserError("{}: not a checkpoint's state ({})", source, plain_words(error));
  } catch (const UserError& error) {
    throw UserError("{}: {}", source, error.what());
  }
}

namespace fs = std::filesystem;

namespace {

/// Throws UserError for a file that cannot be opened: it may well be whole.
void require_readable(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : entries_of(folder, error)) {
    const InputFile opened(entry.path());
  }
  if (error) throw UserError("cannot read {}: {}", folder.string(), error.message());
}

}  // namespace

void save_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
  AtomicFolder out(folder);
  write_safetensors(out.path() / kModelFile, checkpoint.model);
  write_safetensors(out.path() / kTrainingFile, {checkpoint.training, {}});
  write_text(out.path() / kStateFile, state_to_json(checkpoint.state, checkpoint.logs));
  write_checksums(out.path());
  out.commit();
}

Checkpoint load_checkpoint(const fs::path& folder) {
  Checkpoint checkpoint;
  const auto source = (folder / kStateFile).string();
  std::tie(checkpoint.state, checkpoint.logs) = state_from_json(read_text(source), source);
  checkpoint.model = read_safetensors(folder / kModelFile);
  checkpoint.training = read_safetensors(folder / kTrainingFile).tensors;
  return checkpoint;
}

std::optional<fs::path> newest_checkpoint(const fs::path& run) {
  const auto folders = list_checkpoints(run);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    require_readable(*folder);
    const auto damage = folder_damage(*folder);
    if (!damage) return *folder;
    log("{}: damaged ({}), trying the checkpoint before it", folder->string(), *damage);
  }
  if (folders.empty()) return std::nullopt;
  throw UserError(
      "{}: all of its checkpoints are damaged; nothing was changed (to train anew, choose "
      "another folder with --run)",
      run.string());
}

RunState load_run_state(const fs::path& folder) {
  const auto path = (folder / kStateFile).string();
  return state_from_json(read_text(path), path).first;
}

}  // namespace nsvq
