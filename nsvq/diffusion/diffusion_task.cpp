#include "nsvq/diffusion/diffusion_task.h"

#include <algorithm>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/random.h"
#include "nsvq/core/text.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/diffusion/diffusion_batches.h"
#include "nsvq/diffusion/latent_sampler.h"
#include "nsvq/nn/layers.h"
#include "nsvq/quantizers/search.h"
#include "nsvq/recipe/loader_options.h"

namespace nsvq {

namespace {

DiffusionModel make_diffusion_model(const DiffusionConfig& config, int64_t channels,
                                    c10::Device device) {
  const SeedGuard seeded(seed_for(config.seed, Draw::weights));
  choose_precision(config.train.precision, device);  // throws where the device lacks it
  DiffusionModel model(config, channels);
  move_to_device(model, config, device);
  return model;
}

std::shared_ptr<const Source> open_validation(const DiffusionConfig& config,
                                              const LabelledBatches& batches) {
  auto source = open_validation_source(config.data);
  return config.classes > 0 ? numbered_as(std::move(source), batches.classes()) : source;
}

}  // namespace

DiffusionTask::DiffusionTask(const DiffusionConfig& config, LatentSpace& latents,
                             LabelledBatches& batches, std::shared_ptr<Group> group,
                             c10::Device device)
    : DiffusionTask(config, latents, batches, std::move(group), device,
                    make_diffusion_model(config, latents.channels(), device),
                    make_diffusion_model(config, latents.channels(), device)) {}

DiffusionTask::DiffusionTask(const DiffusionConfig& config, LatentSpace& latents,
                             LabelledBatches& batches, std::shared_ptr<Group> group,
                             c10::Device device, DiffusionModel model, DiffusionModel averaged)
    : NetworkTask(config, {"unet", model.ptr(), averaged.ptr()}, batches, group),
      config_(config),
      latents_(latents),
      batches_(batches),
      group_(std::move(group)),
      device_(device),
      shape_(latents_.shape(config.data.size, config.unet.stride())),
      val_source_(open_validation(config, batches)),
      val_loader_(val_source_, validation_loader_options(config, *group_, device)),
      model_(std::move(model)),
      averaged_(std::move(averaged)),
      loss_(config, device) {
  require_classes(*val_source_, config.told(), "data.val");
}

StepPlan DiffusionTask::plan(const RunState& state) {
  auto plan = NetworkTask::plan(state);
  plan.kind = plan.phase = "denoise";
  plan.graphs_disabled_reason = graphs_disabled_reason();
  return plan;
}

torch::Tensor DiffusionTask::latents_of(const TensorBatch& batch) {
  const auto& data = batch.at(0);
  if (data.scalar_type() == at::kBFloat16) return data.to(at::kFloat);  // latents
  return data.scalar_type() == at::kLong ? latents_.from_tokens(data) : latents_.encode(data);
}

torch::Tensor DiffusionTask::labels_of(const TensorBatch& batch) const {
  return config_.classes > 0 ? batch.at(2) : torch::Tensor();
}

TensorBatch DiffusionTask::prepare(const TensorBatch& batch) {
  return {model_->normalise(latents_of(batch)), labels_of(batch)};
}

torch::Tensor DiffusionTask::losses(const TensorBatch& slice, const torch::Tensor& seeds,
                                    const Step& /*step*/) {
  return loss_(model_, {slice.at(0), slice.at(1), seeds}, DenoisingLoss::Labels::dropped);
}

/// Whether steps search the nearest codes of images.
bool DiffusionTask::searches_codes() const { return latents_.of_codes() && config_.tokens.empty(); }

std::string DiffusionTask::graphs_disabled_reason() const {
  if (!searches_codes()) return "";
  const auto& tokenizer = latents_.model().config;
  return reason_against_graphs(tokenizer.model.latent_dim, tokenizer.quantizer);
}

torch::Tensor DiffusionTask::latents_to_check(const TensorBatch& batch) {
  return searches_codes() ? latents_.encoder_output(batch.at(0)) : latents_of(batch);
}

std::string DiffusionTask::first_nonfinite_image(const TensorBatch& batch,
                                                 const torch::Tensor& latents) const {
  const auto found = at::isfinite(latents).flatten(1).all(1).logical_not().nonzero();
  if (found.size(0) == 0) return "";
  return batches_.name_of(batch.at(1)[found[0][0].item<int64_t>()].item<int64_t>());
}

std::optional<NonfiniteLocation> DiffusionTask::locate_nonfinite(const SkippedSteps& skipped) {
  const auto name = first_nonfinite_image(skipped.batch, latents_to_check(skipped.batch));
  if (name.empty()) return NonfiniteLocation{"the loss or a gradient"};
  return NonfiniteLocation{"the latents of image " + quote(name), true};
}

std::vector<std::string> DiffusionTask::describe(int64_t /*total_steps*/) const {
  return {fmt::format("images       {} to train on, {} to evaluate on", batches_.samples(),
                      val_source_->size()),
          fmt::format("latents      {} of {}x{}, of {}", shape_[0], shape_[1], shape_[2],
                      latents_.model().file.string()),
          fmt::format("parameters   {}", parameter_count(*model_))};
}

LatentStatistics DiffusionTask::measure_latents() {
  LatentStatistics statistics(shape_[0], device_);
  const int64_t wanted = config_.statistics_images > 0
                             ? std::min(config_.statistics_images, batches_.samples())
                             : batches_.samples();
  Progress progress("statistics of latents", wanted, "images");
  batches_.start(0, 0, 0);
  int64_t seen = 0;  // over all ranks
  while (seen < wanted) {
    const auto batch = batches_.next();
    if (!batch) break;
    const auto latents = latents_to_check(*batch);
    const auto name = first_nonfinite_image(*batch, latents);
    if (!name.empty()) {
      throw UserError("{}: the latents of image {} are non-finite by {}",
                      training_data_key(config_), quote(name), latents_.model().file.string());
    }
    statistics.add(searches_codes() ? latents_of(*batch) : latents);
    seen += batches_.step_samples();
    progress.update(std::min(seen, wanted));
  }
  progress.finish();
  if (seen == 0) {
    throw UserError("data.train: {} images make no batch of {} (train.batch_size)",
                    batches_.samples(), batches_.step_samples());
  }
  group_->sum({statistics.sums()});
  return statistics;
}

/// What the network sees is (latents - mean) / deviation.
void DiffusionTask::initialise(Journal& /*journal*/) {
  const torch::NoGradGuard no_grad;
  auto mean = at::zeros({shape_[0]}), deviation = at::ones({shape_[0]});
  if (config_.normalise == "channels") {
    const auto statistics = measure_latents();
    mean = statistics.mean();
    deviation = statistics.deviation();
  }
  for (auto* one : {&model_, &averaged_}) {
    (*one)->latent_mean.copy_(mean);
    (*one)->latent_deviation.copy_(deviation / config_.scale);
  }
}

/// The loss of the averaged weights, with equal noise in every evaluation.
std::map<std::string, double> DiffusionTask::evaluate(const RunState& /*state*/) {
  const torch::NoGradGuard no_grad;
  val_loader_.start(0);
  const auto figures = mean_loss(*group_, device_, [&]() -> std::optional<torch::Tensor> {
    const auto batch = val_loader_.next();
    if (!batch) return std::nullopt;
    const auto tensors = with_labels(*batch, *val_source_, config_.classes, device_);
    return loss_(averaged_,
                 {averaged_->normalise(latents_of(tensors)), labels_of(tensors),
                  evaluation_seeds(config_.seed, batch->indices, device_)},
                 DenoisingLoss::Labels::kept);
  });
  if (figures.empty()) throw UserError("data.val: {}: no usable image", config_.data.val.text());
  return figures;
}

/// Samples of the averaged weights, from equal noise each time.
std::optional<Image> DiffusionTask::sample_picture() {
  const int64_t count = config_.train.samples;
  SampleRequest request;
  request.seed = config_.seed;
  for (int64_t i = 0; i < count; ++i) request.indices.push_back(i);
  request.labels = labels_for(config_.told(), /*wanted=*/-1, request.indices);
  // The other processes would wait for this one.
  if (group_->size() == 1) request.before_step = throw_if_interrupted;
  LatentSampler sampler(averaged_, config_, shape_, device_);
  const auto latents = sampler.sample(request);
  if (!at::isfinite(latents).all().item<bool>()) return std::nullopt;
  return make_square_grid(latents_.decode(latents));
}

TensorFile DiffusionTask::model(const RunState& state) {
  // Absolute paths: the file does not depend on whether a run goes on by its recipe or its folder.
  const auto config = with_absolute_paths(config_);
  return diffusion_contents(
      named_tensors(*averaged_), config, {config.tokenizer, latents_.sha256()},
      {{"nsvq.step", std::to_string(state.step)}, {"nsvq.epoch", std::to_string(state.epoch)}});
}

}  // namespace nsvq
