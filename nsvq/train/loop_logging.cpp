// What the loop tells people: the start, lines of steps and epochs, evaluations, pictures.

#include <algorithm>
#include <cmath>
#include <sstream>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/io/files/no_room.h"
#include "nsvq/train/loop.h"

namespace nsvq {

void Loop::report_start() const {
  if (!run_) return;
  std::istringstream settings(options_.settings);
  for (std::string line; std::getline(settings, line);) log("{}", line);
  log("");
  log("device       {}, {}", describe(device_), name_of(options_.precision));
  for (const auto& line : task_.describe(*this)) log("{}", line);
  if (group_->size() > 1 || options_.train.accumulate > 1) {
    log("batch        {} {} a step: {} process{}, {} pass{} each", state_.step_samples,
        task_.sample_name(), group_->size(), group_->size() == 1 ? "" : "es",
        options_.train.accumulate, options_.train.accumulate == 1 ? "" : "es");
  }
  log("steps        {} an epoch, {} in all", steps_per_epoch(), total_steps());
  if (device_.is_cuda()) {
    const auto reason = graphs_disabled_reason();
    log("CUDA graph   {}", reason.empty() ? "yes (train.graphs)" : "no: " + reason);
  }
  log("run          {}", run_->path().string());
  if (state_.finished && !state_.evaluation_pending) {
    const auto& train = options_.train;
    log("finished     at step {}; {} is the budget: raise it to go on; other settings change "
        "nothing",
        state_.step,
        train.steps > 0 ? fmt::format("train.steps={}", train.steps)
                        : fmt::format("train.epochs={}", train.epochs));
  } else if (state_.step > 0) {
    log("continues    after step {}, in epoch {}, phase {}", state_.step, state_.epoch + 1,
        task_.phase());
    const bool between = state_.batch == 0 && state_.used == 0;
    if (between && state_.step < state_.epoch * steps_per_epoch()) {
      log("             an earlier budget (train.steps) ended within an epoch, which counts as a "
          "whole one: what follows is not what a run of {} steps from the start does (--new starts "
          "one)",
          total_steps());
    }
  }
}

/// What cannot be written (a full disk) ends the run or, if the recipe says so, only the writing.
void Loop::write(const std::function<void()>& writing) {
  if (!run_) return;  // another rank than 0
  try {
    writing();
  } catch (const RunMoved&) {
    throw;
  } catch (const RunError& error) {
    disk_full_ = dynamic_cast<const NoRoom*>(&error) != nullptr;
    if (options_.checkpoint.on_error == "stop") {
      throw RunError(
          "{}; {}: {}", error.what(),
          has_checkpoint() ? "earlier checkpoints are intact" : "no checkpoint exists yet",
          disk_full_ ? "make room and resume" : "resume when it can be written");
    }
    log("{}; training goes on without (checkpoint.on_error: continue)", error.what());
  }
}

void Loop::record(const std::string& kind, const std::map<std::string, double>& values) {
  write([&] { run_->record(kind, place_in_log(), task_.phase(), values); });
}

void Loop::record_phase(const std::string& reason) {
  auto first = state_;
  ++first.epoch;  // the epoch that the phase begins in
  write([&] { run_->record_phase(first, task_.phase(), reason); });
  steps_.step_meter().reset();  // the next line of a step is of this phase alone
}

/// Epochs count from one: the one under way or, between epochs, the last.
RunState Loop::place_in_log() const {
  auto state = state_;
  if (state.batch > 0) ++state.epoch;
  return state;
}

void Loop::record_alarm(const std::string& sign, const std::string& reason) {
  write([&] { run_->record_alarm(state_, task_.phase(), sign, reason); });
}

std::map<std::string, double> Loop::epoch_means() { return steps_.epoch_meter().means(); }

void Loop::log_step() {
  check_skipped_steps();
  auto& meter = steps_.step_meter();
  auto values = meter.means();
  if (values.empty()) return;  // every step since the last line was skipped
  note_ = fmt::format("epoch {} {} loss {:.4f}", state_.epoch + 1, task_.phase(),
                      values.contains("loss") ? values.at("loss") : NAN);
  values[task_.sample_name() + "_per_second"] = meter.samples_per_second() * group_->size();
  values["peak_memory_gib"] = peak_memory(device_);
  if (const auto reserved = peak_reserved_memory(device_)) values["peak_reserved_gib"] = *reserved;
  add_traffic(values);
  record("step", values);
  meter.reset();
}

/// Of a step, on average since the last line.
void Loop::add_traffic(std::map<std::string, double>& values) {
  const auto now = group_->traffic();
  if (now.collectives == traffic_.collectives) return;  // one process, or replayed CUDA graphs
  const auto steps = static_cast<double>(std::max<int64_t>(state_.step - traffic_step_, 1));
  const auto difference = [&](auto Group::Traffic::*what) {
    return static_cast<double>(now.*what - traffic_.*what) / steps;
  };
  values["collectives"] = difference(&Group::Traffic::collectives);
  values["collective_mib"] = difference(&Group::Traffic::bytes) / (1 << 20);
  values["collective_wait_ms"] = difference(&Group::Traffic::waited) * 1e3;
  traffic_ = now;
  traffic_step_ = state_.step;
}

void Loop::log_epoch(std::map<std::string, double> values, const std::string& text) {
  const auto means = epoch_means();
  values["loss"] = means.contains("loss") ? means.at("loss") : NAN;
  values["skipped"] = static_cast<double>(state_.skipped);
  values["seconds"] = steps_.epoch_meter().seconds();
  if (!epoch_is_whole_) values["cut"] = 1;
  record("epoch", values);
  log("epoch {:>3} {:7} loss {:.4f}{}", state_.epoch, task_.phase(), values["loss"], text);
}

void Loop::run_evaluation() {
  state_.evaluation = task_.evaluate(state_);
  if (state_.evaluation.empty()) return;
  auto figures = state_.evaluation;
  note_best();
  figures.erase(task_.sample_name());  // their number is no figure of the model
  record("eval", figures);
  log("          evaluation: {}", task_.describe_evaluation(state_.evaluation));
}

/// Of equal evaluations the first is the best.
void Loop::note_best() {
  const auto& metric = options_.checkpoint.keep_best;
  const auto found = state_.evaluation.find(metric);
  if (found == state_.evaluation.end() || !std::isfinite(found->second)) return;
  auto& best = state_.best;
  const bool higher = task_.higher_is_better(metric);
  const bool better = higher ? found->second > best.value : found->second < best.value;
  if (best.metric != metric || better) best = {metric, found->second, state_.step};
}

/// The step whose checkpoint is kept for its evaluation, or -1.
int64_t Loop::best_step() const {
  const auto& metric = options_.checkpoint.keep_best;
  return !metric.empty() && state_.best.metric == metric ? state_.best.step : -1;
}

void Loop::save_samples() {
  write([&] {
    if (const auto picture = task_.sample_picture()) run_->save_samples(state_, *picture);
  });
}

}  // namespace nsvq
