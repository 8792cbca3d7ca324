#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/data/sources/source.h"

namespace nsvq {

/// Several sources, one after another. Classes of the same name are one class.
class JoinedSource : public Source {
 public:
  /// A source with the text that comes before its keys, so that folders may hold equal names.
  struct Part {
    std::unique_ptr<Source> source;
    std::string prefix;
  };

  /// Throws UserError if classes of one part have names and those of another are numbers.
  explicit JoinedSource(std::vector<Part> parts);

  int64_t size() const override { return starts_.back(); }
  std::string key(int64_t index) const override;
  int64_t label(int64_t index) const override;
  std::vector<std::string> classes() const override { return classes_; }
  Image load(int64_t index) const override;

 private:
  struct Place {
    size_t part;
    int64_t index;  ///< within the part
  };
  Place place_of(int64_t index) const;

  std::vector<Part> parts_;
  std::vector<int64_t> starts_;  ///< index of each part's first image, and the number of images
  std::vector<std::string> classes_;
  std::vector<std::vector<int64_t>> numbers_;  ///< by part: its class numbers among all classes
};

}  // namespace nsvq
