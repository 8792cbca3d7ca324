// What surrounds the method in trainer.cpp: start, logs, evaluation, pictures, checkpoints.

#include <cmath>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/nn/layers.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/report/report.h"
#include "nsvq/train/evaluate.h"
#include "nsvq/train/setup.h"
#include "nsvq/train/trainer.h"

namespace nsvq {

void Trainer::report_start() const {
  log("{}", to_yaml(config_));
  log("device       {}", describe(device_));
  log("images       {} to train on, {} to evaluate on", train_source_->size(), val_source_->size());
  log("parameters   encoder {}, decoder {}, quantizer {}", parameter_count(*model_->encoder),
      parameter_count(*model_->decoder), parameter_count(*model_->quantizer));
  log("steps        {} an epoch, {} epochs", train_loader_.batches_per_epoch(),
      config_.train.epochs);
  log("run          {}", run_.path().string());
}

/// A codebook that starts from data gets the latents of as many batches as it has codes for.
void Trainer::initialise_codebook() {
  if (!model_->quantizer->wants_data()) return;
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> latents;
  int64_t count = 0;
  train_loader_.start(0);
  for (auto batch = train_loader_.next(); batch && count < model_->quantizer->codes();
       batch = train_loader_.next()) {
    latents.push_back(flatten_latents(model_->encoder->forward(batch->images.to(device_))));
    count += latents.back().size(0);
  }
  model_->quantizer->initialise_from(at::cat(latents), seed_for(config_, Draw::codebook));
  ema_.copy_all();
}

void Trainer::check_finite(const std::map<std::string, torch::Tensor>& scalars) const {
  std::map<std::string, double> values;
  bool finite = true;
  for (const auto& [name, scalar] : scalars) {
    values[name] = scalar.item<double>();
    finite = finite && std::isfinite(values[name]);
  }
  if (finite) return;
  throw RunError("step {} (epoch {}, {}): not finite: {}; lower optimizer.lr and start again",
                 at_.step + 1, at_.epoch + 1, phase_.name, describe_scalars(values));
}

void Trainer::add_own_hooks() {
  const auto every = [](int64_t n, int64_t count) { return n > 0 && count % n == 0; };
  on_step([=, this](const Progression& at) {
    if (every(config_.train.log_every, at.step)) log_step();
    if (every(config_.checkpoint.every_steps, at.step)) save_checkpoint();
  });
  on_epoch([=, this](const Progression& at) {
    log_epoch();
    const auto& train = config_.train;
    if (every(train.eval_every, at.epoch) || last_epoch()) run_evaluation();
    if (every(train.samples_every, at.epoch) || (train.samples_every > 0 && last_epoch())) {
      save_samples();
    }
    if (config_.checkpoint.every_steps == 0 || last_epoch()) save_checkpoint();
    write_report(run_.path());
  });
}

void Trainer::log_step() {
  auto values = step_meter_.means(*group_);
  note_ = fmt::format("epoch {}/{} {} loss {:.4f}", at_.epoch + 1, config_.train.epochs,
                      phase_.name, values.at("loss"));
  values["images_per_second"] = step_meter_.images_per_second() * group_->size();
  auto at = at_;
  ++at.epoch;  // The epoch under way, counted from one like the finished ones.
  run_.record("step", at, phase_.name, values);
  step_meter_.reset();
}

void Trainer::log_epoch() {
  const auto means = epoch_meter_.means(*group_);
  const auto share = usage_.to(at::kDouble) / usage_.sum();
  std::map<std::string, double> values = {
      {"loss", means.at("loss")},
      {"commitment", means.at("commitment")},
      {"utilisation", usage_.gt(0).to(at::kDouble).mean().item<double>()},
      {"perplexity", at::special_entr(share).sum().exp().item<double>()},
      {"replaced", static_cast<double>(replaced_)},
      {"seconds", epoch_meter_.seconds()}};
  run_.record("epoch", at_, phase_.name, values);
  log("epoch {:>3} {:7} loss {:.4f}  commitment {:.5f}  codes used {:5.1f} %  replaced {}",
      at_.epoch, phase_.name, values["loss"], values["commitment"], 100 * values["utilisation"],
      replaced_);
}

void Trainer::run_evaluation() {
  evaluation_ = evaluate(ema_.average(), val_loader_, *group_, device_, "evaluation");
  auto figures = evaluation_;
  figures.erase("images");
  run_.record("eval", at_, phase_.name, figures);
  log("          evaluation: {}", describe_scalars(evaluation_));
}

void Trainer::save_samples() { run_.save_samples(at_, sample_grid(ema_.average(), fixed_images_)); }

void Trainer::save_checkpoint() {
  Checkpoint checkpoint{config_, at_, named_tensors(*ema_.average()), {}};
  for (const auto& [name, tensor] : named_tensors(*model_))
    checkpoint.training["model." + name] = tensor;
  for (const auto& [name, tensor] : optimizer_.state())
    checkpoint.training["adam." + name] = tensor;
  checkpoint.training["usage"] = usage_;
  run_.save(checkpoint, config_.checkpoint.keep);
}

}  // namespace nsvq
