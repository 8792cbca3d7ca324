#include "nsvq/generation/generator_task.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/random.h"
#include "nsvq/core/text.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/generation/generator_model.h"
#include "nsvq/generation/sampling/token_sampler.h"
#include "nsvq/generation/tokens/token_set.h"
#include "nsvq/nn/layers.h"
#include "nsvq/quantizers/search.h"
#include "nsvq/train/training_run.h"

namespace nsvq {

namespace {

std::shared_ptr<Generator> fresh_generator(const GenerationConfig& config, const GridShape& grid,
                                           c10::Device device) {
  choose_precision(config.train.precision, device);  // throws where the device lacks it
  check_sampling(config.sampling, config.generator, grid);
  const SeedGuard seeded(seed_for(config.seed, Draw::weights));
  auto generator = make_generator(config.generator, grid);
  move_to_device(*generator, config, device);
  return generator;
}

}  // namespace

GeneratorTask::GeneratorTask(const GenerationConfig& config, TokenCodec* codec,
                             const TrainingTokens& data, std::shared_ptr<Group> group,
                             c10::Device device)
    : GeneratorTask(config, codec, data, std::move(group), device,
                    fresh_generator(config, data.grid, device),
                    fresh_generator(config, data.grid, device)) {}

GeneratorTask::GeneratorTask(const GenerationConfig& config, TokenCodec* codec,
                             const TrainingTokens& data, std::shared_ptr<Group> group,
                             c10::Device device, std::shared_ptr<Generator> generator,
                             std::shared_ptr<Generator> averaged)
    : NetworkTask(config, {"generator", generator, averaged}, *data.batches, group),
      config_(config),
      codec_(codec),
      data_(data),
      group_(std::move(group)),
      device_(device),
      evaluation_(open_evaluation_tokens(config, data, codec, *group_, device)),
      generator_(std::move(generator)),
      averaged_(std::move(averaged)) {
  generator_->train();
  averaged_->eval();
}

StepPlan GeneratorTask::plan(const RunState& state) {
  auto plan = NetworkTask::plan(state);
  const int64_t steps = total_steps(config_.train, *data_.batches, state);
  plan.kind = plan.phase = "tokens";
  plan.share = static_cast<double>(state.step) / static_cast<double>(std::max<int64_t>(steps, 1));
  if (encodes()) {
    const auto& tokenizer = codec_->model().config;
    plan.graphs_disabled_reason =
        reason_against_graphs(tokenizer.model.latent_dim, tokenizer.quantizer);
  }
  return plan;
}

/// Dropout draws from torch's generator, which no checkpoint holds.
void GeneratorTask::before_step(const RunState& state) {
  if (config_.generator.dropout == 0) return;
  constexpr uint64_t purpose = 0x64726f70;
  torch::manual_seed(
      combine_seeds({static_cast<uint64_t>(config_.seed), purpose,
                     static_cast<uint64_t>(state.step), static_cast<uint64_t>(group_->rank())}));
}

torch::Tensor GeneratorTask::tokens_of(const torch::Tensor& data) {
  return data.scalar_type() == at::kLong ? data : codec_->encode(data);
}

TensorBatch GeneratorTask::prepare(const TensorBatch& batch) {
  return {tokens_of(batch.at(0)), config_.classes > 0 ? batch.at(2) : torch::Tensor()};
}

/// Not finite for an image whose latents are not.
torch::Tensor GeneratorTask::loss_of(Generator& generator, const TokenImages& images,
                                     bool training) const {
  auto own = images;
  own.tokens = drawn_variant(images.tokens, images.seeds).flatten(1);
  if (!encodes()) return generator.loss(own, training);
  const auto broken = own.tokens.lt(0).any(1);
  own.tokens = own.tokens.clamp_min(0);
  return generator.loss(own, training).masked_fill(broken, NAN);
}

torch::Tensor GeneratorTask::losses(const TensorBatch& part, const torch::Tensor& seeds,
                                    const Step& step) {
  return loss_of(*generator_,
                 {part.at(0), part.at(1), seeds, step.inputs().share, RowGradients::equal},
                 /*training=*/true);
}

std::vector<std::string> GeneratorTask::describe(int64_t /*total_steps*/) const {
  const auto& grid = data_.grid;
  return {fmt::format("images       {} to train on, {} to evaluate on", data_.batches->samples(),
                      evaluation_ ? evaluation_->images() : 0),
          fmt::format("tokens       grids of {}x{} by {} codes, {}", grid.height, grid.width,
                      grid.codes, codec_ ? "of " + codec_->name() : "without a tokenizer"),
          fmt::format("parameters   {}", parameter_count(*generator_))};
}

/// The loss of the averaged weights, with equal masks and orders in every evaluation.
std::map<std::string, double> GeneratorTask::evaluate(const RunState& state) {
  if (!evaluation_) return {};
  const torch::NoGradGuard no_grad;
  const int64_t steps = total_steps(config_.train, *data_.batches, state);
  const auto progress = at::full({}, static_cast<double>(state.step) / static_cast<double>(steps),
                                 at::device(device_).dtype(at::kFloat));
  evaluation_->start();
  auto figures = mean_loss(*group_, device_, [&]() -> std::optional<torch::Tensor> {
    const auto batch = evaluation_->next();
    if (!batch) return std::nullopt;
    const auto inputs = prepare(batch->tensors);
    const auto seeds = evaluation_seeds(config_.seed, batch->positions, device_);
    return loss_of(*averaged_, {inputs.at(0), inputs.at(1), seeds, progress}, /*training=*/false);
  });
  if (figures.empty()) throw UserError("data.val: {}: no usable image", config_.data.val.text());
  return figures;
}

std::string GeneratorTask::evaluation_note(const std::map<std::string, double>& figures) const {
  const auto loss = figures.find("loss");
  if (loss == figures.end()) return "";
  return fmt::format(" (perplexity {:.1f} of {} codes)", std::exp(loss->second), data_.grid.codes);
}

/// Samples of the averaged weights, from equal noise each time.
std::optional<Image> GeneratorTask::sample_picture() {
  if (!codec_) return std::nullopt;
  GenerationRequest request;
  request.seed = config_.seed;
  for (int64_t i = 0; i < config_.train.samples; ++i) request.indices.push_back(i);
  request.labels = labels_for(config_.told(), /*wanted=*/-1, request.indices);
  // The other processes would wait for this one.
  if (group_->size() == 1) request.before_step = throw_if_interrupted;
  TokenSampler sampler(averaged_, data_.grid, config_.sampling, device_,
                       /*batch_size=*/config_.train.samples);
  return make_square_grid(codec_->decode(sampler.sample(request)));
}

std::optional<NonfiniteLocation> GeneratorTask::locate_nonfinite(const SkippedSteps& skipped) {
  const NonfiniteLocation elsewhere{"the loss or a gradient"};
  if (!encodes()) return elsewhere;
  const auto tokens = codec_->encode(skipped.batch.at(0));
  const auto found = tokens.flatten(1).lt(0).any(1).nonzero();
  if (found.size(0) == 0) return elsewhere;
  const auto position = skipped.batch.at(1)[found[0][0].item<int64_t>()].item<int64_t>();
  return NonfiniteLocation{"the latents of image " + quote(data_.batches->name_of(position)), true};
}

TensorFile GeneratorTask::model(const RunState& state) {
  // Absolute paths: the file does not depend on whether a run goes on by its recipe or its folder.
  const auto config = with_absolute_paths(config_);
  const auto tokenizer = codec_ ? TokenizerReference{config.tokenizer, codec_->reference().sha256}
                                : TokenizerReference{};
  return generator_contents(
      named_tensors(*averaged_), {config, data_.grid, tokenizer},
      {{"nsvq.step", std::to_string(state.step)}, {"nsvq.epoch", std::to_string(state.epoch)}});
}

}  // namespace nsvq
