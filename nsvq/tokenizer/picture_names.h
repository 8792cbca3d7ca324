#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nsvq {

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
