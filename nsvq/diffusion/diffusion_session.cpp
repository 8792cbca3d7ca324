#include "nsvq/diffusion/diffusion_session.h"

#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/version.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/nn/weights.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/network_task.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

void require_same_tokenizer(const LoadedDiffusion& model, const LatentSpace& latents) {
  const auto& file = latents.model().file;
  const int64_t channels = model.model->latent_mean.size(0);
  if (latents.channels() != channels) {
    throw UserError("{}: latents of {} channels, but {} makes latents of {}", file.string(),
                    latents.channels(), model.file.string(), channels);
  }
  require_tokenizer({file.string(), latents.sha256()}, model.tokenizer, model.file);
}

}  // namespace

DiffusionSession::DiffusionSession(LoadedDiffusion model, const std::string& tokenizer,
                                   c10::Device device, int64_t threads)
    : model_(std::move(model)),
      device_(device),
      flags_(sampling_torch_settings(model_.config, device, threads)),
      stream_(device),
      latents_(find_tokenizer(model_.file, model_.tokenizer, tokenizer), model_.config.latents,
               device),
      loss_(model_.config, device) {
  require_same_tokenizer(model_, latents_);
  move_to_device(model_.model, model_.config, device);
  sampler_.emplace(model_.model, model_.config,
                   latents_.shape(model_.config.data.size, model_.config.unet.stride()), device,
                   /*graphs=*/true);
}

torch::Tensor DiffusionSession::sample(const SampleRequest& request) {
  return decode(sampler_->sample(request), request);
}

torch::Tensor DiffusionSession::denoise(const SampleRequest& request, const torch::Tensor& images,
                                        int64_t time) {
  return decode(sampler_->denoise(request, {latents_.encode(images), time}), request);
}

DenoisingLoss::Errors DiffusionSession::errors(const SampleRequest& request,
                                               const torch::Tensor& images, int64_t time) {
  const torch::NoGradGuard no_grad;
  const auto labels =
      request.labels.empty() ? torch::Tensor() : at::tensor(request.labels, at::kLong).to(device_);
  return loss_.at_time(model_.model,
                       {model_.model->normalise(latents_.encode(images)), labels,
                        evaluation_seeds(model_.config.seed, request.indices, device_)},
                       time);
}

torch::Tensor DiffusionSession::decode(const torch::Tensor& latents, const SampleRequest& request) {
  const auto broken = at::isfinite(latents).flatten(1).all(1).logical_not().nonzero();
  if (broken.size(0) > 0) {
    throw RunError(
        "image {} of seed {} became non-finite while it was sampled; try more steps, or another "
        "precision of the model (fp32 by training with train.precision)",
        request.indices.at(broken[0][0].item<int64_t>()), request.seed);
  }
  return latents_.decode(latents, request.quantise);
}

std::string DiffusionSession::sha256() const {
  return tensors_sha256(named_tensors(*model_.model)) + latents_.sha256();
}

namespace {
/// What diffusers' schedulers call the same. DDPMScheduler has nothing for sample.last: first.
Json scheduler_json(const DiffusionConfig& config) {
  const auto& noise = config.noise;
  const auto schedule = noise.schedule == "linear"        ? "linear"
                        : noise.schedule == "sqrt-linear" ? "scaled_linear"
                                                          : "squaredcos_cap_v2";
  const auto scheduler = config.sample.sampler == "ddim"   ? "DDIMScheduler"
                         : config.sample.sampler == "ddpm" ? "DDPMScheduler"
                                                           : "DPMSolverMultistepScheduler";
  const bool compvis = config.sample.spacing == "compvis";
  const bool to_one = config.sample.last == "one";
  Json json = {
      {"_class_name", scheduler},
      {"num_train_timesteps", noise.times},
      {"beta_start", noise.beta_start},
      {"beta_end", noise.beta_end},
      {"beta_schedule", schedule},
      {"prediction_type", config.objective.prediction == "eps" ? "epsilon" : "v_prediction"},
      {"timestep_spacing", compvis ? "leading" : config.sample.spacing},
      {"steps_offset", compvis ? 1 : 0}};
  if (config.sample.sampler == "dpm-solver++") {
    json["algorithm_type"] = "dpmsolver++";
    json["solver_order"] = 2;
    json["final_sigmas_type"] = to_one ? "zero" : "sigma_min";
    json["euler_at_final"] = true;  // the last step is of first order
  } else {
    json["clip_sample"] = false;
  }
  if (config.sample.sampler == "ddim") json["set_alpha_to_one"] = to_one;
  return json;
}

void write_json(const fs::path& file, const Json& json) { write_text(file, json.dump(1) + "\n"); }

}  // namespace

void export_diffusion(const LoadedDiffusion& model, const LoadedModel& tokenizer,
                      const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder, ignored)) {
    throw UserError("--out {}: exists already; name a new folder", folder.string());
  }
  AtomicFolder out(folder);
  auto settings = model.config;  // a table binds to what it could change
  auto json = settings_to_json(option_table(settings));
  json["nsvq"] = {{"version", kVersion},
                  {"channels", model.model->latent_mean.size(0)},
                  {"labels", model.config.labels()},
                  {"tokenizer_sha256", model.tokenizer.sha256}};
  write_safetensors(out.path() / kModelFile,
                    diffusion_contents(named_tensors(*model.model), model.config, model.tokenizer));
  write_json(out.path() / "config.json", json);
  export_frozen_tokenizer(tokenizer, out.path());
  const auto scheduler = out.path() / "scheduler";
  fs::create_directories(scheduler, ignored);  // what fails, fails again where the file is written
  write_json(scheduler / "scheduler_config.json", scheduler_json(model.config));
  out.commit();
}

}  // namespace nsvq
