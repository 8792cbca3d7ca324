#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/train/journal.h"
#include "nsvq/train/run_observer.h"
#include "nsvq/train/steps/step_runner.h"
#include "nsvq/train/training_run.h"

namespace nsvq {

/// Reports steps that were skipped as non-finite, and ends a run whose weights became non-finite:
/// with an alarm in its log, which its verdict reads (nsvq/runs/verdict.h), and a RunError.
class FiniteCheck {
 public:
  /// All outlive it.
  FiniteCheck(TrainingRun& run, StepRunner& steps, Journal& journal,
              const std::vector<RunObserver*>& observers)
      : run_(run), steps_(steps), journal_(journal), observers_(observers) {}

  /// The steps since the last call. Throws RunError if one that was skipped is to end the run.
  void check_steps();
  /// What training goes on from: weights, their average, moments. Losses do not show what the last
  /// step made of them. Throws RunError naming the first tensor that is not finite: it would stay
  /// so in every run that goes on from a checkpoint, and with checkpoint.keep=1 no other one would
  /// be left.
  void check_tensors();
  /// After an operator failed with this `error`: throws RunError if numbers that are not finite
  /// made it fail. Weights may be finite and still too large for what they multiply.
  void check_failure(const std::string& error);

 private:
  [[noreturn]] void end_run(const std::string& why);
  void report_skipped(const SkippedSteps& skipped, int64_t first);
  std::string origin_of(const SkippedSteps& skipped);
  void record_end(const std::string& reason);

  TrainingRun& run_;
  StepRunner& steps_;
  Journal& journal_;
  const std::vector<RunObserver*>& observers_;
};

}  // namespace nsvq
