#include "nsvq/losses/loss.h"

namespace nsvq {

namespace {

/// Mean absolute difference.
class L1Loss : public Loss {
 public:
  torch::Tensor operator()(const torch::Tensor& reconstructions,
                           const torch::Tensor& images) override {
    return at::l1_loss(reconstructions, images);
  }
};

/// Mean squared difference.
class L2Loss : public Loss {
 public:
  torch::Tensor operator()(const torch::Tensor& reconstructions,
                           const torch::Tensor& images) override {
    return at::mse_loss(reconstructions, images);
  }
};

/// Mean absolute difference of the colours alone: (red - blue) / 2, and 1.2 times
/// green - (red + blue) / 2, which varies less. By L1 or L2 colours are learnt long after
/// brightness, because they vary less.
class ChromaLoss : public Loss {
 public:
  torch::Tensor operator()(const torch::Tensor& reconstructions,
                           const torch::Tensor& images) override {
    const auto error = reconstructions - images;
    const auto red = error.select(1, 0), green = error.select(1, 1), blue = error.select(1, 2);
    return (red - blue).abs().mean() / 2 + 1.2 * (green - (red + blue) / 2).abs().mean();
  }
};

}  // namespace

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
