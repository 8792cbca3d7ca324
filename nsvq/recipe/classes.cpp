#include "nsvq/recipe/classes.h"

#include <fmt/format.h>

#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/random.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/combined_sources.h"

namespace nsvq {

void check_guidance(const ToldClasses& told, double guidance, const std::string& key) {
  if (guidance == 1) return;
  if (told.classes == 0) {
    throw UserError("{} {}: the model knows no classes ({} is 0); leave it 1", key, guidance,
                    told.key());
  }
  if (told.label_dropout > 0) return;
  throw UserError(
      "{} {}: guidance needs a model that was trained with dropped labels, but {}.label_dropout is "
      "0; leave it 1",
      key, guidance, told.section);
}

std::vector<int64_t> labels_for(const ToldClasses& told, int64_t wanted,
                                const std::vector<int64_t>& images, int64_t seed) {
  if (told.classes == 0) {
    if (wanted < 0) return {};
    throw UserError("class {}: the model knows no classes ({} is 0)", wanted, told.key());
  }
  if (wanted >= told.classes) {
    throw UserError("class {}: the model has classes 0 to {}", wanted, told.classes - 1);
  }
  std::vector<int64_t> labels;
  for (const int64_t image : images) {
    if (wanted >= 0) {
      labels.push_back(wanted);
    } else if (wanted == kAllClasses) {
      labels.push_back(image % told.classes);
    } else {
      constexpr uint64_t purpose = 0x636c617373;
      const auto drawn =
          combine_seeds({static_cast<uint64_t>(seed), purpose, static_cast<uint64_t>(image)});
      labels.push_back(static_cast<int64_t>(drawn % static_cast<uint64_t>(told.classes)));
    }
  }
  return labels;
}

void require_classes(const Source& source, const ToldClasses& told, const std::string& key) {
  if (told.classes == 0) return;
  for (int64_t i = 0; i < source.size(); ++i) {
    const int64_t label = source.label(i);
    if (label < 0) {
      throw UserError(
          "{0}: image {1} has no class, but {2} is {3}; set {2}=0 or name images with classes "
          "(folders, or .cls files in tars)",
          key, quote(source.key(i)), told.key(), told.classes);
    }
    if (label >= told.classes) {
      throw UserError("{}: image {} is of class {}, but {} is {}", key, quote(source.key(i)), label,
                      told.key(), told.classes);
    }
  }
}

void require_classes(const std::vector<int64_t>& classes, const std::vector<std::string>& names,
                     const ToldClasses& told, const std::string& from) {
  if (told.classes == 0) return;
  for (size_t i = 0; i < classes.size(); ++i) {
    const int64_t own = classes[i];
    if (own >= 0 && own < told.classes) continue;
    throw UserError("{}: image {} {}, but {} is {}", from, quote(names[i]),
                    own < 0 ? "has no class" : fmt::format("is of class {}", own), told.key(),
                    told.classes);
  }
}

std::shared_ptr<const Source> numbered_as(std::shared_ptr<const Source> source,
                                          const std::vector<std::string>& names) {
  if (names.empty() || source->classes().empty()) return source;  // numbers of .cls files
  return std::make_shared<NamedClasses>(std::move(source), names,
                                        "data.val: classes of the training data");
}

}  // namespace nsvq
