#include "nsvq/report/page.h"

#include "nsvq/report/html.h"
#include "nsvq/report/pointer_script.h"

namespace nsvq {
namespace {

// The classes of chart.h are coloured here; style rules win over the colours written on the
// elements.
constexpr const char* style = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f7f7f5; --rule: #e2e2de; --ink: #1f2328; --quiet: #667079;
  --grid: #e6e6e3; --axis: #9a9fa4; --notice: #fff6df; --alarm: #fdeae7; --alarm-edge: #c8321f;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b5548a; --c4: #c78500; --c5: #4aa3d8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #16181b; --panel: #1d2024; --rule: #32363b; --ink: #e4e6e8; --quiet: #9aa3ab;
    --grid: #2c3035; --axis: #6b737b; --notice: #332c18; --alarm: #3a1d1a; --alarm-edge: #f0705c;
    --c0: #5ab0ee; --c1: #ff8c4a; --c2: #35c79b; --c3: #e296c3; --c4: #edb548; --c5: #a5d8f7;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 40px 0 12px; }
h3 { font-size: 15px; margin: 24px 0 10px; }
.facts { margin: 4px 0 24px; color: var(--quiet); }
.quiet, figcaption { color: var(--quiet); font-size: 13px; }
.quiet { margin-left: 6px; }
.notice { background: var(--notice); padding: 8px 12px; border-radius: 6px; margin: 8px 0; }
.alarm { background: var(--alarm); border-left: 5px solid var(--alarm-edge); padding: 10px 14px;
  border-radius: 4px; margin: 8px 0 16px; }
.alarm strong { color: var(--alarm-edge); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; border-bottom: 1px solid var(--rule); text-align: right; vertical-align: top;
  white-space: nowrap; }
th:first-child { text-align: left; padding-left: 0; }
thead th { color: var(--quiet); font-size: 13px; font-weight: 500; }
tbody th { font-weight: 500; }
td.main { font-weight: 650; }
th.text, td.text { text-align: left; white-space: normal; width: 60%; }
figure { margin: 20px 0 0; }
figure img { display: block; max-width: 100%; height: auto; }
img.pixels { image-rendering: pixelated; }
figcaption { margin-top: 6px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 0 20px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 16px; }
.charts svg { display: block; width: 100%; height: auto; background: var(--panel);
  border: 1px solid var(--rule); border-radius: 8px; padding: 8px; }
.chart-title { fill: var(--ink); }
.chart-text { fill: var(--quiet); }
.chart-grid { stroke: var(--grid); }
.chart-axis, .chart-mark { stroke: var(--axis); }
.chart-line-0 { stroke: var(--c0); } .chart-dot-0 { fill: var(--c0); }
.chart-line-1 { stroke: var(--c1); } .chart-dot-1 { fill: var(--c1); }
.chart-line-2 { stroke: var(--c2); } .chart-dot-2 { fill: var(--c2); }
.chart-line-3 { stroke: var(--c3); } .chart-dot-3 { fill: var(--c3); }
.chart-line-4 { stroke: var(--c4); } .chart-dot-4 { fill: var(--c4); }
.chart-line-5 { stroke: var(--c5); } .chart-dot-5 { fill: var(--c5); }
summary { cursor: pointer; font-weight: 600; font-size: 17px; }
details { margin-top: 40px; }
pre { background: var(--panel); border: 1px solid var(--rule); border-radius: 8px; padding: 12px 16px;
  overflow-x: auto; font: 13px/1.5 ui-monospace, SFMono-Regular, Consolas, monospace; }
.values { position: absolute; white-space: pre; pointer-events: none; background: var(--page);
  border: 1px solid var(--rule); border-radius: 6px; padding: 4px 8px; font-size: 13px;
  font-variant-numeric: tabular-nums; }
@media print { main { max-width: none; } .charts svg, figure { break-inside: avoid; } }
)css";

}  // namespace

std::string html_page(const std::string& title, const std::string& body, bool reload) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n" +
         std::string(reload ? "<meta http-equiv=\"refresh\" content=\"60\"/>\n" : "") + "<title>" +
         escape_html(title) + "</title>\n<style>" + style + "</style>\n</head>\n<body>\n<main>\n" +
         body + "</main>\n<script>" + kPointerScript + "</script>\n</body>\n</html>\n";
}

}  // namespace nsvq
