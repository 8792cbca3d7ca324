#include "nsvq/train/vq/adversary.h"

#include <algorithm>

#include "nsvq/core/random.h"
#include "nsvq/nn/layers.h"
#include "nsvq/train/steps/lr_schedule.h"

namespace nsvq {

namespace {

std::shared_ptr<DiscriminatorNetwork> make_discriminator(const TokenizerConfig& config,
                                                         c10::Device device) {
  const SeedGuard seeded(seed_for(config.seed, Draw::discriminator));
  const auto& kind = discriminator_kind(config.adversarial.network);
  const auto discriminator = kind.make(config.adversarial, config.data.size);
  discriminator->to(device);
  use_gpu_layout(*discriminator);
  return discriminator;
}

/// The mean over ranks, as a tensor like `logits` with one element.
torch::Tensor mean_over_ranks(const torch::Tensor& logits, Group* group) {
  if (!group || group->alone()) return logits;
  const auto mean = logits.detach().mean().reshape({1});
  group->sum({mean});
  return mean / group->size();
}

}  // namespace

Adversary::Adversary(const TokenizerConfig& config, c10::Device device,
                     std::shared_ptr<Group> group)
    : config_(config.adversarial),
      shared_batch_norm_(config.dist.batch_norm == "all"),
      precision_(choose_precision(config.train.precision, device)),
      device_(device),
      discriminator_(make_discriminator(config, device)),
      group_(std::move(group)),
      lecam_(std::make_shared<Lecam>()),
      optimizer_(named_parameters(*discriminator_, config.optimizer.scale.discriminator),
                 config.optimizer) {
  lecam_->to(device);
  if (config_.target_hinge > 0) {
    floor_ = std::make_shared<HingeFloor>(config_.target_hinge, config.train.accumulate);
    floor_->to(device);
  }
  if (shared_batch_norm_ && group_ && group_->size() > 1) {
    discriminator_->synchronize([ranks = group_](const auto& tensor) { ranks->sum({tensor}); });
  }
}

torch::Tensor Adversary::judge(const torch::Tensor& images) {
  const AutocastGuard autocast(precision_, device_);
  return at_least_fp32(discriminator_->forward(images));
}

/// Images as the discriminator gets them. Augmented in fp32.
torch::Tensor Adversary::prepared(const torch::Tensor& images, const PassDraws& draws,
                                  Judged judged) const {
  if (config_.augment.front() == "none" || !draws.seed.defined()) return images;
  return augmented(images, config_.augment, draws.seed, draws.part * images.size(0), judged);
}

torch::Tensor Adversary::generator_term(const torch::Tensor& reconstructions,
                                        const PassDraws& draws) {
  auto parameters = discriminator_->parameters();
  for (auto& parameter : parameters) parameter.set_requires_grad(false);
  const auto term = generator_loss(config_.generator_loss,
                                   judge(prepared(reconstructions, draws, Judged::by_generator)));
  for (auto& parameter : parameters) parameter.set_requires_grad(true);
  return term;
}

torch::Tensor Adversary::weight(const torch::Tensor& share, const torch::Tensor& reconstruction,
                                const torch::Tensor& term, const torch::Tensor& last_layer,
                                const LossScale& scale) const {
  const auto fixed = share * config_.weight;
  if (!config_.adaptive) return fixed;
  const RatioBounds bounds{.least = config_.least_ratio, .most = config_.most_ratio};
  return fixed * adaptive_weight(reconstruction, term, last_layer, bounds, scale.factor());
}

torch::Tensor Adversary::objective(const torch::Tensor& images,
                                   const torch::Tensor& reconstructions, Scalars& scalars,
                                   const PassDraws& draws, const PenaltyPass& pass) {
  const bool penalised = config_.r1 > 0 && (config_.r1_every == 1 || pass.due);
  auto real_images = prepared(images, draws, Judged::images);
  if (penalised) real_images = real_images.detach().requires_grad_();
  const auto real = judge(real_images);
  const auto fake = judge(prepared(reconstructions.detach(), draws, Judged::reconstructions));
  auto loss = discriminator_loss(config_.discriminator_loss, real, fake);
  scalars["discriminator"] = loss.detach();
  if (floor_) {
    const auto held = floor_->update(mean_over_ranks(loss.detach(), group_.get()));
    optimizer_.hold_where(held);
    scalars["discriminator_held"] = held.to(loss.scalar_type());
  }
  scalars["logits_real"] = real.detach().mean();
  scalars["logits_fake"] = fake.detach().mean();
  if (config_.lecam > 0) {
    lecam_->update(mean_over_ranks(real, group_.get()), mean_over_ranks(fake, group_.get()));
    const auto penalty = lecam_->penalty(real, fake);
    scalars["lecam"] = penalty.detach();
    loss = loss + config_.lecam * penalty;
  }
  if (config_.r1 > 0) {
    // The scalar is there in each step: those of one kind log the same names.
    const auto r1 = penalised ? r1_penalty(real_images, real, pass.scale) * config_.r1_every
                              : at::zeros({}, loss.options());
    scalars["r1"] = r1.detach();
    loss = loss + config_.r1 * r1;
  }
  return loss;
}

std::vector<torch::Tensor> Adversary::statistics() const {
  auto statistics = discriminator_->buffers();
  const auto running = lecam_->buffers();
  statistics.insert(statistics.end(), running.begin(), running.end());
  if (floor_) statistics.push_back(floor_->buffers().front());
  return statistics;
}

TensorMap Adversary::state() const {
  TensorMap state;
  add_prefixed(state, "model.", named_tensors(*discriminator_));
  add_prefixed(state, "lecam.", named_tensors(*lecam_));
  if (floor_) add_prefixed(state, "hinge.", named_tensors(*floor_));
  add_prefixed(state, "adam.", optimizer_.state());
  return state;
}

TensorMap Adversary::shared_tensors() const {
  TensorMap all;
  for (const auto& item : discriminator_->named_parameters()) all[item.key()] = item.value();
  if (shared_batch_norm_) {
    for (const auto& item : discriminator_->named_buffers()) all[item.key()] = item.value();
  }
  add_prefixed(all, "adam.", optimizer_.state());
  return all;
}

void Adversary::load(const TensorMap& state, const std::string& from) {
  load_tensors(*discriminator_, with_prefix(state, "model."), from);
  load_tensors(*lecam_, with_prefix(state, "lecam."), from);
  if (floor_) load_tensors(*floor_, with_prefix(state, "hinge."), from);
  optimizer_.load(with_prefix(state, "adam."), from);
}

bool has_rare_penalty(const AdversarialConfig& config, int64_t step) {
  return config.r1 > 0 && config.r1_every > 1 && (step + 1) % config.r1_every == 0;
}

double discriminator_lr_factor(const TokenizerConfig& config, int64_t step, int64_t steps) {
  const auto& schedule = config.optimizer.discriminator_schedule;
  if (schedule.shape == "same") return lr_factor(config.optimizer.schedule, step, steps);
  const int64_t start = config.adversarial.start_step;
  return lr_factor(schedule, std::max<int64_t>(0, step - start), steps - start);
}

}  // namespace nsvq
