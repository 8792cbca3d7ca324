#include "nsvq/nn/model_config.h"

#include "nsvq/core/error.h"

namespace nsvq {

std::vector<Option> model_options(ModelConfig& model) {
  return {
      {"model.width", &model.width,
       "channels of the first level (normalised in 32 groups if a multiple of 32, else by fours)",
       Range::between(1, 4096)},
      {"model.multipliers", &model.multipliers,
       "channels of each level as multiples of the width; each level after the first halves the "
       "resolution",
       Range::list(1, 8, Range::between(1, 64))},
      {"model.blocks", &model.blocks, "residual blocks per level", Range::between(1, 16)},
      {"model.latent_dim", &model.latent_dim, "channels of a latent, and so of a code",
       Range::between(1, 4096)},
      {"model.attention", &model.attention, "levels with attention, counted from 0",
       Range::list(0, 8, Range::between(0, 7))},
      {"model.mid_attention", &model.mid_attention, "attention between the two middle blocks",
       Range::yes_no()},
      {"model.colors", &model.colors,
       "channels that the networks see and make; opponent: brightness and two enlarged differences "
       "of colours, which short runs learn sooner",
       Range::one_of({"rgb", "opponent"})},
  };
}

std::vector<Option> discriminator_options(DiscriminatorConfig& discriminator) {
  return {
      {"adversarial.width", &discriminator.width, "channels of the discriminator's first layer",
       Range::between(1, 1024)},
      {"adversarial.layers", &discriminator.layers, "its layers of stride 2", Range::between(1, 8)},
  };
}

void check_model(ModelConfig model) {
  require_in_range(model_options(model));
  const auto levels = static_cast<int64_t>(model.multipliers.size());
  for (const int64_t level : model.attention) {
    if (level < levels) continue;
    throw UserError("model.attention names level {}, but model.multipliers has levels 0..{}", level,
                    levels - 1);
  }
}

void check_discriminator(DiscriminatorConfig discriminator) {
  require_in_range(discriminator_options(discriminator));
}

}  // namespace nsvq
