// What surrounds the method in trainer.cpp: start, logs, meters, evaluation, pictures.

#include <algorithm>
#include <cmath>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/nn/layers.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/report/report.h"
#include "nsvq/tokenizer/recipe.h"
#include "nsvq/train/evaluate.h"
#include "nsvq/train/setup.h"
#include "nsvq/train/trainer.h"

namespace nsvq {

void Trainer::report_start() const {
  log("{}", to_yaml(config_, Detail::brief));
  log("device       {}, {}", describe(device_), name_of(model_->precision));
  log("images       {} to train on, {} to evaluate on", train_source_->size(), val_source_->size());
  log("parameters   encoder {}, decoder {}, quantizer {}{}", parameter_count(*model_->encoder),
      parameter_count(*model_->decoder), parameter_count(*model_->quantizer),
      adversary_ ? fmt::format(", discriminator {}", adversary_->parameters()) : "");
  log("codes        {}", model_->quantizer->codes());
  log("steps        {} an epoch, {} in all", train_loader_.batches_per_epoch(), total_steps());
  if (device_.is_cuda()) {
    const auto why = why_not_recorded();
    log("steps        {}", why.empty() ? "recorded (train.graphs)" : "not recorded: " + why);
  }
  log("run          {}", run_->path().string());
  const auto& schedule = config_.schedule;
  if (schedule.freeze == "epoch" && schedule.phases.front() == "stage1" &&
      schedule.phases.size() > 1 &&
      schedule.freeze_epoch * train_loader_.batches_per_epoch() >= total_steps()) {
    log("note         stage1 lasts to the end: schedule.freeze_epoch is {}, so {} is not reached",
        schedule.freeze_epoch, schedule.phases[1]);
  }
  if (at_.finished) {
    log("finished     at step {}; raise train.epochs or train.steps to go on", at_.step);
  } else if (at_.step > 0) {
    log("continues    after step {}, in epoch {}, phase {}", at_.step, at_.epoch + 1, phase_.name);
  }
}

int64_t Trainer::total_steps() const {
  return config_.train.steps > 0 ? config_.train.steps
                                 : config_.train.epochs * train_loader_.batches_per_epoch();
}

/// A codebook that starts from data gets the latents of as many batches as it asks for.
void Trainer::initialise_codebook() {
  if (!model_->quantizer->wants_data()) return;
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> latents;
  int64_t count = 0;
  train_loader_.start(0);
  const int64_t wanted = model_->quantizer->latents_wanted();
  for (auto batch = train_loader_.next(); batch && count < wanted; batch = train_loader_.next()) {
    latents.push_back(flatten_latents(model_->to_latents(batch->images.to(device_))));
    count += latents.back().size(0);
  }
  model_->quantizer->initialise_from(at::cat(latents), seed_for(config_, Draw::codebook));
  // Every rank saw other images.
  for (const auto& [name, tensor] : named_tensors(*model_->quantizer)) group_->broadcast({tensor});
  ema_.copy_all();
}

void Trainer::add_own_hooks() {
  const auto every = [](int64_t n, int64_t count) { return n > 0 && count % n == 0; };
  on_step([=, this](const Progression& at) {
    if (every(config_.drift.every_steps, at.step)) measure_drift();
    if (every(config_.train.log_every, at.step) || at.step == total_steps()) log_step();
    if (every(config_.checkpoint.every_steps, at.step)) save_checkpoint();
  });
  on_epoch([=, this](const Progression& at) {
    if (config_.drift.every_steps == 0) measure_drift();
    log_epoch();
    raise_alarms();
    const auto& train = config_.train;
    if (every(train.eval_every, at.epoch) || at.finished) run_evaluation();
    if (every(train.samples_every, at.epoch) || (train.samples_every > 0 && at.finished)) {
      save_samples();
    }
    write([&] { write_report(run_->path()); });
  });
}

/// What cannot be written (a full disk) ends the run or, if the recipe says so, only the writing.
void Trainer::write(const std::function<void()>& writing) const {
  try {
    writing();
  } catch (const RunError& error) {
    if (config_.checkpoint.on_error == "stop") {
      throw RunError("{}; earlier checkpoints are intact: make room and resume", error.what());
    }
    log("{}; training goes on without (checkpoint.on_error: continue)", error.what());
  }
}

void Trainer::log_step() {
  settle();
  auto values = step_meter_.means(*group_);
  if (values.empty()) return;  // every step since the last line was skipped
  note_ = fmt::format("epoch {} {} loss {:.4f}", at_.epoch + 1, phase_.name, values.at("loss"));
  values["images_per_second"] = step_meter_.images_per_second() * group_->size();
  values["peak_memory_gib"] = peak_memory(device_);
  auto at = at_;
  ++at.epoch;  // The epoch under way, counted from one like the finished ones.
  write([&] { run_->record("step", at, phase_.name, values); });
  step_meter_.reset();
}

void Trainer::log_epoch() {
  const auto means = epoch_meter_.means(*group_);
  const auto used = usage_.sum().item<int64_t>();
  const auto share = usage_.to(at::kDouble) / std::max<int64_t>(used, 1);
  std::map<std::string, double> values = {
      {"loss", means.contains("loss") ? means.at("loss") : NAN},
      {"commitment", at_.commitment.back()},
      {"utilisation", usage_.gt(0).to(at::kDouble).mean().item<double>()},
      {"perplexity", at::special_entr(share).sum().exp().item<double>()},
      {"replaced", replaced_.item<double>()},
      {"skipped", static_cast<double>(at_.skipped)},
      {"seconds", epoch_meter_.seconds()}};
  const auto measured = [&](const char* name) {
    return at_.drift.contains(name) ? at_.drift.at(name) : NAN;
  };
  at_.health.push_back({values["utilisation"], measured("latent_norm"),
                        means.contains("ns") ? measured("neighbours") : NAN});
  write([&] { run_->record("epoch", at_, phase_.name, values); });
  log("epoch {:>3} {:7} loss {:.4f}  commitment {:.5f}  codes used {:5.1f} %  replaced {}",
      at_.epoch, phase_.name, values["loss"], values["commitment"], 100 * values["utilisation"],
      replaced_.item<int64_t>());
}

void Trainer::measure_drift() {
  if (!drift_) return;
  settle();
  at_.drift = drift_->measure(model_);
  write([&] { run_->record("drift", at_, phase_.name, at_.drift); });
}

void Trainer::raise_alarms() {
  std::set<std::string> holding;
  for (const auto& alarm : alarms(config_.alarm, at_.health, model_->quantizer->codes())) {
    holding.insert(alarm.name);
    if (at_.alarms.contains(alarm.name)) continue;
    log("ALARM     {}", alarm.text);
    write([&] { run_->record_alarm(at_, phase_.name, alarm.name, alarm.text); });
  }
  at_.alarms = holding;
}

void Trainer::run_evaluation() {
  at_.evaluation = evaluate(ema_.average(), val_loader_, *group_, device_, "evaluation");
  if (at_.evaluation.at("psnr") > at_.best_psnr || at_.best_epoch == 0) {
    at_.best_psnr = at_.evaluation.at("psnr");
    at_.best_epoch = at_.epoch;
  }
  auto figures = at_.evaluation;
  figures.erase("images");
  write([&] { run_->record("eval", at_, phase_.name, figures); });
  log("          evaluation: {}; best PSNR {:.2f} in epoch {}", describe_scalars(at_.evaluation),
      at_.best_psnr, at_.best_epoch);
}

void Trainer::save_samples() {
  write([&] { run_->save_samples(at_, sample_grid(ema_.average(), fixed_images_)); });
}

}  // namespace nsvq
