#include "nsvq/diffusion/diffusion_task.h"

#include <algorithm>
#include <cmath>
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
#include "nsvq/train/lr_schedule.h"
#include "nsvq/train/training_run.h"

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

LoaderOptions validation_loader_options(const DiffusionConfig& config, const Group& group,
                                        c10::Device device) {
  auto options = inference_loader_options(config, device, group.size());
  options.rank = group.rank();
  options.world = group.size();
  return options;
}

/// Seeds of an evaluation follow from an image's position in the source alone, so that evaluations
/// compare.
torch::Tensor validation_seeds(int64_t seed, const std::vector<int64_t>& indices,
                               c10::Device device) {
  std::vector<int64_t> seeds;
  for (const int64_t index : indices) {
    constexpr uint64_t purpose = 0x76616c;
    seeds.push_back(static_cast<int64_t>(
        combine_seeds({static_cast<uint64_t>(seed), purpose, static_cast<uint64_t>(index)})));
  }
  return at::tensor(seeds, at::kLong).to(device);
}

std::shared_ptr<const Source> open_validation(const DiffusionConfig& config,
                                              const DiffusionBatches& batches) {
  auto source = open_validation_source(config.data);
  return config.classes > 0 ? numbered_as(std::move(source), batches.classes()) : source;
}

}  // namespace

DiffusionTask::DiffusionTask(const DiffusionConfig& config, LatentSpace& latents,
                             DiffusionBatches& batches, std::shared_ptr<Group> group,
                             c10::Device device)
    : config_(config),
      latents_(latents),
      batches_(batches),
      group_(std::move(group)),
      device_(device),
      shape_(latents_.shape(config.data.size, config.unet.stride())),
      val_source_(open_validation(config, batches)),
      val_loader_(val_source_, validation_loader_options(config, *group_, device)),
      model_(make_diffusion_model(config, shape_[0], device)),
      averaged_(make_diffusion_model(config, shape_[0], device)),
      average_(model_.ptr(), averaged_.ptr(), config.optimizer.ema_decay),
      optimizer_(named_parameters(*model_), config.optimizer, &average_),
      loss_(config, device) {
  require_classes(*val_source_, config.classes, "data.val");
  for (const auto& parameter : averaged_->parameters()) parameter.set_requires_grad(false);
}

StepPlan DiffusionTask::plan(const RunState& state) {
  const int64_t steps = total_steps(config_.train, batches_, state);
  return {.kind = "denoise",
          .lr_factors = {lr_factor(config_.optimizer.schedule, state.step, steps)},
          .phase = "denoise",
          .graphs_disabled_reason = graphs_disabled_reason()};
}

torch::Tensor DiffusionTask::latents_of(const TensorBatch& batch) {
  const auto& data = batch.at(0);
  if (data.scalar_type() == at::kBFloat16) return data.to(at::kFloat);  // latents
  return data.scalar_type() == at::kLong ? latents_.from_tokens(data) : latents_.encode(data);
}

torch::Tensor DiffusionTask::labels_of(const TensorBatch& batch) const {
  return config_.classes > 0 ? batch.at(2) : torch::Tensor();
}

/// Seeds follow from the step and an image's position among those of all ranks, so that the number
/// of ranks does not matter.
void DiffusionTask::step(const TensorBatch& batch, Step& step) {
  const int64_t count = batch[0].size(0), parts = config_.train.accumulate;
  const auto positions = at::arange(count, batch[1].options()) + group_->rank() * count;
  const auto seeds = step.inputs().seed + positions;
  const auto latents = model_->normalise(latents_of(batch));
  const auto labels = labels_of(batch);
  torch::Tensor total = at::zeros({}, latents.options());
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = count * part / parts, size = count * (part + 1) / parts - first;
    const auto own = [&](const torch::Tensor& all) {
      return all.defined() ? all.narrow(0, first, size) : all;
    };
    const auto losses =
        loss_(model_, {own(latents), own(labels), own(seeds)}, DenoisingLoss::Labels::dropped);
    const auto loss = losses.sum() / static_cast<double>(count);
    step.backward(loss, *model_, part + 1 == parts);
    total = total + loss.detach();
  }
  Scalars scalars = {{"loss", total}};
  if (!is_constant(config_.optimizer.schedule)) scalars["lr"] = optimizer_.lr();
  // The average's decay min(decay, (1 + n) / (10 + n)) in step n: first weights are soon forgotten.
  const auto n = step.inputs().step.to(at::kFloat) + 1;
  optimizer_.set_average_decay(((n + 1) / (n + 10)).clamp_max(config_.optimizer.ema_decay));
  step.update(scalars, {{"unet", model_.get()}});
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

