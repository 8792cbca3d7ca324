#pragma once

#include <string>
#include <vector>

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

}  // namespace nsvq
