#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "nsvq/nn/model_config.h"

// Forward declarations, because torch/nn/modules/*.h are slow to parse.
namespace torch::nn {
class BatchNorm2dImpl;
class Conv2dImpl;
}  // namespace torch::nn

namespace nsvq {

/// Makes a tensor its sum over ranks, in place.
using SumOverRanks = std::function<void(const torch::Tensor&)>;

/// A batch norm in training mode whose mean and variance are those of the images [B, C, H, W] of
/// all ranks, which may bring different numbers of them; its running statistics follow. One
/// collective forward and one backward. A gradient is that of the sum of all ranks' losses for
/// these images, of weight and bias that of this rank's share in it. No second derivative.
torch::Tensor sync_batch_norm(const torch::Tensor& images, torch::nn::BatchNorm2dImpl& norm,
                              const SumOverRanks& sum);

/// What tells images from reconstructions: images [B, 3, H, W] to logits [B, 1, h, w], high for
/// real ones. The networks are listed in discriminator_kinds.h.
struct DiscriminatorNetwork : torch::nn::Module {
  virtual torch::Tensor forward(torch::Tensor images) = 0;
  /// From now on batch norms in training mode have the statistics of all ranks' images.
  virtual void synchronize(SumOverRanks /*sum*/) {}
  /// Throws UserError for images of a size that the network cannot take. `forward` calls it too;
  /// call it when a run is set up, because the first `forward` may come as late as
  /// adversarial.start_step.
  virtual void check_image_size(int64_t height, int64_t width) const = 0;
};

/// PatchGAN: images [B, 3, H, W] to logits [B, 1, h, w], one per patch, high for real ones;
/// h = floor(H / 2^layers) - 2. Parameter names and initial values are those of
/// taming-transformers' NLayerDiscriminator.
///
/// Training uses it in training mode throughout, for its own loss and for the generator's. Its
/// batch norms then normalise by the statistics of the batch, so real images and reconstructions go
/// through separate calls, and every call updates the running statistics (buffers
/// `main.*.running_mean`, `running_var`, `num_batches_tracked`), which only evaluation mode reads.
struct DiscriminatorImpl : DiscriminatorNetwork {
  /// Throws UserError naming the key if an option is out of range.
  explicit DiscriminatorImpl(const DiscriminatorConfig& options);
  torch::Tensor forward(torch::Tensor images) override;
  void synchronize(SumOverRanks sum) override { sum_ = std::move(sum); }
  /// Throws UserError if images of this size are too small for one patch.
  void check_image_size(int64_t height, int64_t width) const override;

 private:
  struct Layer {
    std::shared_ptr<torch::nn::Conv2dImpl> conv;
    std::shared_ptr<torch::nn::BatchNorm2dImpl> norm;  // null in the first and the last layer
  };

  int64_t layers_;
  std::vector<Layer> main_;
  SumOverRanks sum_;  ///< none: batch norms see this process's images alone
};
TORCH_MODULE(Discriminator);

}  // namespace nsvq
