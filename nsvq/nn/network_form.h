#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// How an encoder's level halves the resolution: by a convolution of stride 2 whose padding is 1 on
/// all sides, by one padded on the right and at the bottom alone, or by means of 2x2.
enum class Halving { padded_around, padded_after, means };

/// How a decoder's level doubles it: by a convolution to 4C channels and depth-to-space, or by four
/// pixels of each and a convolution.
enum class Doubling { depth_to_space, nearest };

/// What the networks of a family are made of (model.family); the defaults are those of nsvq.
struct NetworkForm {
  std::string_view name = "nsvq";
  bool biases = false;              ///< in residual blocks and encoder.conv_in
  bool shortcut_of_result = false;  ///< a block's shortcut takes its result, not its input
  Halving halving = Halving::padded_around;
  Doubling doubling = Doubling::depth_to_space;
  int64_t more_decoder_blocks = 0;   ///< in each level than model.blocks
  bool middle_as_levels = false;     ///< model.blocks middle blocks, not two
  int64_t encoder_out_kernel = 1;    ///< of encoder.conv_out
  bool latent_convolutions = false;  ///< encoder.quant_conv and decoder.post_quant_conv
  bool adaptive_norms = false;       ///< one before each level of the decoder (AdaptiveNormImpl)
};

/// Throws UserError for a family that there is not.
const NetworkForm& network_form(const std::string& family);
std::vector<std::string> network_families();

}  // namespace nsvq
