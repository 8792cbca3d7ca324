#pragma once

#include <c10/core/Device.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "nsvq/nn/features/feature_net.h"

namespace nsvq {

/// LPIPS's learned weight of each channel of each activation: `lin0.weight` [1, C, 1, 1],
/// `lin1.weight` and so on; random until loaded.
struct LpipsHeads : torch::nn::Module {
  explicit LpipsHeads(const std::vector<int64_t>& channels);

  std::vector<torch::Tensor> weights;
};

/// LPIPS 0.1, the perceptual distance of Zhang et al. (2018): squared differences between two
/// images' activations, normalised to unit length over channels at each position, weighted by the
/// heads, averaged over positions and summed over layers. Frozen: no parameter requires a gradient.
class Lpips : public torch::nn::Module {
 public:
  /// `net`: vgg, alex or squeeze.
  explicit Lpips(const std::string& net);

  /// Tensors by the names that pretrained weights have (nsvq/nn/weights.h).
  void load(const TensorMap& net, const TensorMap& heads);

  /// Images and references [B, 3, H, W] in [-1, 1] to distances [B]. No graph is built for
  /// references that do not require a gradient.
  torch::Tensor forward(const torch::Tensor& images, const torch::Tensor& references);

  /// Throws UserError if images of this size are too small for the network. `forward` calls it too.
  void check_image_size(int64_t height, int64_t width) const;

 private:
  std::vector<torch::Tensor> features(const torch::Tensor& images);

  const FeatureNetKind& kind_;
  std::shared_ptr<FeatureNet> net_;
  std::shared_ptr<LpipsHeads> heads_;
  torch::Tensor shift_, scale_;  // [1, 3, 1, 1]
};

/// LPIPS with pretrained weights. Throws UserError saying how to get them if they are not stored;
/// logs a line if they are not the official ones.
std::shared_ptr<Lpips> make_lpips(const std::string& net, c10::Device device);

}  // namespace nsvq
