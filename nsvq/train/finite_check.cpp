#include "nsvq/train/finite_check.h"

#include <exception>
#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/runs/verdict.h"

namespace nsvq {

void FiniteCheck::check_steps() {
  const auto checked = steps_.check_skipped_steps();
  if (checked.skipped) report_skipped(*checked.skipped, run_.state.step - checked.steps);
}

void FiniteCheck::check_tensors() {
  const auto name = first_nonfinite(run_.task.shared_tensors());
  if (!name.empty()) end_run(name + " is not finite");
}

void FiniteCheck::check_failure(const std::string& error) {
  if (is_out_of_memory(error)) return;
  check_tensors();
  const auto says = [&](const char* text) { return error.find(text) != std::string::npos; };
  if (says("NaN or infinity") || says("is not finite")) end_run(error.substr(0, error.find('\n')));
}

/// Between steps, by what the last one made of the weights.
void FiniteCheck::end_run(const std::string& why) {
  const auto what = fmt::format("step {}: {}", run_.state.step, why);
  record_end(what);
  throw RunError("{}, so that no checkpoint is written; {}", what,
                 run_.has_checkpoint ? "the last checkpoint is intact: resume, and if this comes "
                                       "again, lower optimizer.lr and start a new run"
                                     : "lower optimizer.lr and start a new run");
}

/// Where values became non-finite, with the first rank whose own images or weights were so.
std::string FiniteCheck::origin_of(const SkippedSteps& skipped) {
  NonfiniteLocation location{"a loss or a gradient"};
  for (auto* observer : observers_) {
    if (auto found = observer->locate_nonfinite(skipped)) {
      location = std::move(*found);
      break;
    }
  }
  auto& group = *run_.group;
  if (group.size() == 1) return location.text;
  const auto own = gather(group, at::tensor({static_cast<int64_t>(location.own)}, at::kLong));
  if (own.sum().item<int64_t>() == 0) return location.text;
  const auto rank = own.flatten().argmax().item<int64_t>();
  return fmt::format("rank {}: {}", rank,
                     text_of_rank(group, static_cast<int>(rank), location.text));
}

/// For the verdict and the report. What cannot be written keeps no other line back.
void FiniteCheck::record_end(const std::string& reason) {
  try {
    journal_.record_alarm(kNonfiniteSign, reason);
    journal_.end_report();
  } catch (const std::exception& error) {
    log("{}", error.what());
  }
}

/// `first` is the number of the first step that was checked.
void FiniteCheck::report_skipped(const SkippedSteps& skipped, int64_t first) {
  auto& state = run_.state;
  const auto when = fmt::format("(epoch {}, {})", state.epoch + 1, journal_.phase());
  if (skipped.overflows > 0) {
    log("up to step {} {}: {} skipped for overflow in fp16, the loss scale is now {}", state.step,
        when, count_of(skipped.overflows, "step"), steps_.loss_scale_factor());
  }
  if (skipped.count == 0) return;
  const int64_t step = first + skipped.first + 1;
  // Gradients are those of the last step, which may be a later one.
  if (step < state.step) steps_.clear_gradients();
  const auto what = fmt::format("step {} {}: non-finite, first at {}; {}", step, when,
                                origin_of(skipped), describe_scalars(skipped.values));
  steps_.clear_gradients();
  state.skipped += skipped.count;
  const auto& train = run_.options.train;
  if (train.on_nonfinite == "skip" && state.skipped <= train.nonfinite_limit) {
    const auto more = skipped.count > 1 ? fmt::format(" with {} after it", skipped.count - 1) : "";
    log("{}; skipped{} ({} of {})", what, more, state.skipped, train.nonfinite_limit);
    return;
  }
  record_end(what);
  throw RunError("{}; {}{}lower optimizer.lr and start a new run", what,
                 train.on_nonfinite == "skip" ? "train.nonfinite_limit is reached; " : "",
                 run_.has_checkpoint ? "the last checkpoint is intact: " : "");
}

}  // namespace nsvq
