#include "nsvq/losses/loss.h"
#include "nsvq/losses/perceptual.h"
#include "nsvq/losses/pixel.h"

namespace nsvq {

namespace {

template <typename Member>
std::unique_ptr<Loss> plain(const Config& /*config*/, c10::Device /*device*/) {
  return std::make_unique<Member>();
}

std::unique_ptr<Loss> perceptual(const Config& config, c10::Device device) {
  const auto& kind = feature_net_kind(config.loss.perceptual_net);
  kind.require_side("loss.perceptual: data.size", config.data.size);
  return std::make_unique<PerceptualLoss>(make_lpips(kind.name, device));
}

}  // namespace

const std::vector<LossKind>& loss_kinds() {
  static const std::vector<LossKind> kinds = {
      {"l1", &LossConfig::l1, plain<L1Loss>},
      {"l2", &LossConfig::l2, plain<L2Loss>},
      {"chroma", &LossConfig::chroma, plain<ChromaLoss>},
      {"perceptual", &LossConfig::perceptual, perceptual},
  };
  return kinds;
}

std::vector<WeightedLoss> make_losses(const Config& config, c10::Device device) {
  std::vector<WeightedLoss> losses;
  for (const auto& kind : loss_kinds()) {
    const double weight = config.loss.*kind.weight;
    if (weight != 0) losses.push_back({kind.name, weight, kind.make(config, device)});
  }
  return losses;
}

}  // namespace nsvq
