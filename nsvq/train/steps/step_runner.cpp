#include "nsvq/train/steps/step_runner.h"

#include "nsvq/core/random.h"
#include "nsvq/train/steps/adam.h"
#include "nsvq/train/task.h"

namespace nsvq {

const StepPlan& Step::plan() const { return runner_.plan_; }
const StepInputs& Step::inputs() const { return runner_.inputs_; }
const LossScale& Step::loss_scale() const { return runner_.loss_scale_; }

void Step::backward(const torch::Tensor& loss, const torch::nn::Module& module, bool last) {
  const auto& scale = runner_.loss_scale_;
  if (!last) return scale.backward(loss);
  if (runner_.group_->alone()) {
    scale.backward(loss);
  } else {
    auto& buckets = runner_.buckets_of(module);
    buckets.arm();
    scale.backward(loss);
    buckets.finish();
  }
  scale.unscale(module);
}

bool Step::any_rank(bool here) {
  if (runner_.group_->size() == 1) return here;
  const auto said = at::tensor({static_cast<int64_t>(here)}, at::kLong);
  runner_.group_->sum({said});
  return said.item<int64_t>() > 0;
}

const torch::Tensor& Step::update(Scalars scalars, const std::vector<NamedModule>& modules) {
  for (const auto& [name, module] : modules) {
    scalars["gradient_norm_" + name] = gradient_norm(*module, runner_.device_);
  }
  runner_.scalars_ = runner_.over_ranks(scalars);
  const auto& skip =
      runner_.guard_.check_finite(runner_.scalars_, batch_, runner_.loss_scale_.can_shrink());
  for (auto* optimizer : runner_.task_.optimizers()) optimizer->step(skip);
  return skip;
}

void Step::rollback() { runner_.guard_.rollback(); }

void Step::abandon(const Scalars& scalars) {
  runner_.guard_.check_finite(runner_.over_ranks(scalars), batch_);
}

StepRunner::StepRunner(Task& task, const Options& options, std::shared_ptr<Group> group,
                       c10::Device device)
    : task_(task),
      options_(options),
      group_(std::move(group)),
      device_(device),
      loss_scale_(options.precision, device),
      guard_(device, options.stop_at_nonfinite),
      graph_(device, options.graphs) {
  const auto integer = at::device(device).dtype(at::kLong);
  inputs_ = {at::zeros({}, integer), at::zeros({}, integer), at::zeros({}, integer),
             at::zeros({}, integer.dtype(at::kFloat))};
  asked_ = at::zeros({2}, integer.dtype(at::kDouble));
  asked_of_all_ = at::zeros_like(asked_);
}

void StepRunner::run(const TensorBatch& batch, const StepPlan& plan, int64_t step,
                     const Asked& asked) {
  plan_ = plan;
  const uint64_t seed = seed_for(options_.seed, Draw::quantizer, step);
  const uint64_t noise_seed = combine_seeds({seed, 0});
  inputs_.step.fill_(step);
  inputs_.seed.fill_(static_cast<int64_t>(seed));
  inputs_.noise_seed.fill_(static_cast<int64_t>(noise_seed));
  inputs_.share.fill_(plan.share);
  if (group_->size() > 1) {
    asked_[0].fill_(asked.to_stop);
    asked_[1].fill_(asked.for_checkpoint);
  }
  const auto optimizers = task_.optimizers();
  for (size_t i = 0; i < plan.lr_factors.size(); ++i) {
    optimizers.at(i)->set_lr_factor(plan.lr_factors[i]);
  }
  const auto work = [this](const TensorBatch& given) {
    start_step();
    Step under_way(*this, given);
    task_.step(given, under_way);
    finish_step();
  };
  if (plan.extra_terms || !graph_.replay(plan.kind, batch, work)) work(batch);
  if (group_->size() > 1) answers_.emplace_back(asked_of_all_.clone());
  const int64_t samples = batch.front().size(0);
  step_meter_.add_samples(samples);
  epoch_meter_.add_samples(samples);
  ++steps_since_check_;
}

Asked StepRunner::asked_of_ranks() {
  // The answer of a step that InFlightLimit has waited for: this does not wait for the GPU.
  const int64_t behind = device_.is_cpu() ? 0 : kStepsInFlight;
  Asked asked;
  while (std::ssize(answers_) > behind) {
    const auto counts = answers_.front().get();
    asked.to_stop |= counts[0].item<double>() > 0;
    asked.for_checkpoint |= counts[1].item<double>() > 0;
    answers_.pop_front();
  }
  return asked;
}

/// Means over ranks, in one collective: what is logged, what all ranks decide by, since a
/// non-finite value of one rank makes the mean non-finite, and what signals ask.
GatheredScalars StepRunner::over_ranks(const Scalars& scalars) {
  auto gathered = gather_scalars(scalars);
  if (group_->alone()) return gathered;
  const auto all = at::cat({gathered.values, asked_});
  group_->sum({all});
  const auto count = gathered.values.size(0);
  gathered.values = all.narrow(0, 0, count) / group_->size();
  asked_of_all_.copy_(all.narrow(0, count, 2));
  return gathered;
}

GradientBuckets& StepRunner::buckets_of(const torch::nn::Module& module) {
  auto& buckets = buckets_[&module];
  if (!buckets) buckets = std::make_unique<GradientBuckets>(module, *group_, options_.gradients);
  return *buckets;
}

void StepRunner::start_step() {
  clear_gradients();
  scalars_ = {};
  guard_.snapshot(task_.state_outside_optimizers());
}

void StepRunner::finish_step() {
  guard_.rollback();
  if (!scalars_.values.defined()) return;  // abandoned
  const auto& skip = guard_.skip();
  loss_scale_.update(skip);
  epoch_meter_.add(scalars_, skip);
  step_meter_.add(scalars_, skip);
}

StepRunner::Checked StepRunner::check_skipped_steps() {
  if (steps_since_check_ == 0) return {};
  Checked checked{steps_since_check_, guard_.read()};
  steps_since_check_ = 0;
  return checked;
}

void StepRunner::clear_gradients() {
  for (auto* optimizer : task_.optimizers()) optimizer->clear_gradients();
}

double StepRunner::loss_scale_factor() const {
  return loss_scale_.factor().defined() ? loss_scale_.factor().item<double>() : 1;
}

TensorMap StepRunner::state() const {
  TensorMap all;
  add_prefixed(all, "epoch.", epoch_meter_.state());
  add_prefixed(all, "step.", step_meter_.state());
  add_prefixed(all, "loss_scale.", loss_scale_.state());
  return all;
}

void StepRunner::load(const TensorMap& state, const std::string& from) {
  const auto file = from + ": training.safetensors: ";
  epoch_meter_.load(with_prefix(state, "epoch."), file + "epoch.");
  step_meter_.load(with_prefix(state, "step."), file + "step.");
  loss_scale_.load(with_prefix(state, "loss_scale."));
}

}  // namespace nsvq
