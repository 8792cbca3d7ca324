#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nsvq/core/lookup.h"
#include "nsvq/recipe/run_kind.h"

namespace nsvq {

/// What a run of an experiment can be.
struct JobKind {
  std::string name;
  std::optional<RunKind> trains;
  std::vector<std::string> train;  ///< words of the command that trains it; empty: nothing to train
  std::vector<std::string> make;   ///< words of the command that makes its file
};

inline const std::vector<JobKind>& job_kinds() {
  static const std::vector<JobKind> kinds = {
      {run_kind(RunKind::tokenizer).name, RunKind::tokenizer, {"train"}, {}},
      {run_kind(RunKind::diffusion).name, RunKind::diffusion, {"diffusion", "train"}, {}},
      {"kmeans", std::nullopt, {}, {"codebook", "kmeans"}},
      {"features", std::nullopt, {}, {"codebook", "features"}}};
  return kinds;
}

/// Whether runs of this kind train a model; others make a file.
inline bool is_trained(const std::string& kind) {
  return find_named(job_kinds(), "kind", kind).trains.has_value();
}

/// Whether runs of this kind train a model of `trained`.
inline bool trains(const std::string& kind, RunKind trained) {
  return find_named(job_kinds(), "kind", kind).trains == trained;
}

}  // namespace nsvq
