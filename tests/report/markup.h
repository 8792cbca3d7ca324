#pragma once

#include <string>
#include <string_view>

namespace nsvq::test {

/// Empty if `markup` is well formed as XML would have it (a leading doctype aside): tags balanced,
/// attributes quoted and not repeated, `<` and `&` escaped. Otherwise what is wrong, and where.
std::string markup_error(std::string_view markup);

/// How often `part` occurs in `text`.
int count(std::string_view text, std::string_view part);

}  // namespace nsvq::test
