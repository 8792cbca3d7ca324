#pragma once

#include <string>
#include <vector>

#include "nsvq/core/lookup.h"

namespace nsvq {

/// What a run of an experiment can be.
struct RunKind {
  std::string name;
  std::vector<std::string> train;  ///< words of the command that trains it; empty: nothing to train
  std::vector<std::string> make;   ///< words of the command that makes its file
};

inline const std::vector<RunKind>& run_kinds() {
  static const std::vector<RunKind> kinds = {{"tokenizer", {"train"}, {}},
                                             {"diffusion", {"diffusion", "train"}, {}},
                                             {"kmeans", {}, {"codebook", "kmeans"}},
                                             {"features", {}, {"codebook", "features"}}};
  return kinds;
}

/// Whether runs of this kind train a model; others make a file.
inline bool is_trained(const std::string& kind) {
  return !find_named(run_kinds(), "kind", kind).train.empty();
}

}  // namespace nsvq
