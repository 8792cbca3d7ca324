#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/data/sources/source.h"

namespace nsvq {

/// Several sources, one after another. Classes with equal names become one class.
class JoinedSource : public Source {
 public:
  /// A source and a prefix for its keys, so that files of several folders may have equal names.
  struct Part {
    std::unique_ptr<Source> source;
    std::string prefix;
  };

  /// Throws UserError if classes of one part have names and classes of another are numbers.
  explicit JoinedSource(std::vector<Part> parts);

  int64_t size() const override { return starts_.back(); }
  std::string key(int64_t index) const override;
  int64_t label(int64_t index) const override;
  std::vector<std::string> classes() const override { return classes_; }
  Image load(int64_t index) const override;

 private:
  struct Position {
    size_t part;
    int64_t index;  ///< within the part
  };
  Position position_of(int64_t index) const;

  std::vector<Part> parts_;
  std::vector<int64_t> starts_;  ///< index of each part's first image, then the number of images
  std::vector<std::string> classes_;
  std::vector<std::vector<int64_t>> numbers_;  ///< per part: class numbers among all classes
};

/// The first `limit` images of a source.
class LimitedSource : public Source {
 public:
  LimitedSource(std::shared_ptr<const Source> source, int64_t limit)
      : source_(std::move(source)), size_(std::min(limit, source_->size())) {}

  int64_t size() const override { return size_; }
  std::string key(int64_t index) const override { return source_->key(index); }
  int64_t label(int64_t index) const override { return source_->label(index); }
  std::vector<std::string> classes() const override { return source_->classes(); }
  Image load(int64_t index) const override { return source_->load(index); }
  const SequentialShards* shards() const override { return source_->shards(); }
  BrokenLog& broken_log() const override { return source_->broken_log(); }

 private:
  std::shared_ptr<const Source> source_;
  int64_t size_;
};

/// The first `limit` images of a source, or all of them where it is 0 or there are fewer.
std::shared_ptr<const Source> limited(std::shared_ptr<const Source> source, int64_t limit);

/// A source whose class numbers follow a list of names: the number of a class is its index there.
class NamedClasses : public Source {
 public:
  /// Throws UserError if the source has a class that `names` lacks, or classes without names.
  /// Errors call the list `list`.
  NamedClasses(std::shared_ptr<const Source> source, std::vector<std::string> names,
               const std::string& list = "the list");

  int64_t size() const override { return source_->size(); }
  std::string key(int64_t index) const override { return source_->key(index); }
  int64_t label(int64_t index) const override;
  std::vector<std::string> classes() const override { return names_; }
  Image load(int64_t index) const override { return source_->load(index); }
  BrokenLog& broken_log() const override { return source_->broken_log(); }

 private:
  std::shared_ptr<const Source> source_;
  std::vector<std::string> names_;
  std::vector<int64_t> numbers_;  ///< by class number of `source_`
};

/// Class names from a text file, one per line. Throws UserError for an empty file, an empty line or
/// a repeated name.
std::vector<std::string> read_class_names(const std::filesystem::path& file);

}  // namespace nsvq
