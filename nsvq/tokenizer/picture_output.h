#pragma once

#include <torch/types.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nsvq/io/resumable_folder.h"

namespace nsvq {

/// Names for pictures made from images with keys: the key with another ending, and never the same
/// twice. Where x.jpg has taken x.png already, that of another x.png is x.png.png, then
/// x.png.2.png.
class PictureNames {
 public:
  explicit PictureNames(std::string ending) : ending_(std::move(ending)) {}
  /// A relative path without "..", whatever the key says.
  std::string name_for(const std::string& key);

 private:
  std::string ending_;
  std::set<std::string> taken_;
};

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
  /// The positions of those that gave no picture.
  virtual std::vector<int64_t> left_out() const { return {}; }
  virtual void add(const std::string& name, std::span<const std::byte> bytes) = 0;
  /// All images before position `done` are finished, but for those left out since the last call.
  virtual void advance(int64_t /*done*/, const std::vector<int64_t>& /*left_out*/ = {}) {}
  virtual void finish() = 0;
};

/// A tar archive if the name ends in .tar, which appears whole or not at all. Else a folder: new,
/// empty, or left incomplete by a run with equal `settings`. Throws UserError.
std::unique_ptr<PictureOutput> open_picture_output(const std::filesystem::path& path,
                                                   const ResumableFolder::Settings& settings);

/// Takes the names that the images have which an earlier run has finished; `output` is a
/// PictureOutput or a ResumableFolder.
template <typename Output, typename KeyOf>
void take_finished_names(PictureNames& names, const Output& output, const KeyOf& key_of) {
  const auto left_out = output.left_out();
  auto next = left_out.begin();
  for (int64_t i = 0; i < output.done(); ++i) {
    if (next != left_out.end() && *next == i) {
      ++next;
    } else {
      names.name_for(key_of(i));
    }
  }
}

}  // namespace nsvq
