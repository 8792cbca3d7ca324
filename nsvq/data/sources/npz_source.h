#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/data/sources/source.h"
#include "nsvq/io/formats/zip_archive.h"

namespace nsvq {

/// The array of images in files of np.savez, as evaluations exchange them.
constexpr auto kNpzImages = "arr_0";

/// The images `arr_0` [N, H, W, 3], 8 bits a channel, of a file of np.savez, named 000000 and so
/// on. Whole numbers `arr_1` [N], none below 0, are their classes.
class NpzSource : public Source {
 public:
  /// Throws UserError, naming the file, for anything else than such an array.
  explicit NpzSource(std::filesystem::path path, const ImageLimits& limits = {});

  int64_t size() const override { return size_; }
  std::string key(int64_t index) const override;
  int64_t label(int64_t index) const override;
  Image load(int64_t index) const override;

 private:
  std::filesystem::path path_;
  StoredMember images_;
  int64_t size_ = 0;
  int width_ = 0, height_ = 0;
  uint64_t start_ = 0;  // of the first image in the member
  std::vector<int64_t> labels_;
};

}  // namespace nsvq
