// How the steps of trainer.cpp are given to a device, and which of them count.

#include <algorithm>
#include <limits>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/quantizers/search.h"
#include "nsvq/train/diagnosis.h"
#include "nsvq/train/setup.h"
#include "nsvq/train/trainer.h"

namespace nsvq {

void Trainer::rehearse(const torch::Tensor& images, int64_t phase) {
  at_.phase = phase;
  phase_ = phase_by_name(config_.schedule.phases.at(phase));
  at_.phase_start_step = std::numeric_limits<int64_t>::min() / 2;  // what ramps up has done so
  at_.step = config_.adversarial.start_step;
  freeze(*model_->encoder, !phase_.train_encoder);
  train_step(images);
}

std::string Trainer::why_not_recorded() const {
  if (!config_.train.graphs) return "train.graphs is false";
  if (!device_.is_cuda()) return "for a GPU";
  if (group_->size() > 1) return "for one process";
  if (search_waits()) return "the search by plain operators waits";
  return "";
}

/// Whether a step waits for its search, so that latents that are not finite must not reach it.
bool Trainer::search_waits() const {
  return device_.is_cpu() || !search_streams(config_.model.latent_dim, config_.quantizer);
}

/// What a step changes by other ways than the optimizer, and before it is known whether it counts.
std::vector<torch::Tensor> Trainer::state_without_optimizer() {
  auto state = model_->quantizer->statistics();
  const auto add = [&](const std::vector<torch::Tensor>& more) {
    state.insert(state.end(), more.begin(), more.end());
  };
  if (adversary_) add(adversary_->statistics());
  if (replacement_ && replacement_->acts_after_steps() && phase_.replacement) {
    for (const auto& [name, tensor] : replacement_->state()) add({tensor});
    const auto codebook = model_->quantizer->codebook();
    const bool kept = std::any_of(state.begin(), state.end(),
                                  [&](const auto& one) { return one.is_same(codebook); });
    if (!kept) add({codebook.detach()});
  }
  return state;
}

/// Learns which of the last steps were not taken, and says so or ends the run.
void Trainer::settle() {
  if (unsettled_ == 0) return;
  auto refused = guard_.read();
  const int64_t first = at_.step - unsettled_;
  unsettled_ = 0;
  if (!refused) return;
  refused->first += first;
  report_refused(*refused);
}

void Trainer::report_refused(const RefusedSteps& refused) {
  const auto place = fmt::format("(epoch {}, {})", at_.epoch + 1, phase_.name);
  if (refused.overflows > 0) {
    log("up to step {} {}: {} overflowed in fp16 and were skipped, gradients are now scaled by {}",
        at_.step, place, refused.overflows, loss_scale_.factor().item<double>());
  }
  if (refused.count == 0) return;
  // Gradients are those of the last step, which may be a later one.
  if (refused.first + 1 < at_.step) optimizer_.clear_gradients();
  const auto where = fmt::format("step {} {}: not finite, first at {}; {}", refused.first + 1,
                                 place, first_not_finite(model_, refused.images, refused.values),
                                 describe_scalars(refused.values));
  optimizer_.clear_gradients();
  at_.skipped += refused.count;
  const auto& train = config_.train;
  if (train.on_nonfinite == "skip" && at_.skipped <= train.nonfinite_limit) {
    const auto more = refused.count > 1 ? fmt::format(" with {} after it", refused.count - 1) : "";
    log("{}; skipped{} ({} of {})", where, more, at_.skipped, train.nonfinite_limit);
    return;
  }
  throw RunError("{}; {}the last checkpoint is intact: lower optimizer.lr and start a new run",
                 where, train.on_nonfinite == "skip" ? "train.nonfinite_limit is reached; " : "");
}

}  // namespace nsvq
