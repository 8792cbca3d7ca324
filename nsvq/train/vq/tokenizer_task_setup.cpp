// How a tokenizer's training comes to be, and how its steps run.

#include <algorithm>
#include <limits>

#include "nsvq/core/error.h"
#include "nsvq/core/seed_guard.h"
#include "nsvq/metrics/metric_choice.h"
#include "nsvq/metrics/metric_weights.h"
#include "nsvq/quantizers/search.h"
#include "nsvq/recipe/recipe.h"
#include "nsvq/tokenizer/loader_options.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/train/vq/tokenizer_task.h"

namespace nsvq {

namespace {

Tokenizer make_average(const Config& config, c10::Device device) {
  const SeedGuard apart;
  Tokenizer average(config);
  move_to_device(average, config, device);
  return average;
}

LoaderOptions validation_options(const Config& config, const Group& group, c10::Device device) {
  auto options = inference_loader_options(config, device, group.size());
  options.rank = group.rank();
  options.world = group.size();
  return options;
}

/// The first `count` usable images of a source, or all if there are fewer, [n, 3, H, W] on the CPU.
torch::Tensor first_images(std::shared_ptr<const Source> source, const Config& config,
                           int64_t count) {
  auto options = inference_loader_options(config, at::kCPU);  // the same on every rank
  options.batch_size = count;
  Loader loader(std::move(source), options);
  loader.start(0);
  const auto batch = loader.next();
  if (!batch) throw UserError("data.val: {}: no usable image", config.data.val.text());
  return batch->images;
}

/// What train.metrics names, with networks loaded; figures of tokens only where there are codes.
/// Throws UserError naming the key for an unknown metric, missing weights, and images that are too
/// few or too small for one.
MetricSet make_metrics(const Config& config, int64_t codes, int64_t images, c10::Device device) {
  try {
    MetricChoice choice{config.train.metrics, {}, nullptr};
    if (codes == 0) choice = without_tokens(choice);
    MetricSet metrics(choice.names, {.conventions = {}, .codes = codes, .device = device});
    bool networks = false;
    for (const auto& name : choice.names) {
      const auto& kind = metric_kind(name);
      networks = networks || !kind.weights.empty();
      if (kind.input == MetricInput::sets && images < 2) {
        throw UserError("{} needs at least two images in data.val", kind.name);
      }
    }
    if (networks) {  // a trial: some take no small images
      const auto image = at::zeros({1, 3, config.data.size, config.data.size});
      metrics.add({image, image, at::zeros({1, 1, 1}, at::kLong)});
      metrics.reset();
    }
    return metrics;
  } catch (const UserError& error) {
    throw UserError("train.metrics: {}", error.what());
  }
}

/// The generator's parameters, each with its part's factor on the learning rate.
Adam::Parameters scaled_parameters(const TokenizerImpl& model, const LrScaleConfig& scale) {
  const std::map<std::string, double> scales = {
      {"encoder", scale.encoder}, {"quantizer", scale.quantizer}, {"decoder", scale.decoder}};
  auto parameters = named_parameters(model);
  for (auto& parameter : parameters) {
    parameter.lr_scale = scales.at(parameter.name.substr(0, parameter.name.find('.')));
  }
  return parameters;
}

/// Throws UserError for a model.* setting in which two configurations differ.
void require_equal_models(const Config& here, const Config& there, const std::string& file) {
  Config ours = here, theirs = there;
  const auto rows = tokenizer_options(ours).rows, others = tokenizer_options(theirs).rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].key.starts_with("model.") || rows[i].value() == others[i].value()) continue;
    throw UserError("train.init_from: {} has {} {}, and the recipe {}; they must be equal", file,
                    rows[i].key, others[i].value(), rows[i].value());
  }
}

/// Copies encoder and decoder of the model that train.init_from names.
void load_networks(TokenizerImpl& model, const Config& config) {
  const auto& path = config.train.init_from;
  LoadedModel from;
  try {
    from = load_model(path);
  } catch (const UserError& error) {
    throw UserError("train.init_from: {}", error.what());
  }
  require_equal_models(config, from.config, from.file.string());
  load_tensors(*model.encoder, named_tensors(*from.tokenizer->encoder), from.file.string());
  load_tensors(*model.decoder, named_tensors(*from.tokenizer->decoder), from.file.string());
}

}  // namespace

void check_freeze(const Config& config) {
  const auto& kind = quantizer_kind(config.quantizer.type);
  const auto& phases = config.schedule.phases;
  const auto stage1 = std::find(phases.begin(), phases.end(), "stage1");
  if (kind.tokens || config.schedule.freeze != "plateau" || stage1 == phases.end()) return;
  if (stage1 + 1 == phases.end()) return;
  throw UserError(
      "schedule.freeze is plateau, but quantizer {} has no commitment loss to watch; use epoch, or "
      "end schedule.phases with stage1",
      kind.name);
}

