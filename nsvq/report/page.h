#pragma once

#include <string>

namespace nsvq {

/// A whole HTML document around `body`: inline style for light and dark, no scripts, nothing to
/// fetch.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace nsvq
