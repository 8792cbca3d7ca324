#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/data/sources/part.h"
#include "nsvq/data/sources/source.h"

namespace nsvq {

/// Some images of a source, in its order and with the class numbers that they have there; there may
/// be none.
class SelectedSource : public Source {
 public:
  /// `images`: rising indices in `source`.
  SelectedSource(std::shared_ptr<const Source> source, std::vector<int64_t> images);
  ~SelectedSource() override;

  int64_t size() const override { return std::ssize(images_); }
  std::string key(int64_t index) const override { return source_->key(images_.at(index)); }
  int64_t label(int64_t index) const override { return source_->label(images_.at(index)); }
  std::vector<std::string> classes() const override { return source_->classes(); }
  Image load(int64_t index) const override { return source_->load(images_.at(index)); }
  const SequentialShards* shards() const override;

 private:
  class Shards;

  std::shared_ptr<const Source> source_;
  std::vector<int64_t> images_;
  std::unique_ptr<const Shards> shards_;  // if the source is read in order
};

/// Indices among [first, end) of the images in a part.
std::vector<int64_t> images_in(const Source& source, const Part& part, int64_t first, int64_t end);

}  // namespace nsvq
