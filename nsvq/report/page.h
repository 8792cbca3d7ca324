#pragma once

#include <string>

namespace nsvq {

/// A whole HTML document around `body`: inline style for light and dark, charts' values under the
/// pointer, nothing to fetch. With `reload` the page loads itself again every minute.
std::string html_page(const std::string& title, const std::string& body, bool reload);

}  // namespace nsvq
