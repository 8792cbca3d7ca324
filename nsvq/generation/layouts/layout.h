#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "nsvq/generation/generator.h"
#include "nsvq/tokenizer/layouts/names.h"

namespace nsvq {

/// What the shapes of a generator's tensors tell.
struct GeneratorSizes {
  int64_t width = 0, hidden = 0, codes = 0, classes = 0;
  int64_t positions = 0;  ///< of an image; 0: they do not tell
  int64_t registers = 0;
};

/// How a program names the tensors of its generator, and what they become here.
struct GeneratorLayout {
  std::string program;                    ///< for --as: "llamagen"
  std::string name;                       ///< "LlamaGen's generator"
  std::string family;                     ///< generator.family
  std::vector<std::string> has;           ///< a name begins with each of these
  std::string refused = {};               ///< why no generator is made of it; empty if one is
  std::vector<NameRule> rules = {};       ///< for tensors that have our sizes
  std::vector<std::string> dropped = {};  ///< patterns of names that follow from the settings
  /// Sizes by tensors with our names. Throws UserError, calling the file `from`, where a tensor is
  /// missing.
  GeneratorSizes (*sizes)(const TensorMap& ours, const std::string& from) = nullptr;
  int64_t (*heads)(int64_t width) = nullptr;  ///< of the program's model of this width
  /// How the program samples from its model of this width.
  SamplingConfig (*sampling)(int64_t width) = nullptr;
  /// Gives tensors that the program stores otherwise our sizes, and takes it back; null where there
  /// are none. Throws UserError, calling the file `from`.
  void (*to_our_sizes)(TensorMap& theirs, const std::string& from) = nullptr;
  void (*to_their_sizes)(TensorMap& theirs) = nullptr;
  /// Why the program has no such network; empty if it has.
  std::string (*why_not)(const GeneratorConfig& config, const GridShape& grid) = nullptr;
};

// The members, one function a program (a file each).

std::vector<GeneratorLayout> llamagen_generators();
std::vector<GeneratorLayout> halton_generators();
std::vector<GeneratorLayout> rar_generators();

const std::vector<GeneratorLayout>& generator_layouts();
/// The programs for which a generator can be written: llamagen, halton, rar.
std::vector<std::string> generator_programs();
/// The layout of tensors with these names; null for one that is not known.
const GeneratorLayout* recognise_generator(const std::vector<std::string>& names);
/// "LlamaGen's generator is recognised; ", and that import takes it or why not.
std::string describe_generator(const GeneratorLayout& layout);

/// GeneratorLayout::why_not of programs whose grids are square and whose gated layers have one
/// width.
std::string why_not_square_and_gated(const GeneratorConfig& config, const GridShape& grid);
/// The size of a tensor along an axis. Throws UserError where it is missing or has fewer.
int64_t size_of_tensor(const TensorMap& tensors, const std::string& name, int64_t axis,
                       const std::string& from);

}  // namespace nsvq
