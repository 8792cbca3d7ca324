#include "nsvq/train/vq/tokenizer_task.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "nsvq/core/log.h"
#include "nsvq/quantizers/search.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/train/journal.h"
#include "nsvq/train/steps/lr_schedule.h"
#include "nsvq/train/training_run.h"
#include "nsvq/train/vq/start_checks.h"
#include "nsvq/train/vq/state_json.h"

namespace nsvq {

namespace {

torch::Tensor join(const std::vector<torch::Tensor>& slices) {
  return slices.size() == 1 ? slices.front() : at::cat(slices);
}

Adam::Parameters parameters_of(const TokenizerImpl& model, const OptimizerConfig& optimizer) {
  const auto& scale = optimizer.scale;
  return named_parameters(model, {{"encoder", {scale.encoder}},
                                  {"quantizer", {scale.quantizer, optimizer.eps_quantizer}},
                                  {"decoder", {scale.decoder}}});
}

}  // namespace

TokenizerTask::TokenizerTask(const TokenizerConfig& config, BatchSource& batches,
                             std::shared_ptr<Group> group, c10::Device device)
    : config_(config),
      batches_(batches),
      group_(std::move(group)),
      graphs_disabled_reason_(reason_against_graphs(config.model.latent_dim, config.quantizer)),
      syncs_host_(device.is_cpu() || !graphs_disabled_reason_.empty()),
      model_(make_tokenizer(config, device)),
      averaged_model_(make_average(config, device)),
      average_(model_.ptr(), averaged_model_.ptr(), config.optimizer.ema_decay),
      optimizer_(parameters_of(*model_, config.optimizer), config.optimizer, &average_),
      schedule_(config.schedule, config.adversarial, batches.batches_per_epoch()),
      objective_(config, model_, device, group_),
      upkeep_(config, model_, optimizer_, average_, schedule_, group_, device),
      validation_(config, averaged_model_, group_, device),
      drift_(config, validation_, model_, objective_, device),
      check_(config, model_, objective_, schedule_, device),
      health_(config_, model_->quantizer->codes(),
              window_steps(config.alarm, batches.batches_per_epoch(),
                           total_steps(config.train, batches, RunState{})),
              upkeep_, drift_),
      diagnosis_(model_, objective_),
      start_report_(config_, batches_, model_, objective_, schedule_, validation_) {
  check_freeze(config.schedule, config.quantizer);
  check_dist(config.dist, config.quantizer, config.adversarial);
}

// Section 4: steps.

StepPlan TokenizerTask::plan(const RunState& state) {
  const double share = schedule_.adversarial_share(state.step);
  const int64_t steps = total_steps(config_.train, batches_, state);
  StepPlan plan{.kind = schedule_.step_kind(state.step),
                .share = share,
                .lr_factors = {lr_factor(config_.optimizer.schedule, state.step, steps)},
                .adversarial = share > 0,
                .extra_terms = share > 0 && has_rare_penalty(config_.adversarial, state.step),
                .phase = schedule_.phase().name,
                .graphs_disabled_reason = graphs_disabled_reason_,
                .syncs_host = syncs_host_};
  if (objective_.adversary()) {
    plan.lr_factors.push_back(discriminator_lr_factor(config_, state.step, steps));
  }
  return plan;
}

/// One step of the generator (encoder E, codes c, decoder D) on the phase's objective and, where
/// the phase is adversarial, one of the discriminator on the same images. Both sides' gradients are
/// computed before either moves.
void TokenizerTask::step(const TensorBatch& batch, Step& step) {
  const auto slices = batch.front().chunk(config_.train.accumulate);
  Passed passed;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (!pass(slices[i], {static_cast<int64_t>(i), std::ssize(slices)}, step, passed)) return;
  }
  const auto& skip = step.update(passed.scalars, trained_modules(step.plan().adversarial));
  const auto indices = join(passed.indices);
  upkeep_.after_step(join(passed.latents), indices, step.inputs(), skip);
  step.rollback();  // before buffers are copied
  average_.copy_buffers();
  upkeep_.count(indices, passed.scalars, skip);
}

