#include "nsvq/nn/model_config.h"

#include "nsvq/core/error.h"
#include "nsvq/nn/network_form.h"

namespace nsvq {

namespace {

Range one_or_three() {
  auto range = Range::between(1, 3);
  range.text = "1 or 3";
  return range;
}

/// Throws UserError for settings of quant_conv and post_quant_conv in a family without them.
void check_latent_convolutions(const ModelConfig& model) {
  if (model.latent_kernel == 2) {
    throw UserError("model.latent_kernel is 2; set it to 1 or 3");
  }
  if (network_form(model.family).latent_convolutions) return;
  const auto refuse = [&](const char* key, int64_t value, int64_t without) {
    if (value == without) return;
    throw UserError(
        "{} is {}, but the networks of model.family {} have no quant_conv; set it to {}, or "
        "model.family to taming",
        key, value, model.family, without);
  };
  refuse("model.z_channels", model.z_channels, 0);
  refuse("model.latent_kernel", model.latent_kernel, 1);
}

}  // namespace

std::vector<Option> model_options(ModelConfig& model) {
  return {
      {"model.family", &model.family,
       "what the networks are made of: nsvq as the paper, taming as taming-transformers' VQGAN and "
       "LlamaGen, maskgit as MaskGIT's VQGAN, maskbit as VQGAN+ and MaskBit, magvit2 as "
       "Open-MAGVIT2",
       Range::one_of(network_families())},
      {"model.width", &model.width,
       "channels of the first level (normalised in 32 groups if a multiple of 32, else by fours)",
       Range::between(1, 4096)},
      {"model.multipliers", &model.multipliers,
       "channels of each level as multiples of the width; each level after the first halves the "
       "resolution (model.halvings)",
       Range::list(1, 8, Range::between(1, 64))},
      {"model.blocks", &model.blocks, "residual blocks per level", Range::between(1, 16)},
      {"model.latent_dim", &model.latent_dim, "channels of a latent, and so of a code",
       Range::between(1, 4096)},
      {"model.z_channels", &model.z_channels,
       "taming: channels that the encoder makes and the decoder takes, which quant_conv and "
       "post_quant_conv map to and from a latent's; 0: as many",
       Range::between(0, 4096)},
      {"model.latent_kernel", &model.latent_kernel, "taming: kernel of these two convolutions",
       one_or_three()},
      {"model.halvings", &model.halvings,
       "how many levels halve the resolution for the next, from the first on; -1: all but the last",
       Range::between(-1, 7)},
      {"model.haar", &model.haar,
       "how often Haar wavelets halve the picture before the encoder, to 4 times the channels, and "
       "double it after the decoder; Cosmos' networks have 2",
       Range::between(0, 3)},
      {"model.attention", &model.attention, "levels with attention, counted from 0",
       Range::list(0, 8, Range::between(0, 7))},
      {"model.mid_attention", &model.mid_attention, "attention after the first middle block",
       Range::yes_no()},
      {"model.colors", &model.colors,
       "channels that the networks see and make; opponent: brightness and two enlarged differences "
       "of colours, which short runs learn sooner",
       Range::one_of({"rgb", "opponent"})},
      {"model.range", &model.range,
       "pixels as the networks see and make them: symmetric in [-1, 1], unit in [0, 1]",
       Range::one_of({"symmetric", "unit"})},
      {"model.rounding", &model.rounding,
       "how `detokenize` and `reconstruct` make 256 levels of pixels: nearest, or down, as several "
       "programs do whose models nsvq imports",
       Range::one_of({"nearest", "down"}), kNotOnResult},
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
  check_latent_convolutions(model);
  const auto levels = static_cast<int64_t>(model.multipliers.size());
  if (model.halvings >= levels) {
    throw UserError(
        "model.halvings is {}, but the last of {} levels (model.multipliers) has none after it",
        model.halvings, levels);
  }
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
