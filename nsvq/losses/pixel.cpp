#include "nsvq/losses/pixel.h"

namespace nsvq {

LossKind l1_loss_kind() {
  return {
      .name = "l1",
      .weight = [](const LossConfig& config) { return config.of<L1LossConfig>().weight; },
      .options = [](LossConfig& config) -> std::vector<Option> {
        return {{"loss.l1", &config.of<L1LossConfig>().weight,
                 "weight of the absolute reconstruction error", Range::at_least(0)}};
      },
      .make = [](const LossConfig&, int64_t, c10::Device) { return std::make_unique<L1Loss>(); }};
}

LossKind l2_loss_kind() {
  return {
      .name = "l2",
      .weight = [](const LossConfig& config) { return config.of<L2LossConfig>().weight; },
      .options = [](LossConfig& config) -> std::vector<Option> {
        return {{"loss.l2", &config.of<L2LossConfig>().weight,
                 "weight of the squared reconstruction error", Range::at_least(0)}};
      },
      .make = [](const LossConfig&, int64_t, c10::Device) { return std::make_unique<L2Loss>(); }};
}

LossKind chroma_loss_kind() {
  return {.name = "chroma",
          .weight = [](const LossConfig& config) { return config.of<ChromaLossConfig>().weight; },
          .options = [](LossConfig& config) -> std::vector<Option> {
            return {{"loss.chroma", &config.of<ChromaLossConfig>().weight,
                     "weight of the absolute error of the colours: of red less blue and of green "
                     "less both",
                     Range::at_least(0)}};
          },
          .make = [](const LossConfig&, int64_t,
                     c10::Device) { return std::make_unique<ChromaLoss>(); }};
}

}  // namespace nsvq
