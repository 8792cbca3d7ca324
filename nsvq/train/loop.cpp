#include "nsvq/train/loop.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/report/report.h"
#include "nsvq/train/diagnosis.h"
#include "nsvq/train/rank_check.h"

namespace nsvq {

namespace {

bool is_due(int64_t every, int64_t count) { return every > 0 && count % every == 0; }

/// An epoch has a step at least, and its batches are of its samples.
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

/// Of a run that was stopped: a page that was written on the way would go on loading itself again.
void end_report(const std::filesystem::path& run) {
  std::error_code ignored;
  if (std::filesystem::exists(run / "report.html", ignored)) write_report(run, /*goes_on=*/false);
}

}  // namespace

Loop::Loop(Task& task, BatchSource& batches, LoopOptions options, std::shared_ptr<Group> group,
           c10::Device device)
    : task_(task),
      batches_(batches),
      options_(std::move(options)),
      group_(std::move(group)),
      device_(device),
      steps_(task,
             {.graphs = graphs_disabled_reason().empty(),
              .stop_at_nonfinite = options_.train.on_nonfinite == "stop",
              .precision = options_.precision,
              .seed = options_.seed,
              .gradients = options_.gradients},
             group_, device) {
  state_.samples = batches.samples();
  state_.step_samples = batches.step_samples();
}

Outcome Loop::train() {
  const SideStreamGuard stream(device_);
  report_start();
  share_tensors();
  if (state_.step == 0) {
    const StopAtOnceGuard starting;  // as if the run had not begun
    task_.begin(*this);
  } else if (state_.step < total_steps()) {
    task_.go_on(*this);
  }
  // A killed process may not have come to it. A finished run keeps its mark.
  if (!state_.finished || best_step() >= 0) write([&] { run_->mark_best(best_step()); });
  traffic_ = group_->traffic();
  traffic_step_ = state_.step;
  start_ = std::chrono::steady_clock::now();
  Progress progress("training", std::max(total_steps(), state_.step), "steps", 30, state_.step);
  bool stopped = false;
  try {
    if (state_.evaluation_pending) evaluate_epoch();
    while (!state_.finished) {
      train_epoch(progress);
      finish_epoch();
    }
    progress.finish();
  } catch (const Interrupted&) {
    stopped = true;
    save_checkpoint();
    write([&] { end_report(run_->path()); });
  }
  require_saved();
  // A rank that has ended would seem lost to one that is still writing.
  group_->sum({at::zeros({1})});
  return {state_.evaluation, !stopped};
}

/// All ranks start from rank 0's weights.
void Loop::share_tensors() {
  if (group_->alone()) return;
  const torch::NoGradGuard no_grad;
  const auto tensors = task_.shared_tensors();
  for (const auto& [name, tensor] : tensors) group_->broadcast({tensor.detach()});
  require_equal_ranks(*group_, tensors, "at the start");
}

/// Throws Interrupted between two steps if the process was asked to stop.
void Loop::train_epoch(Progress& progress) {
  batches_.start(state_.epoch, state_.batch, state_.used);
  InFlightLimit in_flight(device_);
  while (state_.step < total_steps()) {
    group_->tell_step(state_.step);
    const Asked here{interrupted(), checkpoint_requested()};
    const auto asked = group_->size() == 1 ? here : steps_.asked_of_ranks();
    if (asked.to_stop) throw Interrupted();
    const auto batch = batches_.next();
    if (!batch) break;
    const auto plan = task_.plan(state_);
    if (plan.kind != steps_.kind()) check_skipped_steps();  // they were of another phase
    steps_.run(*batch, plan, state_.step, here);
    ++state_.step;
    ++state_.batch;
    if (task_.step_syncs_host()) check_skipped_steps();
    in_flight.step();
    after_step(*batch, asked.for_checkpoint);
    progress.update(state_.step, note_);
  }
}

void Loop::after_step(const TensorBatch& batch, bool checkpoint_asked) {
  // Before the task, which may enter another phase: the line is of the steps that led here.
  if (is_due(options_.train.log_every, state_.step) || state_.step == total_steps()) log_step();
  task_.after_step(*this, batch);
  if (is_due(options_.train.check_ranks, state_.step)) {
    require_equal_ranks(*group_, task_.shared_tensors(), fmt::format("step {}", state_.step));
  }
  if (is_due(options_.checkpoint.every_steps, state_.step) || checkpoint_asked) save_checkpoint();
  if (checkpoint_asked && saved_ == place()) {
    log("step {}: checkpoint written, as SIGUSR1 asked", state_.step);
  }
  for (const auto& hook : step_hooks_) hook(state_);
}

void Loop::finish_epoch() {
  check_skipped_steps();
  const int64_t left = state_.samples - state_.used - state_.batch * state_.step_samples;
  const bool whole = left < state_.step_samples;
  state_.batch = state_.used = 0;
  ++state_.epoch;
  state_.finished = state_.step >= total_steps();
  epoch_is_whole_ = whole;
  task_.end_epoch(*this, whole);
  state_.evaluation_pending = true;
  evaluate_epoch();
}

/// What follows the records of an epoch. A stop within the evaluation leaves all of it to the next
/// start.
void Loop::evaluate_epoch() {
  const auto& train = options_.train;
  if (run_) before_evaluation_ = run_->position();
  if (is_due(train.eval_every, state_.epoch) || state_.finished) {
    const TimeGuard timed(times_.evaluation);
    run_evaluation();
  }
  show_epoch();
  for (const auto& hook : epoch_hooks_) hook(state_);
  task_.start_next_epoch(*this);
  steps_.epoch_meter().reset();
  state_.evaluation_pending = false;
  const bool best = best_step() == state_.step;
  if (options_.checkpoint.every_steps == 0 || state_.finished || best) save_checkpoint();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  if (const auto advice = times_.advice(elapsed.count()); !advice.empty()) log("{}", advice);
}

void Loop::show_epoch() {
  const TimeGuard timed(times_.samples);
  const auto& train = options_.train;
  const bool last_samples = train.samples_every > 0 && state_.finished;
  if (is_due(train.samples_every, state_.epoch) || last_samples) save_samples();
  write([&] { write_report(run_->path(), !state_.finished); });
}

int64_t total_steps(const TrainConfig& train, const BatchSource& batches, const RunState& state) {
  if (train.steps > 0) return train.steps;
  const int64_t left_of_epoch =
      (batches.samples() - state.used) / batches.step_samples() - state.batch;
  return state.step + left_of_epoch +
         (train.epochs - state.epoch - 1) * batches.batches_per_epoch();
}

std::string Loop::graphs_disabled_reason() const {
  if (!options_.train.graphs) return "train.graphs is false";
  if (!device_.is_cuda()) return "they need a GPU";
  if (!group_->capturable()) return "processes that talk by Gloo wait for each other on the host";
  return task_.graphs_disabled_reason();
}

void Loop::step_for_benchmark(const TensorBatch& batch, const RunState& state) {
  steps_.run(batch, task_.plan(state), state.step);
}

void Loop::check_skipped_steps() {
  const auto checked = steps_.check_skipped_steps();
  if (checked.skipped) report_skipped(*checked.skipped, state_.step - checked.steps);
}

/// Of several ranks, the first that found it in what is its own.
std::string Loop::place_of_nonfinite(const SkippedSteps& skipped) {
  const auto place = task_.locate_nonfinite(skipped);
  if (group_->size() == 1) return place.text;
  const auto own = gather(*group_, at::tensor({static_cast<int64_t>(place.own)}, at::kLong));
  if (own.sum().item<int64_t>() == 0) return place.text;
  const auto rank = own.flatten().argmax().item<int64_t>();
  return fmt::format("rank {}: {}", rank,
                     text_of_rank(*group_, static_cast<int>(rank), place.text));
}

/// `first` is the number of the first step that was checked.
void Loop::report_skipped(const SkippedSteps& skipped, int64_t first) {
  const auto place = fmt::format("(epoch {}, {})", state_.epoch + 1, task_.phase());
  if (skipped.overflows > 0) {
    log("up to step {} {}: {} skipped for overflow in fp16, the loss scale is now {}", state_.step,
        place, count_of(skipped.overflows, "step"), steps_.loss_scale_factor());
  }
  if (skipped.count == 0) return;
  const int64_t step = first + skipped.first + 1;
  // Gradients are those of the last step, which may be a later one.
  if (step < state_.step) steps_.clear_gradients();
  const auto where = fmt::format("step {} {}: non-finite, first at {}; {}", step, place,
                                 place_of_nonfinite(skipped), describe_scalars(skipped.values));
  steps_.clear_gradients();
  state_.skipped += skipped.count;
  const auto& train = options_.train;
  if (train.on_nonfinite == "skip" && state_.skipped <= train.nonfinite_limit) {
    const auto more = skipped.count > 1 ? fmt::format(" with {} after it", skipped.count - 1) : "";
    log("{}; skipped{} ({} of {})", where, more, state_.skipped, train.nonfinite_limit);
    return;
  }
  throw RunError("{}; {}{}lower optimizer.lr and start a new run", where,
                 train.on_nonfinite == "skip" ? "train.nonfinite_limit is reached; " : "",
                 has_checkpoint() ? "the last checkpoint is intact: " : "");
}

void Loop::load(const Checkpoint& checkpoint, const std::string& from) {
  const int64_t samples = state_.samples;
  if (checkpoint.state.samples != samples) {
    throw UserError(
        "{}: the training data has changed since the run began ({}: {} then, {} now), so it cannot "
        "go on; train.init_from={} starts a new run with its encoder and decoder",
        from, task_.sample_name(), checkpoint.state.samples, samples, from);
  }
  require_possible(checkpoint.state, from);
  state_ = checkpoint.state;
  // Of another number of processes: what they used of the epoch is not used again.
  const int64_t step_samples = batches_.step_samples();
  if (state_.step_samples > 0 && state_.step_samples != step_samples) {
    log("{}: {} {} a step so far, {} from now on", from, state_.step_samples, task_.sample_name(),
        step_samples);
    state_.used += state_.batch * state_.step_samples;
    state_.batch = 0;
  }
  state_.step_samples = step_samples;
  // A budget may have grown; one that was spent just before a crash still has its end to come.
  state_.finished = state_.step >= total_steps() && (state_.finished || state_.batch == 0);
  saved_ = place();
  nsvq::require_finite(checkpoint.model.tensors, from);
  steps_.load(checkpoint.training, from);
  task_.load(checkpoint.model.tensors, checkpoint.training, state_.task, from);
}

void Loop::save_checkpoint() {
  check_skipped_steps();
  if (place() == saved_) return;
  const TimeGuard timed(times_.checkpoints);
  require_finite();
  state_.task = task_.state();
  auto training = task_.training_state();
  auto of_steps = steps_.state();
  training.merge(of_steps);
  TORCH_CHECK(of_steps.empty(), "checkpoint: two tensors are named ", of_steps.begin()->first);
  auto state = state_;
  state.finished = state.finished && !state.evaluation_pending;
  const auto written = at::zeros({1});
  write([&] {
    // What a stopped evaluation has logged is logged anew by the next one.
    const auto logs = state.evaluation_pending ? before_evaluation_ : run_->position();
    run_->save({state, logs, task_.model(state), std::move(training)}, options_.checkpoint.keep,
               best_step());
    written.fill_(1);
  });
  group_->broadcast({written});
  if (written.item<float>() > 0) saved_ = place();
}

/// What is not finite would be so for ever in runs that go on from the checkpoint, and with
/// checkpoint.keep=1 it would be the only one. Losses do not show it of moments and averages.
void Loop::require_finite() const {
  const auto name = first_nonfinite(task_.shared_tensors());
  if (name.empty()) return;
  throw RunError("step {}: {} is not finite, so that no checkpoint is written; {}", state_.step,
                 name,
                 has_checkpoint() ? "the last checkpoint is intact: resume, and if this comes "
                                    "again, lower optimizer.lr and start a new run"
                                  : "lower optimizer.lr and start a new run");
}

/// The end of a run must not be lost in silence, whatever checkpoint.on_error allowed on the way.
void Loop::require_saved() const {
  if (saved_ == place()) return;
  const auto kept = has_checkpoint()
                        ? fmt::format("the last checkpoint written is of step {}", saved_.step)
                        : "no checkpoint could be written";
  throw RunError("{}: trained up to step {}, but {}; {}", run_ ? run_->path().string() : "the run",
                 state_.step, kept,
                 disk_full_ ? "make room and resume" : "resume when its folder can be written");
}

}  // namespace nsvq
