#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "nsvq/io/formats/json.h"

namespace nsvq {

/// The page as one HTML document with nothing to fetch: style, scripts (nsvq/report/page/) and
/// `data` (empty_page in page_data.h, with runs). With `reload` the page loads itself again every
/// minute.
std::string html_page(const Json& data, bool reload);

/// JSON that stays inside a <script> element whatever strings it has. Bytes that are not UTF-8
/// become U+FFFD.
std::string script_json(const Json& data);

/// Text made safe between tags and inside quoted attributes. Control characters that XML forbids
/// become U+FFFD.
std::string escape_html(std::string_view text);

std::string base64(std::span<const std::byte> bytes);

/// `data:<mime>;base64,...`, for pictures that live inside the page.
std::string data_uri(std::string_view mime, std::span<const std::byte> bytes);

}  // namespace nsvq
