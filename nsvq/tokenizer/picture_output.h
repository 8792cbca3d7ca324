#pragma once

#include <torch/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nsvq/io/files/resumable_folder.h"
#include "nsvq/nn/model_config.h"

namespace nsvq {

/// Images in [-1, 1] for encode_pictures and to_image, which round to the nearest of 256 levels:
/// themselves or, with model.rounding: down, the level below each value.
torch::Tensor as_rounded(const torch::Tensor& images, const ModelConfig& model);

/// Images [B, 3, H, W] in [-1, 1] as files of this ending, .png or .jpg (quality 95), encoded side
/// by side.
std::vector<std::vector<std::byte>> encode_pictures(const torch::Tensor& images,
                                                    std::string_view ending);

/// Where pictures go, in the order in which they are added. A command goes through the images of
/// its input by position; see ResumableFolder for what it may leave to a later run.
class PictureOutput {
 public:
  virtual ~PictureOutput() = default;
  /// Images that an earlier run of the command has finished.
  virtual int64_t done() const { return 0; }
  /// Throws UserError unless the pictures of those are there, of `images` in all.
  virtual void require_done(int64_t /*images*/,
                            const std::function<std::string(int64_t)>& /*name_of*/) const {}
  virtual void add(const std::string& name, std::span<const std::byte> bytes) = 0;
  /// All images before position `done` are finished.
  virtual void advance(int64_t /*done*/) {}
  virtual void finish() = 0;
};

/// Whether an output of that name is a tar archive.
bool names_tar(const std::filesystem::path& path);

/// A tar archive if the name ends in .tar, which appears whole or not at all. Else a folder: new,
/// empty, or of a run with equal `settings`. Throws UserError.
std::unique_ptr<PictureOutput> open_picture_output(const std::filesystem::path& path,
                                                   const ResumableFolder::Settings& settings);

/// A name for the picture of each image: its key with another ending, as a relative path without
/// "..", whatever the key says, and never the same twice. Where x.jpg has taken x.png already, that
/// of another x.png is x.png.png, then x.png.2.png.
std::vector<std::string> picture_names(const std::vector<std::string>& keys,
                                       const std::string& ending);

/// Throws UserError if no folder can hold files of all these names: one that is too long, or one
/// that others have for a folder. `advice` ends the message.
void require_folder_names(const std::vector<std::string>& names,
                          const std::filesystem::path& folder, const std::string& advice);

}  // namespace nsvq
