#pragma once

#include <string>

namespace nsvq {

/// Throws UserError for a folder's name that reads like a file's (`rec.webp`), unless there is such
/// a folder or the name ends in a slash. `understood` says which files --out takes.
void require_folder_name(const std::string& out, const std::string& understood);

}  // namespace nsvq
