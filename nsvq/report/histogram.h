#pragma once

#include <string>
#include <vector>

namespace nsvq {

/// How many of `values` lie in each decade (1e-7 to 1e-6, ...), as one <svg> element in the style
/// of to_svg(Chart). Zeros and values that are not finite have bars of their own at the two ends.
/// Values are not negative.
std::string decade_histogram(const std::string& title, const std::vector<double>& values,
                             int width = 520, int height = 200);

}  // namespace nsvq
