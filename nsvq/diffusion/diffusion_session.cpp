#include "nsvq/diffusion/diffusion_session.h"

#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/nn/weights.h"
#include "nsvq/tokenizer/inference_session.h"
#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

TorchSettings sampling_settings(const DiffusionConfig& config, c10::Device device,
                                int64_t threads) {
  return {.threads = threads,
          .deterministic = true,
          .tf32_convolutions = precision_on(config, device) != Precision::fp32,
          .inference = true};
}

/// The tokenizer of a model. Throws UserError that names all that was looked for.
LoadedModel find_tokenizer(const LoadedDiffusion& model, const std::string& named) {
  const auto beside = model.file.parent_path() / kExportedTokenizer;
  std::error_code ignored;
  const auto path = !named.empty()                ? fs::path(named)
                    : fs::exists(beside, ignored) ? beside
                                                  : fs::path(model.tokenizer.path);
  try {
    return load_model_for_inference(path);
  } catch (const UserError& error) {
    throw UserError("{}: its tokenizer: {}; name it with --tokenizer", model.file.string(),
                    error.what());
  }
}

void require_same_tokenizer(const LoadedDiffusion& model, const LatentSpace& latents) {
  const auto& file = latents.model().file;
  const int64_t channels = model.model->latent_mean.size(0);
  if (latents.channels() != channels) {
    throw UserError("{}: latents of {} channels, but {} makes latents of {}", file.string(),
                    latents.channels(), model.file.string(), channels);
  }
  if (latents.sha256() == model.tokenizer.sha256) return;
  throw UserError("{}: not the tokenizer that {} was trained on ({}), by its weights",
                  file.string(), model.file.string(), model.tokenizer.path);
}

}  // namespace

DiffusionSession::DiffusionSession(LoadedDiffusion model, const std::string& tokenizer,
                                   c10::Device device, int64_t threads)
    : model_(std::move(model)),
      device_(device),
      flags_(sampling_settings(model_.config, device, threads)),
      stream_(device),
      latents_(find_tokenizer(model_, tokenizer), model_.config.latents, device) {
  require_same_tokenizer(model_, latents_);
  move_to_device(model_.model, model_.config, device);
  sampler_.emplace(model_.model, model_.config,
                   latents_.shape(model_.config.data.size, model_.config.unet.stride()), device,
                   /*graphs=*/true);
}

torch::Tensor DiffusionSession::sample(const SampleRequest& request) {
  const auto latents = sampler_->sample(request);
  const auto broken = at::isfinite(latents).flatten(1).all(1).logical_not().nonzero();
  if (broken.size(0) > 0) {
    throw RunError(
        "image {} of seed {} became non-finite while it was sampled; try more steps, or another "
        "precision of the model (fp32 by training with train.precision)",
        request.indices.at(broken[0][0].item<int64_t>()), request.seed);
  }
  return latents_.decode(latents);
}

std::string DiffusionSession::sha256() const {
  return tensors_sha256(named_tensors(*model_.model)) + latents_.sha256();
}

}  // namespace nsvq