/// Forward and backward pass on a slice of the step's images; the slices' gradients add up to the
/// mean. False if the step was given up.
bool TokenizerTask::pass(const torch::Tensor& images, const SlicePass& slice, Step& step,
                         Passed& passed) {
  const auto latents = model_->to_latents(images);  // z_e = E(x)
  if (syncs_host_) {  // the search refuses NaN, which has no nearest code
    const bool codes = first_nonfinite(named_tensors(*model_->quantizer)).empty();
    if (step.any_rank(!codes || !at::isfinite(latents).all().item<bool>())) {
      step.abandon({{"latents", latents.mean()}, {"codes", latents.new_full({}, codes ? 1 : NAN)}});
      return false;
    }
  }
  const auto quantized =  // q = argmin_j |z_e - c_j|, and L_vq
      objective_.quantize(latents, schedule_.phase(), step.inputs(), slice);
  const auto reconstructions = model_->to_images(quantized.latents);  // D(z_q), z_q = c_q

  auto scalars = quantized.terms;
  if (!is_constant(config_.optimizer.schedule)) scalars["lr"] = optimizer_.lr();
  const auto mean = [&](const torch::Tensor& value) {
    return slice.count == 1 ? value : value / static_cast<double>(slice.count);
  };
  step.backward(
      mean(objective_.generator(images, reconstructions, quantized, step, slice, scalars)), *model_,
      slice.last());
  if (step.plan().adversarial) {
    auto& adversary = *objective_.adversary();
    const auto loss = objective_.discriminator(images, reconstructions, step, slice, scalars);
    const auto& schedule = config_.optimizer.discriminator_schedule;
    if (schedule.shape != "same" && !is_constant(schedule)) {
      scalars["lr_discriminator"] = adversary.optimizer().lr();
    }
    step.backward(mean(loss), adversary.module(), slice.last());
  }
  for (const auto& [name, value] : scalars) {
    auto& sum = passed.scalars[name];
    sum = sum.defined() ? sum + mean(value) : mean(value);
  }
  passed.latents.push_back(latents.detach());
  passed.indices.push_back(quantized.indices);
  return true;
}

std::vector<NamedModule> TokenizerTask::trained_modules(bool adversarial) {
  std::vector<NamedModule> modules = {{"encoder", model_->encoder.get()},
                                      {"quantizer", model_->quantizer.get()},
                                      {"decoder", model_->decoder.get()}};
  if (adversarial) modules.push_back({"discriminator", &objective_.adversary()->module()});
  return modules;
}

std::vector<Adam*> TokenizerTask::optimizers() {
  if (auto* adversary = objective_.adversary()) return {&optimizer_, &adversary->optimizer()};
  return {&optimizer_};
}

std::vector<torch::Tensor> TokenizerTask::state_outside_optimizers() {
  auto state = upkeep_.state_of_steps();
  if (const auto* adversary = objective_.adversary()) {
    const auto statistics = adversary->statistics();
    state.insert(state.end(), statistics.begin(), statistics.end());
  }
  return state;
}

// Section 4: phases.

void TokenizerTask::initialise(Journal& journal) {
  upkeep_.initialise(batches_);
  enter(journal, {0, "the run begins"});
}

/// Not where the phase begins: the checkpoint there is of the model that was evaluated.
void TokenizerTask::before_step(const RunState& state) {
  const bool trained_elsewhere = !config_.train.init_from.empty();
  if (schedule_.freezes_before(state.step, trained_elsewhere)) upkeep_.refit(batches_, state);
}

/// A phase that was due where the budget ended begins when the run is extended.
void TokenizerTask::resume(Journal& journal) {
  if (const auto transition = schedule_.resume(journal.state())) enter(journal, *transition);
}

/// Every schedule.epoch_steps steps.
void TokenizerTask::after_step(Journal& journal, const TensorBatch& /*batch*/) {
  end_schedule_epoch(journal, upkeep_.take_window_commitment());
}

void TokenizerTask::start_next_epoch(Journal& journal) {
  if (config_.schedule.epoch_steps > 0) return;
  end_schedule_epoch(journal, journal.epoch_mean("commitment"));
}

