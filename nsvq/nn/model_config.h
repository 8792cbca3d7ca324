#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings model.*: encoder and decoder.
struct ModelConfig {
  std::string family = "nsvq";
  int64_t width = 128;
  std::vector<int64_t> multipliers = {1, 2, 2, 4};
  int64_t blocks = 2;
  int64_t latent_dim = 128;
  int64_t z_channels = 0;
  int64_t latent_kernel = 1;
  int64_t halvings = -1;
  int64_t haar = 0;
  std::vector<int64_t> attention;
  bool mid_attention = false;
  std::string colors = "rgb";
  std::string range = "symmetric";
  std::string rounding = "nearest";

  /// Levels, from the first on, that halve the resolution.
  int64_t halving_levels() const {
    return halvings < 0 ? static_cast<int64_t>(multipliers.size()) - 1 : halvings;
  }
  /// Pixels per latent along each side.
  int64_t stride() const { return int64_t{1} << (halving_levels() + haar); }
  /// Channels of a picture as the networks see it: those of 3 colours, four times as many after
  /// each Haar transform.
  int64_t picture_channels() const { return int64_t{3} << (2 * haar); }
  /// Channels between conv_out and quant_conv of family taming; of others those of a latent.
  int64_t inner_channels() const { return z_channels == 0 ? latent_dim : z_channels; }
};

std::vector<Option> model_options(ModelConfig& model);
/// Throws UserError, naming the key, for what no network can be made of.
void check_model(ModelConfig model);

/// The discriminator's network: adversarial.width and adversarial.layers.
struct DiscriminatorConfig {
  int64_t width = 64;
  int64_t layers = 3;
};

std::vector<Option> discriminator_options(DiscriminatorConfig& discriminator);
/// Throws UserError, naming the key, for what no network can be made of.
void check_discriminator(DiscriminatorConfig discriminator);

}  // namespace nsvq
