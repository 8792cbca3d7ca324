#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "nsvq/io/image.h"

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

/// Where pictures go, in the order in which they are added.
class PictureOutput {
 public:
  virtual ~PictureOutput() = default;
  virtual void add(const std::string& name, std::span<const std::byte> bytes) = 0;
  virtual void finish() {}
};

/// A tar archive if the name ends in .tar, else a folder, which must be new or empty. Throws
/// UserError.
std::unique_ptr<PictureOutput> open_picture_output(const std::filesystem::path& path);

void require_empty_folder(const std::filesystem::path& path);

}  // namespace nsvq
