#include "nsvq/diffusion/diffusion_model.h"

#include <cstdint>
#include <tuple>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/core/version.h"
#include "nsvq/io/formats/contents_hash.h"
#include "nsvq/nn/layers.h"
#include "nsvq/ops/random/seeded_random.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

namespace {

constexpr auto kDiffusionFormat = "1";
constexpr auto kDiffusionFormatKey = "nsvq.diffusion.format";
constexpr auto kTokenizerKey = "nsvq.diffusion.tokenizer";
constexpr auto kTokenizerHashKey = "nsvq.diffusion.tokenizer.sha256";

torch::Tensor by_channel(const torch::Tensor& values) { return values.view({1, -1, 1, 1}); }

}  // namespace

DiffusionModelImpl::DiffusionModelImpl(const DiffusionConfig& config, int64_t channels)
    : unet(register_module("unet", Unet(config.unet, UnetInputs{channels, config.labels()}))),
      latent_mean(register_buffer("latent_mean", at::zeros({channels}))),
      latent_deviation(register_buffer("latent_deviation", at::ones({channels}))) {}

torch::Tensor DiffusionModelImpl::normalise(const torch::Tensor& latents) const {
  return (latents - by_channel(latent_mean)) / by_channel(latent_deviation);
}

torch::Tensor DiffusionModelImpl::restore(const torch::Tensor& normalised) const {
  return normalised * by_channel(latent_deviation) + by_channel(latent_mean);
}

void move_to_device(DiffusionModel& model, const DiffusionConfig& config, c10::Device device) {
  model->to(device);
  use_gpu_layout(*model);
  model->unet->precision = precision_on(config, device);
}

TensorFile diffusion_contents(const TensorMap& tensors, const DiffusionConfig& config,
                              const TokenizerReference& tokenizer,
                              const std::map<std::string, std::string>& metadata) {
  TensorFile file{tensors,
                  {{"format", "pt"},
                   {"nsvq.version", kVersion},
                   {kDiffusionFormatKey, kDiffusionFormat},
                   {kDiffusionConfigKey, to_yaml(config)},
                   {kTokenizerKey, tokenizer.path},
                   {kTokenizerHashKey, tokenizer.sha256}}};
  file.metadata.insert(metadata.begin(), metadata.end());
  add_contents_hash(file);
  return file;
}

bool is_diffusion(const TensorFile& file) { return file.metadata.contains(kDiffusionConfigKey); }

std::pair<DiffusionConfig, TokenizerReference> diffusion_metadata(const TensorFile& file,
                                                                  const std::string& from) {
  if (file.metadata.contains(kModelConfigKey)) {
    throw UserError("{}: a tokenizer, where a diffusion model is asked for", from);
  }
  const auto text = [&](const char* key) {
    const auto found = file.metadata.find(key);
    if (found != file.metadata.end()) return found->second;
    throw UserError("{}: no diffusion model (metadata '{}' is missing)", from, key);
  };
  if (const auto format = text(kDiffusionFormatKey); format != kDiffusionFormat) {
    throw UserError("{}: diffusion model of format {}, this nsvq reads format {}; use a newer nsvq",
                    from, format, kDiffusionFormat);
  }
  return {parse_config<DiffusionConfig>(text(kDiffusionConfigKey), from),
          {text(kTokenizerKey), text(kTokenizerHashKey)}};
}

LoadedDiffusion load_diffusion(const std::filesystem::path& run_or_checkpoint) {
  const auto file = open_model_file(run_or_checkpoint);
  LoadedDiffusion loaded;
  loaded.file = file.path;
  std::tie(loaded.config, loaded.tokenizer) = diffusion_metadata(file.contents, file.path.string());
  const auto mean = file.contents.tensors.find("latent_mean");
  if (mean == file.contents.tensors.end() || mean->second.dim() != 1) {
    throw UserError("{}: tensor 'latent_mean' is missing; is it damaged?", file.path.string());
  }
  {
    const auto budget = budget_of(file);
    const SeedGuard apart;
    loaded.model = DiffusionModel(loaded.config, mean->second.size(0));
  }
  load_tensors(*loaded.model, file.contents.tensors, file.path.string());
  require_finite(named_tensors(*loaded.model), file.path.string());
  if (!loaded.model->latent_deviation.gt(0).all().item<bool>()) {
    throw UserError("{}: tensor 'latent_deviation' has values that are not above 0; is it damaged?",
                    file.path.string());
  }
  loaded.model->eval();
  return loaded;
}

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

DenoisingLoss::Seen DenoisingLoss::see(DiffusionModel& model, const Images& images,
                                       const torch::Tensor& times,
                                       const torch::Tensor& labels) const {
  const auto& data = images.latents;
  const auto noise = normal_rows(images.seeds, kNoiseDraw, data[0].numel()).view(data.sizes());
  const auto each = [&](const torch::Tensor& table) {
    return table.index_select(0, times).view({-1, 1, 1, 1});
  };
  const NoiseLevel level{each(signal_), each(noise_)};
  const auto noisy = add_noise(data, noise, level);
  return {noise, noisy, model->unet->forward(noisy, times, labels), level};
}

torch::Tensor DenoisingLoss::loss_of(const Seen& seen, const torch::Tensor& data) const {
  const auto errors =
      (seen.output - prediction_.target(data, seen.noise, seen.level)).square().mean({1, 2, 3});
  return errors * weighting_.weights(seen.level.snr().flatten(), prediction_, config_.objective);
}

torch::Tensor DenoisingLoss::operator()(DiffusionModel& model, const Images& images,
                                        Labels labels) const {
  const int64_t last = signal_.size(0) - 1;
  const auto times = (one_uniform_each(images.seeds, kTimeDraw) * static_cast<double>(last + 1))
                         .to(at::kLong)
                         .clamp_max(last);
  return loss_of(see(model, images, times, shown_labels(images, labels)), images.latents);
}

DenoisingLoss::Errors DenoisingLoss::at_time(DiffusionModel& model, const Images& images,
                                             int64_t time) const {
  const auto seen = see(model, images, at::full_like(images.seeds, time), images.labels);
  const auto data = prediction_.data(seen.output, seen.noisy, seen.level);
  return {loss_of(seen, images.latents), (data - images.latents).square().mean({1, 2, 3})};
}

}  // namespace nsvq