/// Mean and deviation of the latents of training images, cropped and flipped as in the first epoch.
void DiffusionTask::initialise(Journal& /*journal*/) {
  const torch::NoGradGuard no_grad;
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
  for (auto* one : {&model_, &averaged_}) {
    (*one)->latent_mean.copy_(statistics.mean());
    (*one)->latent_deviation.copy_(statistics.deviation());
  }
}

/// The loss of the averaged weights, with equal noise in every evaluation.
std::map<std::string, double> DiffusionTask::evaluate(const RunState& /*state*/) {
  const torch::NoGradGuard no_grad;
  auto sums = at::zeros({2}, at::device(device_).dtype(at::kDouble));
  val_loader_.start(0);
  while (const auto batch = val_loader_.next()) {
    throw_if_interrupted();
    const auto tensors = with_labels(*batch, *val_source_, config_.classes, device_);
    const auto losses = loss_(averaged_,
                              {averaged_->normalise(latents_of(tensors)), labels_of(tensors),
                               validation_seeds(config_.seed, batch->indices, device_)},
                              DenoisingLoss::Labels::kept)
                            .to(at::kDouble);
    sums += at::stack({losses.sum(), at::full({}, losses.size(0), losses.options())});
  }
  group_->sum({sums});
  const double images = sums[1].item<double>();
  if (images == 0) throw UserError("data.val: {}: no usable image", config_.data.val.text());
  return {{"loss", sums[0].item<double>() / images}, {"images", images}};
}

/// Samples of the averaged weights, from equal noise each time.
std::optional<Image> DiffusionTask::sample_picture() {
  const int64_t count = config_.train.samples;
  SampleRequest request;
  request.seed = config_.seed;
  for (int64_t i = 0; i < count; ++i) request.indices.push_back(i);
  request.labels = labels_for(config_, /*wanted=*/-1, request.indices);
  // The other processes would wait for this one.
  if (group_->size() == 1) request.before_step = throw_if_interrupted;
  LatentSampler sampler(averaged_, config_, shape_, device_);
  const auto latents = sampler.sample(request);
  if (!at::isfinite(latents).all().item<bool>()) return std::nullopt;
  const auto columns = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  std::vector<std::vector<Image>> rows;
  for (const auto& image : latents_.decode(latents).unbind()) {
    if (rows.empty() || rows.back().size() == columns) rows.emplace_back();
    rows.back().push_back(to_image(image));
  }
  return make_grid(rows);
}

TensorFile DiffusionTask::model(const RunState& state) {
  // Absolute paths: the file does not depend on whether a run goes on by its recipe or its folder.
  const auto config = with_absolute_paths(config_);
  return diffusion_contents(
      named_tensors(*averaged_), config, {config.tokenizer, latents_.sha256()},
      {{"nsvq.step", std::to_string(state.step)}, {"nsvq.epoch", std::to_string(state.epoch)}});
}

TensorMap DiffusionTask::training_state() {
  TensorMap all;
  add_prefixed(all, "model.", named_tensors(*model_));
  add_prefixed(all, "adam.", optimizer_.state());
  return all;
}

TensorMap DiffusionTask::shared_tensors() {
  auto all = training_state();
  add_prefixed(all, "average.", named_tensors(*averaged_));
  return all;
}

void DiffusionTask::load(const TensorMap& model, const TensorMap& training,
                         const std::string& /*state*/, const std::string& from) {
  load_tensors(*model_, with_prefix(training, "model."), from);
  load_tensors(*averaged_, model, from);
  optimizer_.load(with_prefix(training, "adam."), from);
}

}  // namespace nsvq
