#include "nsvq/train/network_task.h"

#include <utility>

#include "nsvq/core/interrupt.h"
#include "nsvq/core/random.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/recipe/loader_options.h"
#include "nsvq/train/steps/lr_schedule.h"
#include "nsvq/train/training_run.h"

namespace nsvq {

NetworkTask::NetworkTask(const RunConfig& config, TrainedNetwork network,
                         const LabelledBatches& batches, std::shared_ptr<Group> group)
    : config_(config),
      network_(std::move(network)),
      batches_(batches),
      group_(std::move(group)),
      average_(network_.module, network_.average, config.optimizer.ema_decay),
      optimizer_(named_parameters(*network_.module), config.optimizer, &average_) {
  for (const auto& parameter : network_.average->parameters()) parameter.set_requires_grad(false);
}

StepPlan NetworkTask::plan(const RunState& state) {
  const int64_t steps = total_steps(config_.train, batches_, state);
  return {.kind = "step", .lr_factors = {lr_factor(config_.optimizer.schedule, state.step, steps)}};
}

void NetworkTask::step(const TensorBatch& batch, Step& step) {
  const int64_t count = batch[0].size(0), slices = config_.train.accumulate;
  const auto positions = at::arange(count, batch[1].options()) + group_->rank() * count;
  const auto seeds = step.inputs().seed + positions;
  const auto inputs = prepare(batch);
  torch::Tensor total = at::zeros({}, seeds.options().dtype(at::kFloat));
  for (int64_t slice = 0; slice < slices; ++slice) {
    const int64_t first = count * slice / slices, size = count * (slice + 1) / slices - first;
    const auto own = [&](const torch::Tensor& all) {
      return all.defined() ? all.narrow(0, first, size) : all;
    };
    TensorBatch images;
    for (const auto& tensor : inputs) images.push_back(own(tensor));
    const auto loss = losses(images, own(seeds), step).sum() / static_cast<double>(count);
    step.backward(loss, *network_.module, slice + 1 == slices);
    total = total + loss.detach();
  }
  Scalars scalars = {{"loss", total}};
  if (!is_constant(config_.optimizer.schedule)) scalars["lr"] = optimizer_.lr();
  // The average's decay min(decay, (1 + n) / (10 + n)) in step n: first weights are soon forgotten.
  const auto n = step.inputs().step.to(at::kFloat) + 1;
  optimizer_.set_average_decay(((n + 1) / (n + 10)).clamp_max(config_.optimizer.ema_decay));
  step.update(scalars, {{network_.name, network_.module.get()}});
}

TensorMap NetworkTask::training_state() {
  TensorMap all;
  add_prefixed(all, "model.", named_tensors(*network_.module));
  add_prefixed(all, "adam.", optimizer_.state());
  return all;
}

TensorMap NetworkTask::shared_tensors() {
  auto all = NetworkTask::training_state();
  add_prefixed(all, "average.", named_tensors(*network_.average));
  return all;
}

void NetworkTask::load(const TensorMap& model, const TensorMap& training,
                       const std::string& /*state*/, const std::string& from) {
  load_tensors(*network_.module, with_prefix(training, "model."), from);
  load_tensors(*network_.average, model, from);
  optimizer_.load(with_prefix(training, "adam."), from);
}

LoaderOptions validation_loader_options(const RunConfig& config, const Group& group,
                                        c10::Device device) {
  auto options = inference_loader_options(config, device, group.size());
  options.rank = group.rank();
  options.world = group.size();
  return options;
}

torch::Tensor evaluation_seeds(int64_t seed, const std::vector<int64_t>& positions,
                               c10::Device device) {
  constexpr uint64_t purpose = 0x76616c;
  return image_seeds(seed, purpose, positions).to(device);
}

std::map<std::string, double> mean_loss(Group& group, c10::Device device,
                                        const std::function<std::optional<torch::Tensor>()>& next) {
  auto sums = at::zeros({2}, at::device(device).dtype(at::kDouble));
  while (const auto losses = next()) {
    const auto wide = losses->to(at::kDouble);
    sums += at::stack({wide.sum(), at::full({}, wide.size(0), wide.options())});
    throw_if_interrupted();
  }
  group.sum({sums});
  const double images = sums[1].item<double>();
  if (images == 0) return {};
  return {{"loss", sums[0].item<double>() / images}, {"images", images}};
}

}  // namespace nsvq
