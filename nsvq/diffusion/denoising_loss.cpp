#include "nsvq/diffusion/denoising_loss.h"

#include <cstdint>

#include "nsvq/ops/random/seeded_random.h"

namespace nsvq {

namespace {

/// Independent draws from an image's seed.
enum LossDraw : int64_t { kTimeDraw, kNoiseDraw, kLabelDraw };

torch::Tensor one_uniform_each(const torch::Tensor& seeds, LossDraw draw) {
  return uniform_rows(seeds, draw, 1).squeeze(1);
}

}  // namespace

DenoisingLoss::DenoisingLoss(const DiffusionConfig& config, c10::Device device)
    : config_(config),
      prediction_(prediction_kind(config.objective.prediction)),
      weighting_(weighting_kind(config.objective.weighting)) {
  const auto abar = at::tensor(make_noise_schedule(config.noise).abar, at::kDouble);
  signal_ = abar.sqrt().to(device, at::kFloat);
  noise_ = (1 - abar).sqrt().to(device, at::kFloat);
}

/// The class that stands for none is the last row of the network's table.
torch::Tensor DenoisingLoss::shown_labels(const Images& images, Labels labels) const {
  if (labels == Labels::kept || !images.labels.defined() || config_.label_dropout == 0) {
    return images.labels;
  }
  const auto dropped = one_uniform_each(images.seeds, kLabelDraw).lt(config_.label_dropout);
  return images.labels.masked_fill(dropped, config_.classes);
}

torch::Tensor DenoisingLoss::operator()(DiffusionModel& model, const Images& images,
                                        Labels labels) const {
  const auto& data = images.latents;
  const int64_t last = signal_.size(0) - 1;
  const auto times = (one_uniform_each(images.seeds, kTimeDraw) * static_cast<double>(last + 1))
                         .to(at::kLong)
                         .clamp_max(last);
  const auto noise = normal_rows(images.seeds, kNoiseDraw, data[0].numel()).view(data.sizes());
  const auto each = [&](const torch::Tensor& table) {
    return table.index_select(0, times).view({-1, 1, 1, 1});
  };
  const NoiseLevel level{each(signal_), each(noise_)};
  const auto output =
      model->unet->forward(add_noise(data, noise, level), times, shown_labels(images, labels));
  const auto errors = (output - prediction_.target(data, noise, level)).square().mean({1, 2, 3});
  return errors * weighting_.weights(level.snr().flatten(), prediction_, config_.objective);
}

}  // namespace nsvq
