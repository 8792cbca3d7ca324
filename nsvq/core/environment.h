#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nsvq {

/// What an environment variable holds; nothing where it is not set, or set to an empty text.
std::optional<std::string> environment_text(const char* name);

/// Likewise as a number. Throws UserError for anything but one from `least` to `most`, ending with
/// `advice`.
std::optional<int64_t> environment_number(const char* name, int64_t least, int64_t most,
                                          std::string_view advice);

/// The machine's name, or "localhost" where the system does not say.
std::string host_name();

}  // namespace nsvq
