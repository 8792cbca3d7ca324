#include "nsvq/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "nsvq/report/html.h"

namespace nsvq {
namespace {

// Okabe and Ito's colours, which colour-blind readers tell apart, less the yellow that white
// swallows.
constexpr std::array<std::string_view, 6> palette = {"#0072b2", "#d55e00", "#009e73",
                                                     "#b5548a", "#c78500", "#4aa3d8"};

}  // namespace

double svg_text_width(std::string_view text) {
  const auto letters =
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
  return 6.5 * static_cast<double>(letters);
}

std::string svg_text(double x, double y, std::string_view anchor, std::string_view content,
                     std::string_view more) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" {}>{}</text>)", x, y, anchor,
                     more, escape_html(content));
}

std::string svg_line(double x1, double y1, double x2, double y2, std::string_view style) {
  return fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" {}/>)", x1, y1, x2,
                     y2, style);
}

std::string svg_stroke(size_t series) {
  const size_t colour = series % palette.size();
  return fmt::format(R"(class="chart-line-{}" fill="none" stroke="{}" stroke-width="1.6" {})"
                     R"(stroke-linejoin="round" stroke-linecap="round")",
                     colour, palette[colour],
                     series >= palette.size() ? R"(stroke-dasharray="5 3" )" : "");
}

std::string svg_dot(double x, double y, size_t series) {
  const size_t colour = series % palette.size();
  return fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" class="chart-dot-{}" fill="{}"/>)", x,
                     y, colour, palette[colour]);
}

}  // namespace nsvq
