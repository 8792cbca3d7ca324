#include "nsvq/train/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "nsvq/core/device.h"
#include "nsvq/core/log.h"
#include "nsvq/report/report.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

namespace {

double value_of(const std::map<std::string, double>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? NAN : found->second;
}

}  // namespace

double Journal::epoch_mean(const std::string& name) const { return value_of(epoch_means(), name); }

void Journal::record(const std::string& kind, const std::map<std::string, double>& values,
                     const std::map<std::string, std::vector<double>>& lists) {
  run_.write(
      [&](RunDirectory& folder) { folder.record(kind, position(), phase(), values, lists); });
}

void Journal::record_phase(const std::string& reason) {
  auto first = run_.state;
  ++first.epoch;  // the epoch that the phase begins in
  run_.write([&](RunDirectory& folder) { folder.record_phase(first, phase(), reason); });
  steps_.step_meter().reset();  // the next line of steps is of this phase alone
}

void Journal::record_alarm(const std::string& sign, const std::string& reason) {
  run_.write([&](RunDirectory& folder) { folder.record_alarm(position(), phase(), sign, reason); });
}

void Journal::end_report() {
  run_.write([](RunDirectory& folder) {
    std::error_code ignored;
    if (std::filesystem::exists(folder.path() / kReportFile, ignored)) {
      write_report(folder.path(), "stopped");
    }
  });
}

/// Where the run is, with epochs counted from one: the one under way or, between epochs, the last.
RunState Journal::position() const {
  auto state = run_.state;
  if (state.batch > 0) ++state.epoch;
  return state;
}

void Journal::log_start(const std::vector<RunObserver*>& observers,
                        const std::string& graphs_disabled_reason) const {
  if (!run_.folder) return;
  const auto& options = run_.options;
  std::istringstream settings(options.settings);
  for (std::string line; std::getline(settings, line);) log("{}", line);
  log("");
  log("device       {}, {}", describe(run_.device), name_of(options.precision));
  for (const auto* observer : observers) {
    for (const auto& line : observer->describe(run_.total_steps())) log("{}", line);
  }
  const auto ranks = run_.group->size();
  if (ranks > 1 || options.train.accumulate > 1) {
    log("batch        {} {} a step: {} process{}, {} pass{} each", run_.state.step_samples,
        options.samples, ranks, ranks == 1 ? "" : "es", options.train.accumulate,
        options.train.accumulate == 1 ? "" : "es");
  }
  log("steps        {} an epoch, {} in all", run_.batches.batches_per_epoch(), run_.total_steps());
  if (run_.device.is_cuda()) {
    log("CUDA graph   {}",
        graphs_disabled_reason.empty() ? "yes (train.graphs)" : "no: " + graphs_disabled_reason);
  }
  log("run          {}", run_.folder->path().string());
  log_continuation();
}

void Journal::log_continuation() const {
  const auto& state = run_.state;
  if (state.finished && !state.evaluation_pending) {
    const auto& train = run_.options.train;
    log("finished     at step {}; {} is the budget: raise it to go on; other settings change "
        "nothing",
        state.step,
        train.steps > 0 ? fmt::format("train.steps={}", train.steps)
                        : fmt::format("train.epochs={}", train.epochs));
  } else if (state.step > 0) {
    log("continues    after step {}, in epoch {}, phase {}", state.step, state.epoch + 1, phase());
    const bool between = state.batch == 0 && state.used == 0;
    if (between && state.step < state.epoch * run_.batches.batches_per_epoch()) {
      log("             an earlier budget (train.steps) ended within an epoch, which counts as a "
          "whole one: what follows is not what a run of {} steps from the start does (--new starts "
          "one)",
          run_.total_steps());
    }
  }
}

void Journal::log_steps() {
  auto& meter = steps_.step_meter();
  auto values = meter.means();
  if (values.empty()) return;  // every step since the last line was skipped
  progress_note_ = fmt::format("epoch {} {} loss {:.4f}", run_.state.epoch + 1, phase(),
                               value_of(values, "loss"));
  values[run_.options.samples + "_per_second"] = meter.samples_per_second() * run_.group->size();
  values["peak_memory_gib"] = peak_memory(run_.device);
  if (const auto reserved = peak_reserved_memory(run_.device)) {
    values["peak_reserved_gib"] = *reserved;
  }
  add_traffic(values);
  record("step", values);
  meter.reset();
}

void Journal::count_traffic() {
  traffic_ = run_.group->traffic();
  traffic_step_ = run_.state.step;
}

/// Means per step since the last line.
void Journal::add_traffic(std::map<std::string, double>& values) {
  const auto now = run_.group->traffic();
  if (now.collectives == traffic_.collectives) return;  // one process, or replayed CUDA graphs
  const auto steps = static_cast<double>(std::max<int64_t>(run_.state.step - traffic_step_, 1));
  const auto difference = [&](auto Group::Traffic::*what) {
    return static_cast<double>(now.*what - traffic_.*what) / steps;
  };
  values["collectives"] = difference(&Group::Traffic::collectives);
  values["collective_mib"] = difference(&Group::Traffic::bytes) / (1 << 20);
  values["collective_wait_ms"] = difference(&Group::Traffic::waited) * 1e3;
  traffic_ = now;
  traffic_step_ = run_.state.step;
}

void Journal::log_epoch(EpochLine line) {
  line.values["loss"] = epoch_mean("loss");
  line.values["skipped"] = static_cast<double>(run_.state.skipped);
  line.values["seconds"] = steps_.epoch_meter().seconds();
  if (!line.whole) line.values["cut"] = 1;
  record("epoch", line.values);
  log("epoch {:>3} {:7} loss {:.4f}{}", run_.state.epoch, phase(), line.values["loss"], line.text);
}

void Journal::log_evaluation(const std::string& note) {
  auto figures = run_.state.evaluation;
  figures.erase(run_.options.samples);  // their number is no figure of the model
  record("eval", figures);
  log("          evaluation: {}{}", describe_scalars(run_.state.evaluation), note);
}

std::string EpochTimes::advice(double elapsed) {
  const double ends = evaluation + samples + checkpoints, steps = elapsed - ends;
  if (said_ || ends < kNoticeable || ends <= steps) return "";
  said_ = true;
  return fmt::format(
      "so far {:.0f} s went to steps, and after epochs {:.0f} s to checkpoints, {:.0f} s to "
      "evaluations and {:.0f} s to samples and the report; checkpoint.every_steps, "
      "train.eval_every and train.samples_every make them rarer",
      steps, checkpoints, evaluation, samples);
}

}  // namespace nsvq
