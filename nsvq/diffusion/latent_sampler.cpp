#include "nsvq/diffusion/latent_sampler.h"

#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/ops/random/seeded_random.h"

namespace nsvq {

LatentSampling::LatentSampling(std::vector<SamplerStep> steps, const PredictionKind& prediction,
                               torch::Tensor start)
    : steps_(std::move(steps)), prediction_(prediction), samples_(std::move(start)) {}

void LatentSampling::step(const Denoiser& denoiser, const NoiseDraws& noise) {
  const torch::NoGradGuard no_grad;
  const auto& step = steps_.at(done_);
  const auto number = [&](double value) { return at::full({}, value, samples_.options()); };
  const auto times =
      at::full({samples_.size(0)}, step.at.time, samples_.options().dtype(at::kLong));
  const auto data = prediction_.data(denoiser(samples_, times), samples_,
                                     {number(step.at.signal()), number(step.at.noise())});
  auto next = samples_ * step.sample + data * step.data;
  if (step.previous != 0) next += data_before_ * step.previous;
  if (step.fresh != 0) next += noise(done_ + 1) * step.fresh;
  samples_ = next;
  data_before_ = data;
  ++done_;
}

torch::Tensor sample_latents(LatentSampling sampling, const Denoiser& denoiser,
                             const NoiseDraws& noise) {
  while (sampling.done() < sampling.steps()) sampling.step(denoiser, noise);
  return sampling.samples();
}

ImageNoise::ImageNoise(int64_t seed, const std::vector<int64_t>& indices,
                       std::vector<int64_t> shape, c10::Device device)
    : shape_(std::move(shape)) {
  constexpr uint64_t purpose = 0x6e6f697365;  // apart from the draws of training
  seeds_ = image_seeds(seed, purpose, indices).to(device);
}

torch::Tensor ImageNoise::draw(int64_t draw) const {
  int64_t count = 1;
  for (const int64_t size : shape_) count *= size;
  std::vector<int64_t> sizes = {seeds_.size(0)};
  sizes.insert(sizes.end(), shape_.begin(), shape_.end());
  return normal_rows(seeds_, draw, count).view(sizes);
}

LatentSampler::LatentSampler(DiffusionModel model, const DiffusionConfig& config,
                             std::vector<int64_t> shape, c10::Device device, bool graphs)
    : model_(std::move(model)),
      config_(config),
      steps_(plan_sampling(make_noise_schedule(config.noise), config.sample)),
      shape_(std::move(shape)),
      device_(device),
      graph_(device, graphs && device.is_cuda()) {
  check_guidance(config.told(), config.guidance, "sample.guidance");
}

torch::Tensor LatentSampler::network(const torch::Tensor& noisy, const torch::Tensor& times,
                                     const torch::Tensor& labels) {
  StepGraph::Batch inputs = {noisy, times};
  if (labels.defined()) inputs.push_back(labels);
  const auto work = [this](const StepGraph::Batch& given) {
    output_ =
        model_->unet->forward(given[0], given[1], given.size() > 2 ? given[2] : torch::Tensor());
  };
  if (!graph_.replay("denoise", inputs, work)) work(inputs);
  return output_;
}

/// With guidance the network sees each image twice, with and without its class, in one batch.
Denoiser LatentSampler::denoiser_for(const std::vector<int64_t>& labels) {
  if (config_.classes == 0) {
    return [this](const torch::Tensor& noisy, const torch::Tensor& times) {
      return network(noisy, times, {});
    };
  }
  const auto own = at::tensor(labels, at::kLong).to(device_);
  if (config_.guidance == 1) {
    return [this, own](const torch::Tensor& noisy, const torch::Tensor& times) {
      return network(noisy, times, own);
    };
  }
  const auto both = at::cat({own, at::full_like(own, config_.classes)});
  return [this, both](const torch::Tensor& noisy, const torch::Tensor& times) {
    const auto outputs = network(at::cat({noisy, noisy}), at::cat({times, times}), both).chunk(2);
    return outputs[1] + config_.guidance * (outputs[0] - outputs[1]);
  };
}

/// Noise of the request's images, in the memory layout of the network's output.
NoiseDraws LatentSampler::draws(const SampleRequest& request) const {
  const auto layout =
      device_.is_cuda() ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  return [noise = ImageNoise(request.seed, request.indices, shape_, device_),
          layout](int64_t draw) { return noise.draw(draw).contiguous(layout); };
}

torch::Tensor LatentSampler::run(LatentSampling sampling, const SampleRequest& request,
                                 const NoiseDraws& noise) {
  TORCH_CHECK(config_.classes == 0 || request.labels.size() == request.indices.size(),
              "sample: ", request.labels.size(), " labels for ", request.indices.size(), " images");
  const auto denoise = denoiser_for(request.labels);
  const auto samples = sample_latents(
      std::move(sampling),
      [&](const torch::Tensor& noisy, const torch::Tensor& times) {
        request.before_step();
        return denoise(noisy, times);
      },
      noise);
  return model_->restore(samples);
}

torch::Tensor LatentSampler::sample(const SampleRequest& request) {
  const torch::NoGradGuard no_grad;
  const auto noise = draws(request);
  return run({steps_, prediction_kind(config_.objective.prediction), noise(0)}, request, noise);
}

torch::Tensor LatentSampler::denoise(const SampleRequest& request, const DenoiseRequest& noised) {
  const torch::NoGradGuard no_grad;
  auto steps = plan_sampling(make_noise_schedule(config_.noise), config_.sample, noised.time);
  if (steps.empty()) return noised.latents;
  const auto noise = draws(request);
  const auto& at = steps.front().at;
  const auto start = model_->normalise(noised.latents) * at.signal() + noise(0) * at.noise();
  return run({std::move(steps), prediction_kind(config_.objective.prediction), start}, request,
             noise);
}

}  // namespace nsvq
