#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/data/sources/source.h"

namespace nsvq {

/// The classes of images that a generating network is told, by the settings of one section.
struct ToldClasses {
  int64_t classes = 0;       ///< 0: none are told
  double label_dropout = 0;  ///< share of training images whose class is not told
  std::string section;       ///< "diffusion" for diffusion.classes

  std::string key() const { return section + ".classes"; }
};

/// Throws UserError, calling it `key`, for a guidance that the network was not trained for.
void check_guidance(const ToldClasses& told, double guidance, const std::string& key);

/// In place of a class: all in turn, by the images' numbers, or one that follows at random from the
/// seed and an image's number.
inline constexpr int64_t kAllClasses = -1, kRandomClasses = -2;

/// A class for each image to be made: `wanted`, or all in turn or at random. No labels where none
/// are told. Throws UserError for a class that there is not.
std::vector<int64_t> labels_for(const ToldClasses& told, int64_t wanted,
                                const std::vector<int64_t>& images, int64_t seed = 0);

/// Throws UserError, naming the key of the source and an image, unless every image has one of the
/// classes; nothing where none are told.
void require_classes(const Source& source, const ToldClasses& told, const std::string& key);
/// Checks the classes of images with these names; errors begin with `from`.
void require_classes(const std::vector<int64_t>& classes, const std::vector<std::string>& names,
                     const ToldClasses& told, const std::string& from);

/// The images of data.val with classes numbered as those of the training data, `names`, which may
/// have more of them. Throws UserError for a class that these lack.
std::shared_ptr<const Source> numbered_as(std::shared_ptr<const Source> source,
                                          const std::vector<std::string>& names);

}  // namespace nsvq
