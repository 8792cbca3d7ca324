#pragma once

#include <cstdint>
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

/// Classes by top folders of keys.
struct FolderClasses {
  std::vector<std::string> names;  ///< of all top folders, sorted
  std::vector<int64_t> labels;     ///< of each key: the place of its folder; -1 without a folder
};
FolderClasses folder_classes(const std::vector<std::string>& keys);

}  // namespace nsvq
