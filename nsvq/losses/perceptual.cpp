#include <utility>

#include "nsvq/losses/loss.h"
#include "nsvq/losses/lpips.h"
#include "nsvq/nn/weights.h"

namespace nsvq {

namespace {

/// LPIPS, mean over the batch.
class PerceptualLoss : public Loss {
 public:
  explicit PerceptualLoss(std::shared_ptr<Lpips> lpips) : lpips_(std::move(lpips)) {}

  torch::Tensor operator()(const torch::Tensor& reconstructions,
                           const torch::Tensor& images) override {
    return lpips_->forward(reconstructions, images).mean();
  }

 private:
  std::shared_ptr<Lpips> lpips_;
};

std::unique_ptr<Loss> make_perceptual(const LossConfig& config, int64_t size, c10::Device device) {
  const auto& net = feature_net_kind(config.of<PerceptualLossConfig>().net);
  net.require_side("loss.perceptual: data.size", size);
  return std::make_unique<PerceptualLoss>(make_lpips(net.name, device));
}

void check_perceptual(const LossConfig& config, int64_t size) {
  const auto& net = feature_net_kind(config.of<PerceptualLossConfig>().net);
  net.require_side("loss.perceptual: data.size", size);
  for (const auto& file : {net.weights, "lpips-" + net.name}) weights_origin(file);
}

std::vector<Option> perceptual_options(LossConfig& config) {
  auto& perceptual = config.of<PerceptualLossConfig>();
  return {
      {"loss.perceptual", &perceptual.weight, "weight of the perceptual distance (LPIPS)",
       Range::at_least(0)},
      {"loss.perceptual_net", &perceptual.net,
       "its network; the weights come by `nsvq weights get lpips-NET`",
       Range::one_of(lpips_net_names())},
  };
}

}  // namespace

LossKind perceptual_loss_kind() {
  return {
      .name = "perceptual",
      .weight = [](const LossConfig& config) { return config.of<PerceptualLossConfig>().weight; },
      .options = perceptual_options,
      .make = make_perceptual,
      .check = check_perceptual};
}

}  // namespace nsvq
