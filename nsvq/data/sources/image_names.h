#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// The endings of images that are read, for messages.
inline constexpr auto kImageEndings = ".jpg, .jpeg, .png or .webp";
inline constexpr auto kShardEndings = ".tar, .tar.gz, .tgz or .tar.zst";

/// Whether the name has such an ending, in upper or lower case, and is not hidden.
bool is_image_name(std::string_view name);
/// Likewise of tar shards.
bool is_shard_name(std::string_view name);

/// The ending of a file's name in lower case, with its dot; empty if there is none, or one that is
/// no letters and digits.
std::string plain_ending(std::string_view name);

/// HEIC or AVIF for the name of such an image, which is not read; empty for any other.
std::string unread_format(std::string_view name);

/// Files of other kinds, counted by ending.
class PassedOver {
 public:
  void add(std::string_view name);
  /// "3 .gif, 1 .txt", the most frequent first; empty if there are none.
  std::string text() const;
  /// What to do about those that are images all the same; empty if there are none.
  std::string advice() const;

 private:
  std::map<std::string, int64_t> endings_;
  std::string format_;  ///< of an image that is not read
};

/// Classes by top folders of keys.
struct FolderClasses {
  std::vector<std::string> names;  ///< of all top folders, sorted
  std::vector<int64_t> labels;     ///< of each key: the place of its folder; -1 without a folder
};
FolderClasses folder_classes(const std::vector<std::string>& keys);

}  // namespace nsvq
