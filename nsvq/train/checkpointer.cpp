#include "nsvq/train/checkpointer.h"

#include <cmath>
#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

void Checkpointer::set_saved() {
  saved_ = position();
  run_.has_checkpoint = saved_ != Position{};
}

void Checkpointer::loaded() { set_saved(); }

void Checkpointer::save() {
  auto training = run_.task.training_state();
  auto of_steps = steps_.state();
  training.merge(of_steps);
  TORCH_CHECK(of_steps.empty(), "checkpoint: two tensors are named ", of_steps.begin()->first);
  auto state = run_.state;
  state.task = run_.task.state();
  state.finished = state.finished && !state.evaluation_pending;
  const auto written = at::zeros({1});
  run_.write([&](RunDirectory& folder) {
    const auto logs = state.evaluation_pending ? before_evaluation_ : folder.position();
    folder.save({state, logs, run_.task.model(state), std::move(training)},
                run_.options.checkpoint.keep, best_step());
    written.fill_(1);
  });
  run_.group->broadcast({written});
  if (written.item<float>() > 0) set_saved();
}

void Checkpointer::require_saved() const {
  if (is_saved()) return;
  const auto kept = run_.has_checkpoint
                        ? fmt::format("the last checkpoint written is of step {}", saved_.step)
                        : "no checkpoint could be written";
  throw RunError("{}: trained up to step {}, but {}; {}",
                 run_.folder ? run_.folder->path().string() : "the run", run_.state.step, kept,
                 run_.disk_full ? "make room and resume" : "resume when its folder can be written");
}

void Checkpointer::epoch_logged() {
  if (run_.folder) before_evaluation_ = run_.folder->position();
}

void Checkpointer::compare_with_best() {
  const auto& metric = run_.options.checkpoint.keep_best;
  const auto& evaluation = run_.state.evaluation;
  const auto found = evaluation.find(metric);
  if (found == evaluation.end() || !std::isfinite(found->second)) return;
  auto& best = run_.state.best;
  const bool higher = run_.options.best_is_highest;
  const bool better = higher ? found->second > best.value : found->second < best.value;
  if (best.metric != metric || better) best = {metric, found->second, run_.state.step};
}

int64_t Checkpointer::best_step() const {
  const auto& metric = run_.options.checkpoint.keep_best;
  return !metric.empty() && run_.state.best.metric == metric ? run_.state.best.step : -1;
}

void Checkpointer::mark_best() {
  // A finished run keeps its mark.
  if (run_.state.finished && best_step() < 0) return;
  run_.write([&](RunDirectory& folder) { folder.mark_best(best_step()); });
}

}  // namespace nsvq
