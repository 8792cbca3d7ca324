#pragma once

#include <filesystem>

namespace nsvq {

/// $XDG_CACHE_HOME/nsvq, else ~/.cache/nsvq; empty where neither variable is set.
std::filesystem::path cache_folder();

}  // namespace nsvq
