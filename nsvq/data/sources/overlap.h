#pragma once

#include <optional>
#include <string>

#include "nsvq/settings/sources.h"

namespace nsvq {

/// Images that two lists of sources have in common.
struct SharedImages {
  std::string name;  ///< of the folder, shard, image, command or built-in source that has them
  std::string item;  ///< item of the second list that reads them
};

/// Whether images of `sources` are also read from `others`. Paths decide, with links resolved, and
/// parts (part.h); no image is opened, and copies count as different. Parts must be given as
/// hashes. Files that do not exist are skipped.
std::optional<SharedImages> shared_images(const Sources& sources, const Sources& others);

}  // namespace nsvq
