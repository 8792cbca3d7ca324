#include <ATen/autocast_mode.h>

#include <array>
#include <memory>
#include <string>

#include "nsvq/core/log.h"
#include "nsvq/core/precision.h"
#include "nsvq/losses/loss.h"
#include "nsvq/nn/features/resized.h"
#include "nsvq/nn/features/resnet50.h"
#include "nsvq/nn/layers.h"
#include "nsvq/nn/weights.h"

namespace nsvq {

namespace {

constexpr int64_t kSide = 224;  // of the images that the network was trained on
constexpr const char* kNetwork = "resnet50";
constexpr const char* kHead = "resnet50-fc";
// ImageNet's, of images in [0, 1].
constexpr std::array<double, 3> kMean = {0.485, 0.456, 0.406};
constexpr std::array<double, 3> kDeviation = {0.229, 0.224, 0.225};

/// Mean squared difference of ResNet-50's logits (MaskBit, Weber et al. 2024).
class LogitsLoss : public Loss {
 public:
  explicit LogitsLoss(c10::Device device)
      : mean_(per_channel(kMean, device)), deviation_(per_channel(kDeviation, device)) {
    const auto load = [&](torch::nn::Module& module, const char* name) {
      const auto weights = load_weights(name);
      load_parameters(module, weights.tensors, std::string("weights ") + name);
      if (!weights.official) {
        log("loss.logits: the stored {} ({}) are not the official values", name, weights.source);
      }
      module.to(device);
      use_gpu_layout(module);
      module.eval();
    };
    load(net_, kNetwork);
    load(head_, kHead);
  }

  torch::Tensor operator()(const torch::Tensor& reconstructions,
                           const torch::Tensor& images) override {
    torch::Tensor theirs;
    {
      const torch::NoGradGuard no_grad;
      theirs = logits(images);
    }
    return at::mse_loss(logits(reconstructions), theirs);
  }

 private:
  /// [B, 1000] in fp32 at least.
  torch::Tensor logits(const torch::Tensor& images) {
    return at_least_fp32(head_.forward(net_.features(prepared(images)).back()));
  }

  torch::Tensor prepared(const torch::Tensor& images) const {
    const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
    return ((resized(images, kSide) + 1) / 2 - mean_) / deviation_;
  }

  ResNet50 net_;
  ResNet50Head head_;
  torch::Tensor mean_, deviation_;  // [1, 3, 1, 1]
};

}  // namespace

LossKind logits_loss_kind() {
  return {
      .name = "logits",
      .weight = [](const LossConfig& config) { return config.of<LogitsLossConfig>().weight; },
      .options = [](LossConfig& config) -> std::vector<Option> {
        return {{"loss.logits", &config.of<LogitsLossConfig>().weight,
                 "weight of the squared difference of ResNet-50's logits on images of 224 x 224 "
                 "pixels; the weights come by `nsvq weights import`",
                 Range::at_least(0)}};
      },
      .make = [](const LossConfig&, int64_t,
                 c10::Device device) { return std::make_unique<LogitsLoss>(device); },
      .check =
          [](const LossConfig&, int64_t) {
            for (const auto* file : {kNetwork, kHead}) weights_origin(file);
          }};
}

}  // namespace nsvq