void check_dist(const Config& config) {
  const auto& kind = quantizer_kind(config.quantizer.type);
  if (config.dist.entropy == "all" && !kind.batch_entropy) {
    throw UserError("dist.entropy is all, but quantizer {} has no entropy of a batch; leave it out",
                    kind.name);
  }
  if (config.dist.batch_norm == "all" && config.adversarial.weight == 0) {
    throw UserError(
        "dist.batch_norm is all, but there is no discriminator (adversarial.weight is 0); leave it "
        "out");
  }
}

void check_weights(const Config& config) {
  check_losses(config);
  try {
    describe_weights(config.train.metrics);
  } catch (const UserError& error) {
    throw UserError("train.metrics: {}", error.what());
  }
}

void check_files(const Config& config) {
  make_quantizer(config.quantizer, config.model.latent_dim)->begin();
  if (config.train.init_from.empty()) return;
  Tokenizer model(config);
  load_networks(*model, config);
}

TokenizerTask::TokenizerTask(const Config& config, BatchSource& batches,
                             std::shared_ptr<Group> group, c10::Device device)
    : config_(config),
      batches_(batches),
      group_(std::move(group)),
      device_(device),
      val_source_(open_source_of("data.val", config_.data.val, config_.data)),
      val_loader_(val_source_, validation_options(config_, *group_, device_)),
      model_(make_tokenizer(config_, device_)),
      averaged_model_(make_average(config_, device_)),
      average_(model_.ptr(), averaged_model_.ptr(), config_.optimizer.ema_decay),
      optimizer_(scaled_parameters(*model_, config_.optimizer.scale), config_.optimizer, &average_),
      losses_(make_losses(config_, device_)),
      replacement_(make_replacement(config_, *model_->quantizer)),
      fixed_images_(first_images(val_source_, config_, config_.train.samples).to(device_)),
      phase_(phase_by_name(config_.schedule.phases.front())),
      usage_(at::zeros({model_->quantizer->codes()}, at::device(device_).dtype(at::kLong))),
      window_usage_(at::zeros_like(usage_)),
      window_commitment_(at::zeros({2}, usage_.options().dtype(at::kDouble))),
      replaced_(at::zeros({}, usage_.options())) {
  check_freeze(config_);
  check_dist(config_);
  if (config_.adversarial.weight > 0) adversary_.emplace(config_, device_, group_);
  if (config_.drift.images > 0) {
    const auto images = first_images(val_source_, config_, config_.drift.images);
    drift_.emplace(images.to(device_), config_.train.batch_size, config_.quantizer.tau);
  }
  metrics_.emplace(make_metrics(config_, model_->quantizer->codes(), val_source_->size(), device_));
  if (config_.train.check > 0) {
    check_.emplace(config_.quantizer, config_.model.latent_dim, device_);
  }
}

void TokenizerTask::start_fresh() {
  model_->quantizer->begin();
  if (!config_.train.init_from.empty()) load_networks(*model_, config_);
  average_.copy_all();
}

RunState TokenizerTask::state_for_benchmark(int64_t phase) {
  set_phase(phase);
  state_.phase_start_step = std::numeric_limits<int64_t>::min() / 2;  // ramps have ended
  RunState state;
  state.step = config_.adversarial.start_step;
  return state;
}

std::vector<Adam*> TokenizerTask::optimizers() {
  if (!adversary_) return {&optimizer_};
  return {&optimizer_, &adversary_->optimizer()};
}

std::vector<Step::Part> TokenizerTask::trained_parts(bool adversarial) const {
  std::vector<Step::Part> parts = {{"encoder", model_->encoder.get()},
                                   {"quantizer", model_->quantizer.get()},
                                   {"decoder", model_->decoder.get()}};
  if (adversarial) parts.emplace_back("discriminator", &adversary_->module());
  return parts;
}

std::vector<torch::Tensor> TokenizerTask::state_outside_optimizers() {
  auto state = model_->quantizer->statistics();
  const auto add = [&](const std::vector<torch::Tensor>& more) {
    state.insert(state.end(), more.begin(), more.end());
  };
  if (adversary_) add(adversary_->statistics());
  if (replacement_ && replacement_->acts_after_steps() && phase_.replacement) {
    for (const auto& [name, tensor] : replacement_->state()) add({tensor});
    const auto codebook = model_->quantizer->codebook();
    const bool there = std::any_of(state.begin(), state.end(),
                                   [&](const auto& one) { return one.is_same(codebook); });
    if (!there) add({codebook.detach()});
  }
  return state;
}

std::string TokenizerTask::graphs_disabled_reason() const {
  const auto reason =
      streaming_search_unavailable_reason(config_.model.latent_dim, config_.quantizer);
  return reason.empty() ? "" : "the plain search synchronises with the host (" + reason + ")";
}

bool TokenizerTask::step_syncs_host() const {
  return device_.is_cpu() || !uses_streaming_search(config_.model.latent_dim, config_.quantizer);
}

}  // namespace nsvq
