#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// Whether the name ends in .jpg, .jpeg or .png (upper or lower case) and is not hidden.
bool is_image_name(std::string_view name);

/// Classes by top folders of keys.
struct FolderClasses {
  std::vector<std::string> names;  ///< of all top folders, sorted
  std::vector<int64_t> labels;     ///< of each key: the place of its folder; -1 without a folder
};
FolderClasses folder_classes(const std::vector<std::string>& keys);

}  // namespace nsvq
