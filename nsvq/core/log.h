#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace nsvq {

/// Writes one line to standard error. A progress bar shown there is drawn again below it.
void log_line(std::string_view line);

template <typename... Args>
void log(fmt::format_string<Args...> format, Args&&... args) {
  log_line(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace nsvq
