#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"

namespace nsvq {

/// An image classifier without its last layers, frozen (requires_grad is false). Parameters are
/// named as in torchvision (`features.0.weight`) and random until loaded.
struct FeatureNet : torch::nn::Module {
  /// Images [B, 3, H, W] to activations [B, C, h, w], shallowest first. No later layer modifies
  /// them in place.
  virtual std::vector<torch::Tensor> features(const torch::Tensor& images) = 0;

 protected:
  /// Registers `part` as features.<index>.
  template <typename Part>
  std::shared_ptr<Part> add(int64_t index, std::shared_ptr<Part> part) {
    if (!features_) features_ = register_module("features", std::make_shared<torch::nn::Module>());
    for (auto& parameter : part->parameters()) parameter.set_requires_grad(false);
    return features_->register_module(std::to_string(index), std::move(part));
  }

 private:
  std::shared_ptr<torch::nn::Module> features_;
};

/// Input normalisation for images in [-1, 1]: (images - shift) / scale per channel. These are
/// ImageNet's mean and standard deviation, converted from [0, 1] and rounded as in LPIPS.
inline constexpr std::array<double, 3> kImageShift = {-0.030, -0.088, -0.188};
inline constexpr std::array<double, 3> kImageScale = {0.458, 0.448, 0.450};

/// `values` as a [1, 3, 1, 1] fp32 tensor, which broadcasts over images.
torch::Tensor per_channel(const std::array<double, 3>& values, c10::Device device = at::kCPU);

/// The default network.
inline constexpr auto kUsualFeatureNet = "vgg";

/// A registered feature network.
struct FeatureNetKind {
  std::string name;               ///< LPIPS's name for it, if it is one of LPIPS's
  std::string weights;            ///< name of its pretrained weights (nsvq/nn/weights.h)
  std::vector<int64_t> channels;  ///< of each activation
  int64_t least_size;             ///< least height and width of an image
  std::function<std::shared_ptr<FeatureNet>()> make;
  bool has_lpips = true;  ///< whether LPIPS has heads for it

  /// Throws UserError naming `setting` if images of side x side pixels are too small.
  void require_side(const std::string& setting, int64_t side) const;
};

const std::vector<FeatureNetKind>& feature_net_kinds();
/// Names of the networks that LPIPS has heads for.
std::vector<std::string> lpips_net_names();
/// Looks up a network by `name`; throws UserError listing the names if there is none.
const FeatureNetKind& feature_net_kind(const std::string& name);

/// Copies tensors into a module's parameters by name and ignores tensors of other names. Throws
/// UserError if one is missing, of another shape or not floating-point; `from` names the tensors'
/// origin in the message.
void load_parameters(torch::nn::Module& module, const TensorMap& tensors, const std::string& from);

}  // namespace nsvq
