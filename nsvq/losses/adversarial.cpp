#include "nsvq/losses/adversarial.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/losses/augmentation.h"
#include "nsvq/nn/discriminator_kinds.h"

namespace nsvq {

namespace {

using torch::Tensor;

constexpr double kLecamDecay = 0.999;
constexpr double kLeastNorm = 1e-4;
constexpr size_t kMostAugmentations = 4;

Tensor non_saturating_generator(const Tensor& fake) {
  TORCH_CHECK(fake.dim() == 4, "generator_loss: needs logits [B, 1, h, w], got ", fake.sizes());
  return at::softplus(-fake.mean({1, 2, 3})).mean();
}

Tensor hinge_generator(const Tensor& fake) { return -fake.mean(); }

Tensor hinge_discriminator(const Tensor& real, const Tensor& fake) {
  return 0.5 * (at::relu(1 - real).mean() + at::relu(1 + fake).mean());
}

Tensor vanilla_discriminator(const Tensor& real, const Tensor& fake) {
  return 0.5 * (at::softplus(-real).mean() + at::softplus(fake).mean());
}

template <typename Function>
struct Kind {
  const char* name;
  Function function;
};

constexpr Kind<Tensor (*)(const Tensor&)> kGeneratorLosses[] = {
    {"non_saturating", non_saturating_generator},
    {"hinge", hinge_generator},
};

constexpr Kind<Tensor (*)(const Tensor&, const Tensor&)> kDiscriminatorLosses[] = {
    {"hinge", hinge_discriminator},
    {"vanilla", vanilla_discriminator},
};

void move_towards(Tensor& average, const Tensor& logits) {
  const auto mean = logits.mean(at::kDouble).to(average.device());
  const auto moved = average * kLecamDecay + mean * (1 - kLecamDecay);
  average.copy_(at::where(mean.isfinite(), moved, average));
}

Tensor gradient_norm(const Tensor& loss, const Tensor& parameter) {
  return torch::autograd::grad({loss}, {parameter}, {}, /*retain_graph=*/true).at(0).norm();
}

}  // namespace

std::vector<Option> adversarial_options(AdversarialConfig& adversarial) {
  const std::vector<Option> rows = {
      {"adversarial.weight", &adversarial.weight,
       "weight of the adversarial loss; 0: no discriminator", Range::between(0, 1e9)},
      {"adversarial.adaptive", &adversarial.adaptive,
       "scale that weight by the ratio of the gradients at the decoder's last layer",
       Range::yes_no()},
      {"adversarial.least_ratio", &adversarial.least_ratio,
       "adaptive: the least ratio that counts; 0: no bound", Range::between(0, 1e30)},
      {"adversarial.most_ratio", &adversarial.most_ratio,
       "adaptive: the largest ratio that counts; while a new discriminator is at chance, its "
       "gradient is small and the ratio large",
       Range::between(1e-30, 1e30)},
      {"adversarial.start_step", &adversarial.start_step,
       "steps before the discriminator and its loss set in", Range::at_least(0)},
      {"adversarial.generator_loss", &adversarial.generator_loss,
       "what the generator minimises: softplus(-logit) or -logit",
       Range::one_of(names_of(kGeneratorLosses))},
      {"adversarial.discriminator_loss", &adversarial.discriminator_loss,
       "the discriminator's loss", Range::one_of(names_of(kDiscriminatorLosses))},
      {"adversarial.lecam", &adversarial.lecam, "weight of the LeCAM regulariser; 0: off",
       Range::at_least(0)},
      {"adversarial.r1", &adversarial.r1,
       "weight of R1, half the squared norm of the gradient of a real image's mean logit; 0: off",
       Range::between(0, 1e9)},
      {"adversarial.r1_every", &adversarial.r1_every,
       "steps from one with R1 to the next; its weight is multiplied by this number",
       Range::between(1, 1000000)},
      {"adversarial.augment", &adversarial.augment,
       "random changes of images and reconstructions before the discriminator, each its own: flip, "
       "colour, shift (by up to an eighth of the side) or cutout (a square of half the side)",
       Range::list(1, kMostAugmentations, Range::one_of(augmentation_names()))},
      {"adversarial.target_hinge", &adversarial.target_hinge,
       "the discriminator holds still while the running mean (decay 0.99) of its hinge loss, 1 at "
       "chance, is below this; 0: it never does",
       Range::from_to_below(0, 1)},
  };
  const std::vector<Option> network = {{"adversarial.network", &adversarial.network,
                                        "the discriminator's network: patch (PatchGAN), or "
                                        "stylegan: residual blocks that blur before "
                                        "they halve the resolution, and one logit an image",
                                        Range::one_of(names_of(discriminator_kinds()))}};
  return joined({rows, network, discriminator_options(adversarial)});
}

std::vector<std::string> adversarial_defaults(const AdversarialConfig& config, int64_t size) {
  const auto& kind = discriminator_kind(config.network);
  if (!kind.layers) return {};
  return {fmt::format("adversarial.layers={}", kind.layers(size))};
}

void check_adversarial(const AdversarialConfig& adversarial) {
  const auto& augment = adversarial.augment;
  for (auto name = augment.begin(); name != augment.end(); ++name) {
    if (std::find(augment.begin(), name, *name) != name) {
      throw UserError("adversarial.augment names {} twice", *name);
    }
    if (*name == "none" && augment.size() > 1) {
      throw UserError("adversarial.augment names none beside others; name none or the others");
    }
  }
  if (adversarial.least_ratio > adversarial.most_ratio) {
    throw UserError("adversarial.least_ratio is {}, above adversarial.most_ratio {}",
                    adversarial.least_ratio, adversarial.most_ratio);
  }
  if (adversarial.target_hinge > 0 && adversarial.discriminator_loss != "hinge") {
    throw UserError(
        "adversarial.target_hinge is {}, but adversarial.discriminator_loss is {}; set it to hinge "
        "or the target to 0",
        adversarial.target_hinge, adversarial.discriminator_loss);
  }
}

Tensor generator_loss(const std::string& kind, const Tensor& fake_logits) {
  const auto& loss = find_named(kGeneratorLosses, "loss", kind, "adversarial.generator_loss");
  return loss.function(fake_logits);
}

Tensor discriminator_loss(const std::string& kind, const Tensor& real_logits,
                          const Tensor& fake_logits) {
  const auto& loss =
      find_named(kDiscriminatorLosses, "loss", kind, "adversarial.discriminator_loss");
  return loss.function(real_logits, fake_logits);
}

Lecam::Lecam() {
  ema_real_ = register_buffer("ema_real", at::zeros({}, at::kDouble));
  ema_fake_ = register_buffer("ema_fake", at::zeros({}, at::kDouble));
}

void Lecam::update(const Tensor& real_logits, const Tensor& fake_logits) {
  const torch::NoGradGuard no_grad;
  move_towards(ema_real_, real_logits);
  move_towards(ema_fake_, fake_logits);
}

Tensor Lecam::penalty(const Tensor& real_logits, const Tensor& fake_logits) const {
  // Zero-dimensional fp64 tensors do not promote fp32 logits.
  return at::relu(real_logits - ema_fake_).square().mean() +
         at::relu(ema_real_ - fake_logits).square().mean();
}

Tensor r1_penalty(const Tensor& images, const Tensor& logits, const Tensor& scale) {
  const auto sum = logits.mean({1, 2, 3}).sum();
  auto gradient = torch::autograd::grad({scale.defined() ? sum * scale : sum}, {images}, {},
                                        /*retain_graph=*/true, /*create_graph=*/true)
                      .at(0);
  if (scale.defined()) gradient = gradient / scale;
  return gradient.square().sum({1, 2, 3}).mean() / 2;
}

Tensor adaptive_weight(const Tensor& reconstruction_loss, const Tensor& adversarial_loss,
                       const Tensor& last_layer, const RatioBounds& bounds, const Tensor& scale) {
  const auto norm = [&](const Tensor& loss) {
    if (!scale.defined()) return gradient_norm(loss, last_layer);
    return gradient_norm(loss * scale, last_layer) / scale;
  };
  const auto ratio = norm(reconstruction_loss) / (norm(adversarial_loss) + kLeastNorm);
  return ratio.clamp(bounds.least, bounds.most).detach();
}

}  // namespace nsvq
