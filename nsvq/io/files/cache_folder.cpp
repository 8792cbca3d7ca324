#include "nsvq/io/files/cache_folder.h"

#include <cstdlib>

namespace nsvq {

std::filesystem::path cache_folder() {
  const auto value = [](const char* variable) -> std::filesystem::path {
    const char* text = std::getenv(variable);
    return text ? text : "";
  };
  if (const auto cache = value("XDG_CACHE_HOME"); !cache.empty()) return cache / "nsvq";
  const auto home = value("HOME");
  return home.empty() ? home : home / ".cache" / "nsvq";
}

}  // namespace nsvq
