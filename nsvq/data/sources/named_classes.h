#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/data/sources/source.h"

namespace nsvq {

/// Another source with class numbers by a list of names: the number of a class is its place in the
/// list.
class NamedClasses : public Source {
 public:
  /// Throws UserError if the source has a class that `names` lacks, or classes without names;
  /// `list` is where the names come from.
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

/// Class names from a text file, one a line. Throws UserError for an empty file, an empty line or a
/// name that is there twice.
std::vector<std::string> read_class_names(const std::filesystem::path& file);

}  // namespace nsvq
