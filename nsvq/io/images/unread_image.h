#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace nsvq {

/// What to do about images of a format that is not read, such as HEIC; `which` is it or them.
inline std::string convert_advice(std::string_view format, std::string_view which) {
  return fmt::format("{} images are not read; convert {} to JPEG or PNG (heif-convert does)",
                     format, which);
}

}  // namespace nsvq