void TokenizerTask::end_schedule_epoch(Journal& journal, double commitment) {
  if (config_.schedule.commitment == "validation") commitment = drift_.commitment(*group_);
  const auto transition = schedule_.end_epoch(commitment, journal.more_to_come());
  if (const auto watched = schedule_.unlogged_commitment()) {
    journal.record("plateau", {{"commitment", *watched}});
  }
  if (transition) enter(journal, *transition);
}

/// A phase changes what trains and on which terms, and nothing else: weights, moments, learning
/// rates and the discriminator stay.
void TokenizerTask::enter(Journal& journal, const Transition& transition) {
  const auto& state = journal.state();
  schedule_.enter(transition, state.step);
  freeze_or_train();
  const bool by_steps = config_.schedule.epoch_steps > 0;
  log("phase {} from {} {}: {}", schedule_.phase().name, by_steps ? "step" : "epoch",
      (by_steps ? state.step : state.epoch) + 1, transition.reason);
  if (!schedule_.phase().train_quantizer) {
    log("encoder and codes are frozen: images keep their tokens");
  }
  journal.record_phase(transition.reason);
}

void TokenizerTask::freeze_or_train() {
  const auto& phase = schedule_.phase();
  const auto set = [](const torch::nn::Module& part, bool trains) {
    for (auto& parameter : part.parameters()) parameter.set_requires_grad(trains);
  };
  set(*model_->encoder, phase.train_encoder);
  set(*model_->quantizer, phase.train_quantizer);
}

// The run.

std::vector<RunObserver*> TokenizerTask::observers() {
  return {&start_report_, &upkeep_, &drift_, &check_, &health_, &validation_, &diagnosis_, this};
}

void TokenizerTask::start_fresh() {
  start_weights(*model_, config_);
  average_.copy_all();
}

RunState TokenizerTask::state_for_benchmark(int64_t phase) {
  const auto long_ago = std::numeric_limits<int64_t>::min() / 2;  // so that ramps have ended
  schedule_.enter({phase, "a benchmark"}, long_ago);
  freeze_or_train();
  return {.step = config_.adversarial.start_step};
}

// Checkpoints.

TensorFile TokenizerTask::model(const RunState& state) {
  return model_contents(
      named_tensors(*averaged_model_), config_,
      {{"nsvq.step", std::to_string(state.step)}, {"nsvq.epoch", std::to_string(state.epoch)}});
}

TensorMap TokenizerTask::training_state() {
  TensorMap all;
  add_prefixed(all, "model.", named_tensors(*model_));
  add_prefixed(all, "adam.", optimizer_.state());
  if (const auto* adversary = objective_.adversary()) {
    add_prefixed(all, "discriminator.", adversary->state());
  }
  add_prefixed(all, "drift.", drift_.state());
  all.merge(upkeep_.training_state());
  all.merge(health_.training_state());
  return all;
}

std::string TokenizerTask::state() const {
  auto all = schedule_.to_json();
  all.update(health_.to_json());
  all.update(drift_.to_json());
  all.update(validation_.to_json());
  return all.dump();
}

void TokenizerTask::load(const TensorMap& model, const TensorMap& training,
                         const std::string& state, const std::string& from) {
  read_task_state(state, from, [this](const nlohmann::json& all) {
    schedule_.from_json(all);
    health_.from_json(all);
    drift_.from_json(all);
    validation_.from_json(all);
  });
  load_tensors(*model_, with_prefix(training, "model."), from);
  load_tensors(*averaged_model_, model, from);
  optimizer_.load(with_prefix(training, "adam."), from);
  if (auto* adversary = objective_.adversary()) {
    adversary->load(with_prefix(training, "discriminator."), from);
  }
  drift_.load(with_prefix(training, "drift."), from);
  upkeep_.load(training, from);
  health_.load(training, from);
  freeze_or_train();
}

TensorMap TokenizerTask::shared_tensors() {
  TensorMap all;
  add_prefixed(all, "model.", named_tensors(*model_));
  add_prefixed(all, "average.", named_tensors(*averaged_model_));
  add_prefixed(all, "adam.", optimizer_.state());
  if (const auto* adversary = objective_.adversary()) {
    add_prefixed(all, "discriminator.", adversary->shared_tensors());
  }
  return all;
}

}  // namespace nsvq
