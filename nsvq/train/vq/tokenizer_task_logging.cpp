// What surrounds the method in tokenizer_task.cpp: the first codes, log lines, drift, evaluation.

#include <algorithm>
#include <cmath>

#include "nsvq/core/log.h"
#include "nsvq/core/random.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/metrics/metric_weights.h"
#include "nsvq/metrics/usage.h"
#include "nsvq/nn/layers.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/tokenizer/evaluate.h"
#include "nsvq/train/diagnosis.h"
#include "nsvq/train/loop.h"
#include "nsvq/train/lr_schedule.h"
#include "nsvq/train/vq/tokenizer_task.h"

namespace nsvq {

std::vector<std::string> TokenizerTask::describe(const Loop& loop) const {
  std::vector<std::string> lines = {
      fmt::format("images       {} to train on, {} to evaluate on", batches_.samples(),
                  val_source_->size()),
      fmt::format(
          "parameters   encoder {}, decoder {}, quantizer {}{}", parameter_count(*model_->encoder),
          parameter_count(*model_->decoder), parameter_count(*model_->quantizer),
          adversary_ ? fmt::format(", discriminator {}", parameter_count(adversary_->module()))
                     : ""),
      model_->quantizer->codes() > 0 ? fmt::format("codes        {}", model_->quantizer->codes())
                                     : "codes        none: a continuous autoencoder"};
  for (const auto& line : describe_weights(config_.train.metrics)) {
    lines.push_back("weights      " + line);
  }
  for (const auto& note : notes(loop.total_steps())) lines.push_back(note);
  return lines;
}

/// What of the recipe the run does not come to, and settings that may not do what they seem to.
std::vector<std::string> TokenizerTask::notes(int64_t total_steps) const {
  std::vector<std::string> notes;
  const auto add = [&](const std::string& note) {
    if (!note.empty()) notes.push_back("note         " + note);
  };
  add(note_on_freeze(total_steps));
  add(note_on_schedule("optimizer.schedule", config_.optimizer.schedule, total_steps));
  if (adversary_) {
    const int64_t start = config_.adversarial.start_step;
    add(note_on_schedule("adversarial.schedule", config_.optimizer.discriminator_schedule,
                         total_steps - start));
    if (start >= total_steps) {
      add(fmt::format("adversarial.start_step is {}, so the adversarial loss is not reached",
                      start));
    }
  }
  const auto& init = config_.quantizer.init;
  if (!config_.train.init_from.empty() && model_->quantizer->codes() > 0 && init != "kmeans" &&
      init != "data") {
    add(
        fmt::format("codes start by quantizer.init {}, not from the latents of train.init_from, as "
                    "quantizer.init=kmeans has them",
                    init));
  }
  return notes;
}

/// Phases of the recipe that the run does not come to.
std::string TokenizerTask::note_on_freeze(int64_t total_steps) const {
  const auto& schedule = config_.schedule;
  if (schedule.phases.front() != "stage1" || schedule.phases.size() == 1) return "";
  const bool by_epoch = schedule.freeze == "epoch";
  const int64_t first = by_epoch ? schedule.freeze_epoch : schedule.earliest_epoch;
  const bool late = first * schedule_epoch_steps() >= total_steps;
  if (schedule.freeze != "never" && !late) return "";
  const auto why =
      schedule.freeze == "never"
          ? "schedule.freeze is never"
          : fmt::format("schedule.{} is {}", by_epoch ? "freeze_epoch" : "earliest_epoch", first);
  return fmt::format("stage1 lasts to the end: {}, so {} is not reached", why, schedule.phases[1]);
}

void TokenizerTask::begin(Loop& loop) {
  initialise_codebook();
  enter_phase(loop, 0, "the run begins");
  measure_drift(loop);
}

/// [B, ...] of every rank as [B size, ...], in the order of the epoch.
torch::Tensor TokenizerTask::from_all_ranks(const torch::Tensor& part) {
  return group_->size() == 1 ? part : gather(*group_, part).flatten(0, 1);
}

/// A codebook that starts from data gets the latents of as many batches as it asks for.
void TokenizerTask::initialise_codebook() {
  if (!model_->quantizer->wants_data()) return;
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> latents;
  int64_t count = 0;  // over all ranks
  batches_.start(0, 0, 0);
  const int64_t wanted = model_->quantizer->latents_wanted();
  for (auto batch = batches_.next(); batch && count < wanted; batch = batches_.next()) {
    latents.push_back(flatten_latents(from_all_ranks(model_->to_latents(batch->front()))));
    count += latents.back().size(0);
  }
  model_->quantizer->initialise_from(at::cat(latents), seed_for(config_.seed, Draw::codebook));
  // Rounding may differ between machines.
  for (const auto& [name, tensor] : named_tensors(*model_->quantizer)) group_->broadcast({tensor});
  average_.copy_all();
}

/// The quantizer on latents of the step's batch by its fast path and by plain operators. Nothing of
/// the model changes.
void TokenizerTask::check_operators(Loop& loop, const torch::Tensor& images) {
  const torch::NoGradGuard no_grad;
  loop.check_skipped_steps();
  const auto latents = model_->to_latents(images);
  if (!at::isfinite(latents).all().item<bool>()) return;  // NaN has no nearest code
  const auto step = at::full({}, loop.state().step, at::device(device_).dtype(at::kLong));
  const StepInputs inputs{.step = step, .seed = step, .noise_seed = step, .share = {}};
  const auto errors = check_->compare(*model_->quantizer, latents, quantizer_terms(inputs));
  loop.record("check", errors);
  if (!operators_agree(errors)) {
    log("CHECK     step {}: the fast quantizer path differs from the plain one: {}",
        loop.state().step, describe_scalars(errors));
  }
}

void TokenizerTask::measure_drift(Loop& loop) {
  if (!drift_) return;
  loop.check_skipped_steps();
  state_.drift = drift_->measure(model_);
  loop.record("drift", state_.drift);
}

void TokenizerTask::log_epoch(Loop& loop, const torch::Tensor& usage) {
  const auto means = loop.epoch_means();
  const auto error = std::ranges::find_if(
      means, [](const auto& mean) { return mean.first == "l1" || mean.first == "l2"; });
  const double pixel_error = error == means.end() ? NAN : error->second;
  if (model_->quantizer->codes() == 0) {
    // The other signs are of latents and codes that part.
    state_.health.push_back({NAN, NAN, NAN, pixel_error});
    return loop.log_epoch({}, "");
  }
  const double used = utilisation(usage);
  const double commitment = epoch_commitment(loop);
  const auto replaced = replaced_.item<int64_t>();
  const auto measured = [&](const char* name) {
    return state_.drift.contains(name) ? state_.drift.at(name) : NAN;
  };
  state_.health.push_back({used, measured("latent_norm"),
                           means.contains("ns") ? measured("neighbours") : NAN, pixel_error});
  loop.log_epoch({{"commitment", commitment},
                  {"utilisation", used},
                  {"perplexity", perplexity(usage)},
                  {"replaced", static_cast<double>(replaced)}},
                 fmt::format("  commitment {:.5f}  codes used {:5.1f} %  replaced {}", commitment,
                             100 * used, replaced));
}

void TokenizerTask::raise_alarms(Loop& loop) {
  std::set<std::string> holding;
  for (const auto& alarm : alarms(config_.alarm, state_.health, model_->quantizer->codes())) {
    holding.insert(alarm.name);
    if (state_.alarms.contains(alarm.name)) continue;
    log("ALARM     {}", alarm.text);
    loop.record_alarm(alarm.name, alarm.text);
  }
  state_.alarms = holding;
}

std::map<std::string, double> TokenizerTask::evaluate(const RunState& state) {
  metrics_->reset();
  auto values =
      nsvq::evaluate(averaged_model_, val_loader_, device_, *metrics_, {.group = group_.get()});
  const auto psnr = values.find("psnr");
  if (psnr != values.end() && (psnr->second > state_.best_psnr || state_.best_epoch == 0)) {
    state_.best_psnr = psnr->second;
    state_.best_epoch = state.epoch;
  }
  return values;
}

bool TokenizerTask::higher_is_better(const std::string& figure) const {
  return metric_kind(figure).display.better == Better::higher;
}

std::string TokenizerTask::describe_evaluation(const std::map<std::string, double>& values) const {
  const auto text = describe_scalars(values);
  if (!values.contains("psnr")) return text;
  return fmt::format("{}; best PSNR {:.2f} in epoch {}", text, state_.best_psnr, state_.best_epoch);
}

std::optional<Image> TokenizerTask::sample_picture() {
  return sample_grid(averaged_model_, fixed_images_);
}

NonfinitePlace TokenizerTask::locate_nonfinite(const SkippedSteps& skipped) {
  auto place = first_nonfinite(model_, skipped.batch.front(), skipped.values);
  if (place.own || !adversary_) return place;
  const auto name = first_nonfinite(named_tensors(adversary_->module()));
  return name.empty() ? place : NonfinitePlace{"the discriminator's weight " + name, true};
}

}  // namespace nsvq
