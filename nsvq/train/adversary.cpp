#include "nsvq/train/adversary.h"

#include <torch/utils.h>

#include "nsvq/core/seeds.h"
#include "nsvq/nn/layers.h"

namespace nsvq {

namespace {

Discriminator make_discriminator(const Config& config, c10::Device device) {
  torch::manual_seed(seed_for(config.seed, Draw::discriminator));
  Discriminator discriminator(config.adversarial);
  discriminator->check_image_size(config.data.size, config.data.size);
  discriminator->to(device);
  use_gpu_layout(*discriminator);
  return discriminator;
}

}  // namespace

Adversary::Adversary(const Config& config, c10::Device device)
    : config_(config.adversarial),
      precision_(choose_precision(config.train.precision, device)),
      device_(device),
      discriminator_(make_discriminator(config, device)),
      lecam_(std::make_shared<Lecam>()),
      optimizer_(named_parameters(*discriminator_, config.optimizer.scale.discriminator),
                 config.optimizer) {
  lecam_->to(device);
}

torch::Tensor Adversary::judge(const torch::Tensor& images) {
  const AutocastGuard autocast(precision_, device_);
  return at_least_fp32(discriminator_->forward(images));
}

torch::Tensor Adversary::generator_term(const torch::Tensor& reconstructions) {
  auto parameters = discriminator_->parameters();
  for (auto& parameter : parameters) parameter.set_requires_grad(false);
  const auto term = generator_loss(config_.generator_loss, judge(reconstructions));
  for (auto& parameter : parameters) parameter.set_requires_grad(true);
  return term;
}

torch::Tensor Adversary::weight(const torch::Tensor& share, const torch::Tensor& reconstruction,
                                const torch::Tensor& term, const torch::Tensor& last_layer,
                                const LossScale& scale) const {
  const auto fixed = share * config_.weight;
  if (!config_.adaptive) return fixed;
  return fixed * adaptive_weight(reconstruction, term, last_layer, scale.factor());
}

Scalars Adversary::backward(const torch::Tensor& images, const torch::Tensor& reconstructions,
                            const torch::Tensor& share, const LossScale& scale) {
  const auto real = judge(images);
  const auto fake = judge(reconstructions.detach());
  auto loss = discriminator_loss(config_.discriminator_loss, real, fake);
  Scalars scalars = {{"discriminator", loss.detach()},
                     {"logits_real", real.detach().mean()},
                     {"logits_fake", fake.detach().mean()}};
  if (config_.lecam > 0) {
    lecam_->update(real, fake);
    const auto penalty = lecam_->penalty(real, fake);
    scalars["lecam"] = penalty.detach();
    loss = loss + config_.lecam * penalty;
  }
  optimizer_.clear_gradients();
  scale.backward(share * loss, *discriminator_);
  return scalars;
}

std::vector<torch::Tensor> Adversary::statistics() const {
  auto statistics = discriminator_->buffers();
  const auto running = lecam_->buffers();
  statistics.insert(statistics.end(), running.begin(), running.end());
  return statistics;
}

TensorMap Adversary::state() const {
  TensorMap state;
  add_prefixed(state, "model.", named_tensors(*discriminator_));
  add_prefixed(state, "lecam.", named_tensors(*lecam_));
  add_prefixed(state, "adam.", optimizer_.state());
  return state;
}

void Adversary::load(const TensorMap& state, const std::string& from) {
  load_tensors(*discriminator_, with_prefix(state, "model."), from);
  load_tensors(*lecam_, with_prefix(state, "lecam."), from);
  optimizer_.load(with_prefix(state, "adam."), from);
}

}  // namespace nsvq
