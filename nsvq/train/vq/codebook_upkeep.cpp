#include "nsvq/train/vq/codebook_upkeep.h"

#include <algorithm>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/random.h"
#include "nsvq/ops/code_statistics/code_usage.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/train/journal.h"

namespace nsvq {

namespace {

/// Latents that a code is fitted to, on average, when the encoder freezes: enough that the error
/// on them is close to that on other images.
constexpr int64_t kRefitLatents = 32;

}  // namespace

CodebookUpkeep::CodebookUpkeep(const TokenizerConfig& config, Tokenizer& model, Adam& optimizer,
                               WeightAverage& average, const PhaseSchedule& schedule,
                               std::shared_ptr<Group> group, c10::Device device)
    : config_(config.replacement),
      quantizer_config_(config.quantizer),
      refits_(config.schedule.refit == "kmeans"),
      windows_of_commitment_(config.schedule.epoch_steps > 0),
      seed_(config.seed),
      model_(model),
      optimizer_(optimizer),
      average_(average),
      schedule_(schedule),
      group_(std::move(group)),
      policy_(make_replacement(config.replacement, config.quantizer, *model->quantizer)),
      usage_(at::zeros({model->quantizer->codes()}, at::device(device).dtype(at::kLong))),
      window_usage_(at::zeros_like(usage_)),
      window_commitment_(at::zeros({2}, usage_.options().dtype(at::kDouble))),
      replaced_(at::zeros({}, usage_.options())) {
  if (!refits_ || model_->quantizer->codebook().defined()) return;
  throw UserError(
      "schedule.refit is {}, but quantizer {} has no codebook to fit; set "
      "schedule.refit=none",
      config.schedule.refit, config.quantizer.type);
}

/// [B, ...] of every rank as [B size, ...], in the order of the epoch.
torch::Tensor CodebookUpkeep::from_all_ranks(const torch::Tensor& latents) {
  return group_->size() == 1 ? latents : gather(*group_, latents).flatten(0, 1);
}

/// Latents [N, d] of the first training images: as many as wanted, up to an epoch's, to the end of
/// a batch; over all ranks.
torch::Tensor CodebookUpkeep::first_latents(BatchSource& batches, int64_t wanted) {
  std::vector<torch::Tensor> latents;
  int64_t count = 0;
  batches.start(0, 0, 0);
  for (auto batch = batches.next(); batch && count < wanted; batch = batches.next()) {
    latents.push_back(flatten_latents(from_all_ranks(model_->to_latents(batch->front()))));
    count += latents.back().size(0);
  }
  return at::cat(latents);
}

void CodebookUpkeep::initialise(BatchSource& batches) {
  auto& quantizer = *model_->quantizer;
  if (!quantizer.wants_data()) return;
  const torch::NoGradGuard no_grad;
  quantizer.initialise_from(first_latents(batches, quantizer.latents_wanted()),
                            seed_for(seed_, Draw::codebook));
  // Rounding may differ between machines.
  for (const auto& [name, tensor] : named_tensors(quantizer)) group_->broadcast({tensor});
  average_.copy_all();
}

/// The codes that the quantizer would begin with if quantizer.init were kmeans, on the latents'
/// device.
torch::Tensor CodebookUpkeep::clusters_of(const torch::Tensor& latents, uint64_t seed) const {
  const auto other = [&] {
    auto config = quantizer_config_;
    config.init = "kmeans";
    const SeedGuard apart;
    return make_quantizer(config, latents.size(1));
  }();
  other->to(latents.device());
  other->initialise_from(latents, seed);
  return other->codebook().detach();
}

void CodebookUpkeep::refit(BatchSource& batches, const RunState& state) {
  if (!refits_ || refit_before_ == state.step) return;
  refit_before_ = state.step;
  const torch::NoGradGuard no_grad;
  auto& quantizer = *model_->quantizer;
  auto codebook = quantizer.codebook().detach();
  const auto latents = first_latents(batches, kRefitLatents * quantizer.codes());
  batches.start(state.epoch, state.batch, state.used);
  codebook.copy_(clusters_of(latents, seed_for(seed_, Draw::codebook, state.step)));
  group_->broadcast({codebook});  // rounding may differ between machines
  start_anew(at::ones({codebook.size(0)}, codebook.options().dtype(at::kBool)));
  average_.copy_buffers();
  log("codes refitted by k-means to {} latents of training images", latents.size(0));
}

void CodebookUpkeep::after_step(const torch::Tensor& latents, const torch::Tensor& indices,
                                const StepInputs& inputs, const torch::Tensor& skip) {
  const torch::NoGradGuard no_grad;
  auto& quantizer = *model_->quantizer;
  if (!schedule_.phase().train_quantizer) return;
  const auto flat = flatten_latents(latents), chosen = indices.flatten();
  quantizer.update_statistics({flat, chosen, inputs.seed, *group_});
  if (policy_ && schedule_.phase().replacement) {
    const auto rows = policy_->after_step(quantizer.codebook(),
                                          {quantizer.compared(flat), chosen, inputs.seed, *group_});
    if (rows.defined()) forget(rows.logical_and(skip.logical_not()));
  }
}

void CodebookUpkeep::count(const torch::Tensor& indices, const Scalars& scalars,
                           const torch::Tensor& skip) {
  const auto usage = code_usage(indices, usage_.size(0)).masked_fill(skip, 0);
  usage_ += usage;
  if (config_.every_steps > 0) window_usage_ += usage;
  if (!windows_of_commitment_) return;
  const auto commitment = scalars.at("commitment").to(at::kDouble);
  window_commitment_ += at::stack({commitment, at::ones_like(commitment)}).masked_fill(skip, 0);
}

double CodebookUpkeep::take_window_commitment() {
  const auto sums = over_ranks(window_commitment_);
  const auto mean = (sums[0] / sums[1]).item<double>();  // 0 / 0 is NaN
  window_commitment_.zero_();
  return mean;
}

/// Codes that nothing chose in a window of stage 1 are replaced. Where the budget ends, a phase may
/// be due that replaces none.
void CodebookUpkeep::after_window(const RunState& state, const torch::Tensor& usage) {
  if (!policy_ || !schedule_.next().replacement) return;
  const int64_t window = config_.every_steps > 0 ? state.step : state.epoch;
  forget(policy_->after_window(model_->quantizer->codebook(), usage, {state.step, state.epoch},
                               seed_for(seed_, Draw::replacement, window)));
}

void CodebookUpkeep::forget(const torch::Tensor& rows) {
  if (!rows.defined()) return;
  start_anew(rows);
  replaced_ += rows.sum();
}

/// An overwritten code has no past: no moments, no statistics, no average.
void CodebookUpkeep::start_anew(const torch::Tensor& rows) {
  auto& quantizer = *model_->quantizer;
  if (config_.reset_moments) optimizer_.reset_rows(quantizer.codebook(), rows);
  quantizer.rows_replaced(rows);
  average_.copy_rows(quantizer.codebook(), rows);
}

void CodebookUpkeep::after_step(Journal& journal, const TensorBatch& /*batch*/) {
  after_window(journal.state(), over_ranks(window_usage_));
  window_usage_.zero_();
}

void CodebookUpkeep::end_epoch(Journal& journal, EpochLine& line) {
  epoch_usage_ = over_ranks(usage_);
  if (config_.every_steps == 0 && line.whole) after_window(journal.state(), epoch_usage_);
}

void CodebookUpkeep::start_next_epoch(Journal& /*journal*/) {
  usage_.zero_();
  replaced_.zero_();
}

std::vector<torch::Tensor> CodebookUpkeep::state_of_steps() const {
  if (!schedule_.phase().train_quantizer) return {};
  auto state = model_->quantizer->statistics();
  if (!policy_ || !policy_->acts_after_steps() || !schedule_.phase().replacement) return state;
  for (const auto& [name, tensor] : policy_->state()) state.push_back(tensor);
  const auto codebook = model_->quantizer->codebook();
  const bool there =
      std::ranges::any_of(state, [&](const torch::Tensor& one) { return one.is_same(codebook); });
  if (!there) state.push_back(codebook.detach());
  return state;
}

torch::Tensor CodebookUpkeep::over_ranks(const torch::Tensor& count) const {
  if (group_->alone()) return count;
  const auto sum = count.clone();
  group_->sum({sum});
  return sum;
}

/// This rank's counters, which a checkpoint sums over ranks.
TensorMap CodebookUpkeep::counts() const {
  TensorMap counts = {{"usage", usage_}};
  if (config_.every_steps > 0) counts["window_usage"] = window_usage_;
  if (windows_of_commitment_) counts["window_commitment"] = window_commitment_;
  return counts;
}

TensorMap CodebookUpkeep::training_state() const {
  TensorMap all;
  if (policy_) add_prefixed(all, "replacement.", policy_->state());
  for (const auto& [name, count] : counts()) all[name] = over_ranks(count);
  all["replaced"] = replaced_;
  return all;
}

void CodebookUpkeep::load(const TensorMap& training, const std::string& from) {
  if (policy_) copy_tensors(policy_->state(), with_prefix(training, "replacement."), from);
  auto all = counts();
  all["replaced"] = replaced_;
  TensorMap stored;
  for (const auto& [name, tensor] : all) {
    if (const auto found = training.find(name); found != training.end()) stored.insert(*found);
  }
  copy_tensors(all, stored, from);
  // Sums over ranks go on in rank 0's counters.
  if (group_->leads()) return;
  for (const auto& [name, count] : counts()) count.zero_();
}

}  // namespace nsvq
