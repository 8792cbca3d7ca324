#pragma once

namespace nsvq {

/// Shows the values of a chart's lines under the pointer. A chart's `chart-area` rectangle says
/// where its axes lie and which values they span (chart.cpp); the values are read off the lines, so
/// they are as exact as the drawing, a tenth of a pixel.
constexpr const char* kPointerScript = R"js(
(() => {
  const box = document.createElement("div");
  box.className = "values";
  box.hidden = true;
  document.body.append(box);
  const digits = value => value === 0 ? "0" : Number(value.toPrecision(4)).toString();
  const span = (range, share, log) => log
    ? range[0] * Math.pow(range[1] / range[0], share) : range[0] + share * (range[1] - range[0]);
  function lines(svg, area, x) {
    const numbers = name => area.dataset[name].split(" ").map(Number);
    const [left, top, width, height] =
      ["x", "y", "width", "height"].map(name => Number(area.getAttribute(name)));
    const found = new Map();
    for (const line of svg.querySelectorAll("polyline")) {
      const name = line.querySelector("title").textContent;
      for (const point of line.points) {
        const distance = Math.abs(point.x - x);
        if (!found.has(name) || found.get(name).distance > distance) found.set(name, {distance, point});
      }
    }
    if (found.size === 0) return [];
    const nearest = [...found.values()].reduce((a, b) => a.distance > b.distance ? b : a).point.x;
    const texts = ["step " + Math.round(span(numbers("steps"), (nearest - left) / width, false))];
    for (const [name, {point}] of found) {
      if (Math.abs(point.x - nearest) > 3) continue;
      const share = (top + height - point.y) / height;
      texts.push(name + " " + digits(span(numbers("values"), share, area.dataset.log === "1")));
    }
    return texts;
  }
  for (const svg of document.querySelectorAll("svg.chart")) {
    const area = svg.querySelector(".chart-area");
    if (!area) continue;
    area.addEventListener("pointermove", event => {
      const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      box.textContent = lines(svg, area, place.x).join("\n");
      box.style.left = event.pageX + 14 + "px";
      box.style.top = event.pageY + 14 + "px";
      box.hidden = false;
    });
    area.addEventListener("pointerleave", () => { box.hidden = true; });
  }
})();
)js";

}  // namespace nsvq
