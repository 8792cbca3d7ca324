#pragma once

#include <string>

namespace nsvq {

/// Throws UserError for a folder's name that ends like a file's (`rec.webp`, but not `tokens.v2`),
/// unless there is such a folder or the name ends in a slash. `files` says which files --out
/// takes, such as "FILE.png"; empty if none.
void require_folder_name(const std::string& out, const std::string& files);

}  // namespace nsvq
