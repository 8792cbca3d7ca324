#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "nsvq/core/config.h"

// As in nsvq/nn/layers.h: the headers of these are slow to parse.
namespace torch::nn {
class BatchNorm2dImpl;
class Conv2dImpl;
}  // namespace torch::nn

namespace nsvq {

/// PatchGAN: images [B, 3, H, W] to logits [B, 1, h, w], one for each patch, high for real ones;
/// h = H / 2^layers - 2, rounded down before the subtraction. Names and initial values of the
/// parameters are those of taming-transformers' NLayerDiscriminator.
///
/// In training mode, the mode it is trained and trained against in, a call normalises by the
/// statistics of its own batch: real and reconstructed images go in separate calls. Every such call
/// moves the running statistics (buffers `main.*.running_mean`, `running_var`,
/// `num_batches_tracked`), which only evaluation mode reads.
struct DiscriminatorImpl : torch::nn::Module {
  /// Throws UserError naming the key for options that no discriminator can have.
  explicit DiscriminatorImpl(const AdversarialConfig& options);
  torch::Tensor forward(torch::Tensor images);

  /// Throws UserError if images of this size leave no patch. `forward` calls it; call it where a
  /// run is set up, since the first call may come only at adversarial.start_step.
  void check_image_size(int64_t height, int64_t width) const;

 private:
  struct Layer {
    std::shared_ptr<torch::nn::Conv2dImpl> conv;
    std::shared_ptr<torch::nn::BatchNorm2dImpl> norm;  // null in the first and the last layer
  };

  int64_t layers_;
  std::vector<Layer> main_;
};
TORCH_MODULE(Discriminator);

}  // namespace nsvq
