#include "nsvq/core/error.h"
#include "nsvq/losses/loss.h"

namespace nsvq {

const std::vector<LossKind>& loss_kinds() {
  static const std::vector<LossKind> kinds = {
      l1_loss_kind(),         l2_loss_kind(),     chroma_loss_kind(),
      perceptual_loss_kind(), logits_loss_kind(),
  };
  return kinds;
}

std::vector<Option> loss_options(LossConfig& config) {
  std::vector<Option> rows;
  for (const auto& kind : loss_kinds()) {
    for (auto& row : kind.options(config)) rows.push_back(std::move(row));
  }
  rows.push_back({"loss.vq", &config.vq, "weight of the quantizer's loss", Range::at_least(0)});
  return rows;
}

std::vector<WeightedLoss> make_losses(const LossConfig& config, int64_t size, c10::Device device) {
  std::vector<WeightedLoss> losses;
  for (const auto& kind : loss_kinds()) {
    const double weight = kind.weight(config);
    if (weight != 0) losses.push_back({kind.name, weight, kind.make(config, size, device)});
  }
  return losses;
}

void check_losses(const LossConfig& config, int64_t size) {
  for (const auto& kind : loss_kinds()) {
    if (kind.check && kind.weight(config) != 0) kind.check(config, size);
  }
}

void check_loss_weights(const LossConfig& config) {
  if (config.of<L1LossConfig>().weight != 0 || config.of<L2LossConfig>().weight != 0) return;
  throw UserError(
      "loss.l1 and loss.l2 are both 0, so nothing asks for reconstruction; set one above 0");
}

}  // namespace nsvq
