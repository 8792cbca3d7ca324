#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace nsvq {

/// An error that the user can fix: a file, a configuration key, an argument. `main` prints it in
/// one line and exits with 2.
class UserError : public std::runtime_error {
 public:
  template <typename... Args>
  explicit UserError(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

/// A failure at run time (a full disk, a non-finite loss). `main` prints it in one line and exits
/// with 3.
class RunError : public std::runtime_error {
 public:
  template <typename... Args>
  explicit RunError(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

}  // namespace nsvq
