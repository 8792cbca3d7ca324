#include "nsvq/train/loop.h"

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/report/report.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/train/rank_check.h"

namespace nsvq {

namespace {

bool is_due(int64_t every, int64_t count) { return every > 0 && count % every == 0; }

/// Throws UserError for a state that no run comes to: an epoch has at least a step, and its batches
/// are of its samples.
void require_possible(const RunState& state, const std::string& from) {
  const auto require = [&](bool possible, const char* key, int64_t value) {
    if (possible) return;
    throw UserError("{}: state.json: {} is {}, which no run of {} steps on {} samples comes to",
                    from, key, value, state.step, state.samples);
  };
  require(state.epoch <= state.step, "epoch", state.epoch);
  require(state.batch <= state.step, "batch", state.batch);
  require(state.used <= state.samples, "used", state.used);
  const int64_t a_step = std::max<int64_t>(state.step_samples, 1);
  require(state.batch <= (state.samples - state.used) / a_step, "batch", state.batch);
}

}  // namespace

Loop::Loop(Task& task, BatchSource& batches, LoopOptions options, std::shared_ptr<Group> group,
           c10::Device device)
    : run_{task, batches, std::move(options), std::move(group), device},
      observers_(task.observers()),
      steps_(task,
             {.graphs = graphs_disabled_reason().empty(),
              .stop_at_nonfinite = run_.options.train.on_nonfinite == "stop",
              .precision = run_.options.precision,
              .seed = run_.options.seed,
              .gradients = run_.options.gradients},
             run_.group, device),
      journal_(run_, steps_),
      checkpointer_(run_, steps_),
      finite_(run_, steps_, journal_, observers_) {
  run_.state.samples = batches.samples();
  run_.state.step_samples = batches.step_samples();
}

Outcome Loop::train() {
  auto& state = run_.state;
  const SideStreamGuard stream(run_.device);
  journal_.log_start(observers_, graphs_disabled_reason());
  share_tensors();
  if (state.step == 0) {
    const StopAtOnceGuard starting;  // as if the run had not begun
    run_.task.initialise(journal_);
    for (auto* observer : observers_) observer->begin(journal_);
  } else if (journal_.more_to_come()) {
    for (auto* observer : observers_) observer->resume(journal_);
  }
  checkpointer_.mark_best();
  journal_.count_traffic();
  start_ = std::chrono::steady_clock::now();
  Progress progress("training", std::max(run_.total_steps(), state.step), "steps", 30, state.step);
  bool stopped = false;
  try {
    if (state.evaluation_pending) evaluate_epoch();
    while (!state.finished) {
      train_epoch(progress);
      finish_epoch();
    }
    progress.finish();
  } catch (const Interrupted&) {
    stopped = true;
    save_checkpoint();
    journal_.end_report();
  } catch (const c10::Error& error) {
    finite_.check_failure(error.what_without_backtrace());
    throw;
  }
  checkpointer_.require_saved();
  // A rank that has ended would seem lost to one that is still writing.
  run_.group->sum({at::zeros({1})});
  return {state.evaluation, !stopped};
}

/// All ranks start from rank 0's weights.
void Loop::share_tensors() {
  if (run_.group->alone()) return;
  const torch::NoGradGuard no_grad;
  const auto tensors = run_.task.shared_tensors();
  for (const auto& [name, tensor] : tensors) run_.group->broadcast({tensor.detach()});
  require_equal_ranks(*run_.group, tensors, "at the start");
}

/// Throws Interrupted between two steps if the process was asked to stop.
void Loop::train_epoch(Progress& progress) {
  auto& state = run_.state;
  run_.batches.start(state.epoch, state.batch, state.used);
  InFlightLimit in_flight(run_.device);
  while (journal_.more_to_come()) {
    run_.group->tell_step(state.step);
    const Asked here{interrupted(), checkpoint_requested()};
    const auto asked = run_.group->size() == 1 ? here : steps_.asked_of_ranks();
    if (asked.to_stop) throw Interrupted();
    run_.task.before_step(state);
    const auto batch = run_.batches.next();
    if (!batch) break;
    const auto plan = run_.task.plan(state);
    if (plan.kind != steps_.kind()) finite_.check_steps();  // they were of another phase
    steps_.run(*batch, plan, state.step, here);
    ++state.step;
    ++state.batch;
    if (plan.syncs_host) finite_.check_steps();
    in_flight.step();
    after_step(*batch, asked.for_checkpoint);
    progress.update(state.step, journal_.progress_note());
  }
}

void Loop::after_step(const TensorBatch& batch, bool checkpoint_asked) {
  const auto& options = run_.options;
  const int64_t step = run_.state.step;
  // Before the observers, which may enter another phase: the line is of the steps that led here.
  if (is_due(options.train.log_every, step) || step == run_.total_steps()) {
    finite_.check_steps();
    journal_.log_steps();
  }
  for (auto* observer : observers_) {
    if (!is_due(observer->every_steps(), step)) continue;
    finite_.check_steps();
    observer->after_step(journal_, batch);
  }
  if (is_due(options.train.check_ranks, step)) {
    require_equal_ranks(*run_.group, run_.task.shared_tensors(), fmt::format("step {}", step));
  }
  if (is_due(options.checkpoint.every_steps, step) || checkpoint_asked) save_checkpoint();
  if (checkpoint_asked && checkpointer_.is_saved()) {
    log("step {}: checkpoint written, as SIGUSR1 asked", step);
  }
  for (const auto& hook : step_hooks_) hook(run_.state);
}

void Loop::finish_epoch() {
  finite_.check_steps();
  auto& state = run_.state;
  const int64_t left = state.samples - state.used - state.batch * state.step_samples;
  EpochLine line{.whole = left < state.step_samples};
  state.batch = state.used = 0;
  ++state.epoch;
  state.finished = !journal_.more_to_come();
  for (auto* observer : observers_) observer->end_epoch(journal_, line);
  journal_.log_epoch(std::move(line));
  for (auto* observer : observers_) observer->epoch_logged(journal_);
  state.evaluation_pending = true;
  evaluate_epoch();
}

/// What follows the records of an epoch. A stop within the evaluation leaves all of it to the next
/// start.
void Loop::evaluate_epoch() {
  auto& state = run_.state;
  checkpointer_.epoch_logged();
  if (is_due(run_.options.train.eval_every, state.epoch) || state.finished) {
    const TimeGuard timed(times_.evaluation);
    evaluate();
  }
  show_epoch();
  for (const auto& hook : epoch_hooks_) hook(state);
  for (auto* observer : observers_) observer->start_next_epoch(journal_);
  steps_.epoch_meter().reset();
  state.evaluation_pending = false;
  const bool best = checkpointer_.best_step() == state.step;
  if (run_.options.checkpoint.every_steps == 0 || state.finished || best) save_checkpoint();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  if (const auto advice = times_.advice(elapsed.count()); !advice.empty()) log("{}", advice);
}

void Loop::evaluate() {
  std::map<std::string, double> figures;
  for (auto* observer : observers_) figures.merge(observer->evaluate(run_.state));
  run_.state.evaluation = figures;  // at the end: an evaluation may be interrupted
  if (figures.empty()) return;
  checkpointer_.compare_with_best();
  std::string note;
  for (const auto* observer : observers_) note += observer->evaluation_note(figures);
  journal_.log_evaluation(note);
  for (auto* observer : observers_) observer->evaluation_logged(journal_);
}

/// Pictures and the report.
void Loop::show_epoch() {
  const TimeGuard timed(times_.samples);
  const auto& state = run_.state;
  const int64_t every = run_.options.train.samples_every;
  if (is_due(every, state.epoch) || (every > 0 && state.finished)) {
    run_.write([&](RunDirectory& folder) {
      for (auto* observer : observers_) {
        if (const auto picture = observer->sample_picture()) folder.save_samples(state, *picture);
      }
    });
  }
  run_.write([&](RunDirectory& folder) {
    write_report(folder.path(), state.finished ? "finished" : "running");
  });
}

void Loop::save_checkpoint() {
  finite_.check_steps();
  if (checkpointer_.is_saved()) return;
  const TimeGuard timed(times_.checkpoints);
  finite_.check_tensors();
  checkpointer_.save();
}

std::string Loop::graphs_disabled_reason() const {
  if (!run_.options.train.graphs) return "train.graphs is false";
  if (!run_.device.is_cuda()) return "they need a GPU";
  if (!run_.group->capturable())
    return "processes that talk by Gloo wait for each other on the host";
  return run_.task.plan(run_.state).graphs_disabled_reason;
}

void Loop::step_for_benchmark(const TensorBatch& batch, const RunState& state) {
  steps_.run(batch, run_.task.plan(state), state.step);
}

void Loop::load(const Checkpoint& checkpoint, const std::string& from) {
  auto& state = run_.state;
  const int64_t samples = state.samples;
  if (checkpoint.state.samples != samples) {
    const auto& key = run_.options.init_from;
    throw UserError(
        "{}: the training data has changed since the run began ({}: {} then, {} now), so it cannot "
        "go on{}",
        from, run_.options.samples, checkpoint.state.samples, samples,
        key.empty() ? "" : fmt::format("; {}={} starts a new run with its networks", key, from));
  }
  require_possible(checkpoint.state, from);
  state = checkpoint.state;
  adopt_batch_size(from);
  // A budget may have grown; one that was spent just before a crash still has its end to come.
  state.finished = !journal_.more_to_come() && (state.finished || state.batch == 0);
  checkpointer_.loaded();
  if (const auto name = first_nonfinite(checkpoint.model.tensors); !name.empty()) {
    throw UserError(
        "{}: tensor '{}' of {} holds NaN or infinity; remove that checkpoint to go on from the one "
        "before it, or lower optimizer.lr and start a new run",
        from, name, checkpoint_name(checkpoint.state.step));
  }
  steps_.load(checkpoint.training, from);
  run_.task.load(checkpoint.model.tensors, checkpoint.training, state.task, from);
}

/// A checkpoint of another number of processes: samples that they used in the epoch are not used
/// again.
void Loop::adopt_batch_size(const std::string& from) {
  auto& state = run_.state;
  const int64_t step_samples = run_.batches.step_samples();
  if (state.step_samples > 0 && state.step_samples != step_samples) {
    log("{}: {} {} a step so far, {} from now on", from, state.step_samples, run_.options.samples,
        step_samples);
    state.used += state.batch * state.step_samples;
    state.batch = 0;
  }
  state.step_samples = step_samples;
}

}  // namespace nsvq
