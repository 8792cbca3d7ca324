#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "nsvq/tokenizer/layouts/names.h"

namespace nsvq {

/// Shapes of tensors by their names.
using NamedShapes = std::map<std::string, std::vector<int64_t>>;

/// How a program names the tensors of its tokenizer, and what they become here.
struct Layout {
  /// A name that begins so, of a tensor of this shape where one is given (0: any size).
  struct Mark {
    std::string begins;
    std::vector<int64_t> shape = {};
  };
  std::string name;                     ///< "LlamaGen's VQ"
  std::vector<Mark> has = {};           ///< each of them is there
  std::vector<std::string> lacks = {};  ///< no name begins with one of these
  std::string refused = {};             ///< why no model is made of it; empty if one is
  std::vector<NameRule> rules = {};
  std::vector<std::string> dropped = {};   ///< patterns of names that a tokenizer does not need
  std::vector<std::string> settings = {};  ///< what shapes do not tell, as lines of a recipe
  int64_t image_size = 256;                ///< side of the images that it was trained on
  /// Tensors of ours that follow from the settings, and are not there.
  std::vector<std::string> made = {};
  /// Lines of a recipe that follow from the numbers in tensors. Throws UserError, calling the file
  /// `from`, for features that nsvq implements differently.
  std::vector<std::string> (*told_by)(const TensorMap& theirs, const std::string& from) = nullptr;
  /// Throws UserError for what a file beside the weights says that nsvq does not implement.
  void (*check_beside)(const std::filesystem::path& file) = nullptr;
};

// The members, one function a family of names (a file each).

std::vector<Layout> refused_layouts();
std::vector<Layout> taming_layouts();
std::vector<Layout> cosmos_layouts();
std::vector<Layout> llamagen_layouts();
std::vector<Layout> diffusers_layouts();
std::vector<Layout> maskgit_layouts();
std::vector<Layout> magvit2_layouts();
std::vector<Layout> simvq_layouts();

/// Rules for the networks of taming-transformers' VQGAN, which several programs name so.
std::vector<NameRule> taming_networks();

/// All of them, each before those that it also fits.
const std::vector<Layout>& known_layouts();
/// The layout of this name. Throws UserError with the names there are.
const Layout& find_layout(const std::string& name);

/// The layout of tensors by their names without prefixes; null for one that is not known.
const Layout* recognise_layout(const NamedShapes& shapes);

/// "LlamaGen's VQ is recognised; ", and that import takes it or why not.
std::string describe_layout(const Layout& layout);

/// The layout that fits tensors of an unknown one best, and the first in which they differ, for the
/// end of an error message.
std::string nearest_layout(const NamedShapes& shapes);

/// The sizes as an error message shows them: "[512, 256, 3, 3]".
std::string shown_sizes(const std::vector<int64_t>& sizes);

/// The names of a map, in its order.
std::vector<std::string> names_in(const NamedShapes& shapes);

/// The settings of a recipe that follow from a layout and the shapes of tensors, which have our
/// names: lines "model.width: 128". Throws UserError, calling the file `from`, where a tensor that
/// they follow from is missing or has no such shape.
std::vector<std::string> inferred_settings(const Layout& layout, const NamedShapes& ours,
                                           const std::string& from);

}  // namespace nsvq
