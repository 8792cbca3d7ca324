#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nsvq {

/// The value of an environment variable; nullopt if it is not set or empty.
std::optional<std::string> environment_text(const char* name);

/// The value as a number; nullopt if it is not set or empty. Throws UserError for anything but a
/// number from `least` to `most`, ending with `advice`.
std::optional<int64_t> environment_number(const char* name, int64_t least, int64_t most,
                                          std::string_view advice);

/// The machine's name, or "localhost" where the system does not say.
std::string host_name();

}  // namespace nsvq
