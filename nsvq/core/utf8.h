#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nsvq {

/// Bytes of the first character of `text`, which is not empty; 0 if it is invalid UTF-8 or a
/// control character other than tab and line ends.
size_t character_size(std::string_view text);

/// Every byte as \\xNN.
std::string escaped_bytes(std::string_view bytes);

}  // namespace nsvq
