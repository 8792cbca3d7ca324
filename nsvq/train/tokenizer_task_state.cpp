// How a tokenizer's training comes to be, and what of it a checkpoint holds.

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/quantizers/search.h"
#include "nsvq/tokenizer/loader_options.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/train/tokenizer_task.h"

namespace nsvq {

using nlohmann::json;

namespace {

Tokenizer make_average(const Config& config, c10::Device device) {
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
                           const Group& group, int64_t count) {
  auto options = validation_options(config, group, at::kCPU);
  options.batch_size = count;
  Loader loader(std::move(source), options);
  loader.start(0);
  const auto batch = loader.next();
  if (!batch) throw UserError("data.val: {}: no usable image", config.data.val);
  return batch->images;
}

/// What train.metrics names, with networks loaded. Throws UserError naming the key for an unknown
/// metric, missing weights, and images that are too few or too small for one.
MetricSet make_metrics(const Config& config, int64_t codes, int64_t images, c10::Device device) {
  try {
    MetricSet metrics(config.train.metrics, {.conventions = {}, .codes = codes, .device = device});
    bool networks = false;
    for (const auto& name : config.train.metrics) {
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

/// JSON has no NaN; null stands for it.
double number(const json& value) { return value.is_null() ? NAN : value.get<double>(); }

}  // namespace

TokenizerTask::TokenizerTask(const Config& config, BatchSource& batches,
                             std::shared_ptr<Group> group, c10::Device device)
    : config_(config),
      batches_(batches),
      group_(std::move(group)),
      device_(device),
      val_source_(open_source_of("data.val", config_.data.val)),
      val_loader_(val_source_, validation_options(config_, *group_, device_)),
      model_(make_tokenizer(config_, device_)),
      averaged_(make_average(config_, device_)),
      average_(model_.ptr(), averaged_.ptr(), config_.optimizer.ema_decay),
      optimizer_(named_parameters(*model_), config_.optimizer, &average_),
      losses_(make_losses(config_, device_)),
      replacement_(make_replacement(config_, *model_->quantizer)),
      fixed_images_(first_images(val_source_, config_, *group_, config_.train.samples).to(device_)),
      phase_(phase_by_name(config_.schedule.phases.front())),
      usage_(at::zeros({model_->quantizer->codes()}, at::device(device_).dtype(at::kLong))),
      replaced_(at::zeros({}, usage_.options())) {
  if (config_.adversarial.weight > 0) adversary_.emplace(config_, device_);
  if (config_.drift.images > 0) {
    const auto images = first_images(val_source_, config_, *group_, config_.drift.images);
    drift_.emplace(images.to(device_), config_.train.batch_size, config_.quantizer.tau);
  }
  metrics_.emplace(make_metrics(config_, model_->quantizer->codes(), val_source_->size(), device_));
  if (config_.train.check > 0) {
    check_.emplace(config_.quantizer, config_.model.latent_dim, device_);
  }
}

void TokenizerTask::start_fresh() {
  model_->quantizer->begin();
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

TensorFile TokenizerTask::model(const RunState& state) {
  return model_contents(
      named_tensors(*averaged_), config_,
      {{"nsvq.step", std::to_string(state.step)}, {"nsvq.epoch", std::to_string(state.epoch)}});
}

TensorMap TokenizerTask::training_state() {
  TensorMap all;
  add_prefixed(all, "model.", named_tensors(*model_));
  add_prefixed(all, "adam.", optimizer_.state());
  if (adversary_) add_prefixed(all, "discriminator.", adversary_->state());
  if (drift_) add_prefixed(all, "drift.", drift_->state());
  if (replacement_) add_prefixed(all, "replacement.", replacement_->state());
  all["usage"] = usage_;
  all["replaced"] = replaced_;
  return all;
}

std::string TokenizerTask::state() const {
  auto health = json::array();
  for (const auto& epoch : state_.health) {
    health.push_back({epoch.utilisation, epoch.latent_norm, epoch.neighbours});
  }
  return json{{"phase", state_.phase},
              {"phase_start", state_.phase_start},
              {"phase_start_step", state_.phase_start_step},
              {"commitment", state_.commitment},
              {"health", health},
              {"alarms", state_.alarms},
              {"drift", state_.drift},
              {"best_psnr", state_.best_psnr},
              {"best_epoch", state_.best_epoch}}
      .dump();
}

void TokenizerTask::load(const TensorMap& model, const TensorMap& training,
                         const std::string& state, const std::string& from) {
  try {
    const auto all = json::parse(state);
    state_ = {};
    state_.phase = all.at("phase");
    state_.phase_start = all.at("phase_start");
    state_.phase_start_step = all.at("phase_start_step");
    for (const auto& value : all.at("commitment")) state_.commitment.push_back(number(value));
    for (const auto& row : all.at("health")) {
      state_.health.push_back({number(row.at(0)), number(row.at(1)), number(row.at(2))});
    }
    state_.alarms = all.at("alarms").get<std::set<std::string>>();
    for (const auto& [name, value] : all.at("drift").items()) state_.drift[name] = number(value);
    state_.best_psnr = number(all.at("best_psnr"));
    state_.best_epoch = all.at("best_epoch");
  } catch (const json::exception& error) {
    throw UserError("{}: not a tokenizer's training state ({})", from, error.what());
  }
  load_tensors(*model_, with_prefix(training, "model."), from);
  load_tensors(*averaged_, model, from);
  optimizer_.load(with_prefix(training, "adam."), from);
  if (adversary_) adversary_->load(with_prefix(training, "discriminator."), from);
  if (drift_) drift_->load(with_prefix(training, "drift."));
  if (replacement_) {
    copy_tensors(replacement_->state(), with_prefix(training, "replacement."), from);
  }
  copy_tensors({{"usage", usage_}, {"replaced", replaced_}},
               {{"usage", training.at("usage")}, {"replaced", training.at("replaced")}}, from);
  set_phase(state_.phase);
}

}  // namespace nsvq
