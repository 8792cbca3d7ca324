#pragma once

#include <torch/types.h>

#include <string>

#include "nsvq/tokenizer/frozen_tokenizer.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

/// A trained tokenizer, which stays as it is: images to the tokens that a generator learns, and the
/// way back.
class TokenCodec {
 public:
  /// Throws UserError for a tokenizer without tokens.
  TokenCodec(LoadedModel model, c10::Device device);

  /// Images [B, 3, H, W] to tokens [B, h, w] int64, without gradients and without a host
  /// synchronisation; on a GPU a latent that is not finite gives -1.
  torch::Tensor encode(const torch::Tensor& images);
  /// Tokens [B, h, w] to images [B, 3, H, W].
  torch::Tensor decode(const torch::Tensor& tokens);

  int64_t codes() const { return model_.tokenizer->quantizer->codes(); }
  /// Pixels per token along each side.
  int64_t stride() const { return model_.config.model.stride(); }
  /// Tokens along a side of the images that the tokenizer was trained on.
  int64_t usual_side() const { return model_.config.data.size / stride(); }
  const LoadedModel& model() const { return model_; }
  std::string name() const { return model_.file.string(); }
  /// Where it is and the hash of its weights.
  const TokenizerReference& reference() const { return reference_; }

 private:
  LoadedModel model_;
  TokenizerReference reference_;
};

}  // namespace nsvq
