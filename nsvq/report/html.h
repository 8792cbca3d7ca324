#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace nsvq {

/// Text made safe between tags and inside quoted attributes, of HTML and of SVG alike. Control
/// characters that XML forbids become U+FFFD.
std::string escape_html(std::string_view text);

std::string base64(std::span<const std::byte> bytes);

/// `data:<mime>;base64,...`, for pictures that live inside the page.
std::string data_uri(std::string_view mime, std::span<const std::byte> bytes);

}  // namespace nsvq
