#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "nsvq/tokenizer/layouts/layout.h"

namespace nsvq {

/// The tokenizer in a file of another program, by its names there without prefixes.
struct TheirWeights {
  std::string file, part;          ///< `part`: the dict that the tensors are of
  const Layout* layout = nullptr;  ///< null for one that is not known
  TensorMap tensors = {};
  TensorMap average = {};  ///< of a dict beside theirs, which is called `average_part`
  std::string average_part = {};
  /// How many tensors are left out, by the names that they have in common ("loss.*").
  std::map<std::string, int64_t> dropped = {};
};

/// Reads the files that hold a tokenizer's weights together. Throws UserError for a layout that is
/// refused and, unless `any_layout`, for an unknown one.
TheirWeights read_their_weights(const std::vector<std::filesystem::path>& files, bool any_layout);

/// Their tensors under our names.
struct OurWeights {
  TensorMap tensors;
  std::map<std::string, std::string> theirs;  ///< their names by ours
  size_t averaged = 0;                        ///< how many are the moving average
};

/// A name that no rule of the layout has stays. With `last` the moving average is not taken. Counts
/// what is dropped in `weights`. Throws UserError where the average lacks a tensor and where two
/// get one name.
OurWeights with_our_names(TheirWeights& weights, bool last);

/// The rules of the layout or, where it is not known, those of SimVQ, whose network is ours.
const std::vector<NameRule>& rules_for(const TheirWeights& weights);

/// What the file calls the moving average of its weights; empty where it has none.
std::string average_name(const TheirWeights& weights);

NamedShapes shapes_of(const TensorMap& tensors);

}  // namespace nsvq
