#include "nsvq/losses/loss.h"
#include "nsvq/losses/pixel.h"

namespace nsvq {

const std::vector<LossKind>& loss_kinds() {
  static const std::vector<LossKind> kinds = {
      {"l1", &LossConfig::l1, [] { return std::make_unique<L1Loss>(); }},
      {"l2", &LossConfig::l2, [] { return std::make_unique<L2Loss>(); }},
  };
  return kinds;
}

std::vector<WeightedLoss> make_losses(const LossConfig& config) {
  std::vector<WeightedLoss> losses;
  for (const auto& kind : loss_kinds()) {
    const double weight = config.*kind.weight;
    if (weight != 0) losses.push_back({kind.name, weight, kind.make()});
  }
  return losses;
}

}  // namespace nsvq
