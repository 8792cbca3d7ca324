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

namespace nsvq {

/// The convolutions of a classifier, to look at images with: its parameters ask for no gradients.
/// They are named as in torchvision (`features.0.weight`) and random until loaded.
struct FeatureNet : torch::nn::Module {
  /// Images [B, 3, H, W] to activations [B, C, h, w] of rising depth. None of them changes later.
  virtual std::vector<torch::Tensor> features(const torch::Tensor& images) = 0;

 protected:
  FeatureNet();
  /// Makes `part` features.<index>.
  template <typename Part>
  std::shared_ptr<Part> add(int64_t index, std::shared_ptr<Part> part) {
    for (auto& parameter : part->parameters()) parameter.set_requires_grad(false);
    return features_->register_module(std::to_string(index), std::move(part));
  }

 private:
  std::shared_ptr<torch::nn::Module> features_;
};

/// What turns images in [-1, 1] into what the networks were trained on, (images - shift) / scale by
/// channel: ImageNet's mean and deviation for values in [0, 1], as LPIPS rounds them.
inline constexpr std::array<double, 3> kImageShift = {-0.030, -0.088, -0.188};
inline constexpr std::array<double, 3> kImageScale = {0.458, 0.448, 0.450};

/// One of these as [1, 3, 1, 1] fp32, to be used with images.
torch::Tensor per_channel(const std::array<double, 3>& values, c10::Device device = at::kCPU);

/// A member of the family.
struct FeatureNetKind {
  std::string name;               ///< as LPIPS calls it
  std::string weights;            ///< its file in the store of weights (nsvq/io/weights.h)
  std::vector<int64_t> channels;  ///< of each activation
  int64_t least_size;             ///< least height and width of an image
  std::function<std::shared_ptr<FeatureNet>()> make;

  /// Throws UserError, naming the setting that holds it, if images of this side are too small.
  void require_side(const std::string& setting, int64_t side) const;
};

const std::vector<FeatureNetKind>& feature_net_kinds();
/// By `name`; throws UserError with the names there are.
const FeatureNetKind& feature_net_kind(const std::string& name);

/// Fills the parameters of a module with tensors of the same names; tensors of other names are
/// passed over. Throws UserError, calling the tensors' origin `from`, when one is missing, of
/// another shape, or not of floating-point numbers.
void load_parameters(torch::nn::Module& module, const std::map<std::string, torch::Tensor>& tensors,
                     const std::string& from);

}  // namespace nsvq
