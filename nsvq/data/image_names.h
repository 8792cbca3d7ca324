#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// Whether the name ends in .jpg, .jpeg or .png (upper or lower case) and is not hidden.
bool is_image_name(std::string_view name);

/// Class number of each key: the rank of its top folder among all top folders, sorted by name; -1
/// without a folder.
std::vector<int64_t> folder_labels(const std::vector<std::string>& keys);

}  // namespace nsvq
