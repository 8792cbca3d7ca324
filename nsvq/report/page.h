#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nsvq {

/// The page as one HTML document with nothing to fetch: style, scripts (nsvq/report/page/) and
/// `data` (empty_page in page_data.h, with runs). With `reload` the page loads itself again every
/// minute.
std::string html_page(const nlohmann::ordered_json& data, bool reload);

/// JSON that stays inside a <script> element whatever strings it has. Bytes that are not UTF-8
/// become U+FFFD.
std::string script_json(const nlohmann::ordered_json& data);

}  // namespace nsvq
