#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nsvq {

/// Elements of a chart. `style` and `more` are attributes, as written.
std::string svg_text(double x, double y, std::string_view anchor, std::string_view content,
                     std::string_view more = R"(class="chart-text" fill="#555")");
std::string svg_line(double x1, double y1, double x2, double y2, std::string_view style);
std::string svg_dot(double x, double y, size_t series);

/// The attributes of a series' line: its colour, and dashes once the colours are used up.
std::string svg_stroke(size_t series);

/// Good enough to lay out 11-pixel text without the font at hand; counts UTF-8 characters.
double svg_text_width(std::string_view text);

}  // namespace nsvq
