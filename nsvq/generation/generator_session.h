#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "nsvq/core/precision.h"
#include "nsvq/generation/generator_model.h"
#include "nsvq/generation/sampling/token_sampler.h"
#include "nsvq/generation/tokens/token_codec.h"
#include "nsvq/train/steps/cuda_graph.h"

namespace nsvq {

/// A side of an image on which it goes on.
enum class ImageSide { left, right, top, bottom };

/// A trained generator in use, with its tokenizer if it has one: samples tokens and images. Sets
/// torch's process-wide flags as InferenceSession does, so one session is used at a time.
class GeneratorSession {
 public:
  struct Options {
    std::string tokenizer;  ///< empty: where find_tokenizer looks
    c10::Device device = at::kCPU;
    int64_t threads = 0;      ///< of torch's CPU operators; 0: as many as this process may use
    int64_t batch_size = 64;  ///< images that a GPU samples together
  };

  /// The generator's sampling.* settings decide how it samples. By its weights the tokenizer must
  /// be the one of training. Throws UserError.
  GeneratorSession(LoadedGenerator generator, const Options& options);

  /// [images, h, w] int64 on the session's device.
  torch::Tensor sample_tokens(const GenerationRequest& request);
  /// Tokens [images, h, w] to images [images, 3, H, W] in [-1, 1], decoded in batches of one size.
  /// Throws UserError without a tokenizer.
  torch::Tensor decode(const torch::Tensor& tokens);
  torch::Tensor sample(const GenerationRequest& request) { return decode(sample_tokens(request)); }

  /// Images like `image` [3, H, W] where `mask` [h, w] of booleans is false, and new where it is
  /// true. `request.given` is set here. Throws UserError for a generator that cannot fill gaps.
  torch::Tensor fill(const torch::Tensor& image, const torch::Tensor& mask,
                     GenerationRequest request);
  /// Images of which `image` [3, H, W] goes on to a side by half of it.
  torch::Tensor continued(const torch::Tensor& image, ImageSide side, GenerationRequest request);

  bool has_tokenizer() const { return codec_.has_value(); }
  /// Throws UserError without one.
  TokenCodec& codec();
  /// Sides of an image in pixels; throws UserError without a tokenizer.
  int64_t image_height() { return grid().height * codec().stride(); }
  int64_t image_width() { return grid().width * codec().stride(); }
  const GenerationConfig& config() const { return generator_.config; }
  const GridShape& grid() const { return generator_.grid; }
  const LoadedGenerator& generator() const { return generator_; }
  /// sha256 over generator and tokenizer, on which images depend besides settings. Before the first
  /// sample, which casts weights for good.
  std::string sha256() const;
  c10::Device device() const { return device_; }

 private:
  torch::Tensor tokens_of(const torch::Tensor& image);
  void require_fills_gaps() const;

  LoadedGenerator generator_;
  c10::Device device_;
  TorchFlags flags_;
  SideStreamGuard stream_;
  AutocastCacheGuard cached_casts_;  ///< weights are cast once
  std::optional<TokenCodec> codec_;
  std::optional<TokenSampler> sampler_;
  bool cast_ = false;  ///< weights, for sampling
};

}  // namespace nsvq
