#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nsvq/data/images/transform.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/io/files/resumable_folder.h"
#include "nsvq/io/images/image.h"
#include "nsvq/tokenizer/inference_session.h"
#include "nsvq/tokenizer/picture_output.h"

namespace nsvq {

/// A picture as the model takes it, and its reconstruction, both of one size.
struct ReconstructedImage {
  Image input, output;
};

/// Encodes and decodes a picture of any size, fitted to the model's stride. What padding added is
/// cropped off both.
ReconstructedImage reconstruct_image(InferenceSession& session, const Image& image, Fit fit);

/// The folder of `nsvq reconstruct`: a PNG for each image of a source, under the image's own name;
/// an incomplete one is gone on with.
class ReconstructionFolder {
 public:
  /// `batch` images are finished at a time, and `pictures` wanted. Throws UserError, with nothing
  /// written, if the names of the images cannot be those of files, or if pictures of an earlier
  /// run are missing. Images that it has left out are tried again, by `use` too, which throws
  /// UserError for those that give no picture.
  ReconstructionFolder(const std::filesystem::path& path, const Source& source,
                       const ResumableFolder::Settings& settings, int64_t batch, int64_t pictures,
                       const std::function<void(const Image&)>& use = {});

  /// Images of the source that are finished, and how many of them gave a picture.
  int64_t done() const { return folder_.done(); }
  int64_t pictures() const { return pictures_; }
  /// By an earlier run: nothing is left but to finish.
  bool complete() const { return folder_.complete(); }

  void add(int64_t index, std::span<const std::byte> png);
  /// All images before `end` are finished; of those since the last call, `indices` gave a picture.
  void advance(int64_t end, const std::vector<int64_t>& indices);
  /// Throws UserError where there is no picture at all.
  void finish();

 private:
  void go_back(int64_t done, const std::string& image, const std::filesystem::path& path);

  std::vector<std::string> names_;  // of the pictures of all images
  ResumableFolder folder_;
  int64_t pictures_ = 0;
};

}  // namespace nsvq
