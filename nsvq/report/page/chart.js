// One chart on a canvas: lines of the runs shown, marks of phases and alarms, values under the pointer.

const mostValues = 8;

class Chart {
  constructor(description) {
    this.canvas = make("canvas", {tabindex: "0", role: "img"});
    this.over = make("canvas", {class: "over"});
    this.box = make("div", {class: "values", "aria-live": "polite", hidden: true});
    this.title = make("h4");
    this.unit = make("small");
    this.names = make("div", {class: "names"});
    this.frame = make("div", {class: "frame"}, this.canvas, this.over);
    this.element = make("div", {class: "chart"}, this.title, this.names, this.frame, this.box);
    this.cursor = null;
    this.visible = false;
    this.stale = true;
    this.describe(description);
    this.listen();
  }

  describe(description) {
    this.description = description;
    this.title.replaceChildren(description.title, this.unit);
    // With one run the lines have colours of their own.
    const named = description.lines.length > 1 && description.lines[0].color !== null ? description.lines : [];
    this.names.replaceChildren(...named.map(line => make("span", {}, make("i", {style: `background:var(--c${line.color % 8})`}), line.name)));
    this.canvas.setAttribute("aria-label", `${description.title}: a chart; arrow keys give its values`);
  }

  /** Draws now if the chart is on the screen, else when it comes there. */
  draw() {
    this.unit.textContent = [this.description.unit, this.isLog() ? "log scale" : ""].filter(Boolean).join(", ");
    this.stale = !this.visible;
    if (this.visible) this.paint();
  }

  setVisible(visible) {
    this.visible = visible;
    if (visible && this.stale) this.draw();
  }

  lines() {
    return this.description.lines.filter(line => !page.hidden.has(line.run.name)).map(drawnLine)
      .filter(line => line.x.length > 0 && line.x[0] !== null);
  }

  // Overridden by charts of experiments (experiments.js), which have neither runs nor choices.

  smoothing() { return page.smooth; }
  isLog() { return page.y === "log" || (page.y === "auto" && this.description.log); }
  isLogX() { return false; }
  xText(x) { return xText(x); }
  xTicks(count) { return (page.x === "time" ? timeTicks : linearTicks)(this.xAxis.low, this.xAxis.high, count); }
  tickTexts(ticks) { return page.x === "time" ? ticks.map(timeText) : tickTexts(ticks); }
  zoom() { return page.zoom; }
  setZoom(range) { setZoom(range); }
  paintMarks(context) { paintMarks(context, this); }

  /** The x axis without zoom. */
  wholeRange() {
    let high = 0;
    for (const run of shownRuns()) high = Math.max(high, onX(run, run.step) || 0);
    return [0, high || 1];
  }

  /** The values on the screen, with a little room around them. */
  yRange(low, high, log) {
    let least = Infinity, greatest = -Infinity;
    for (const line of this.drawn) {
      const [begin, end] = visiblePart(line.x, low, high);
      for (let i = begin; i < end; ++i) {
        const value = line.y[i];
        if (!hasValue(value) || (log && value <= 0) || line.x[i] < low || line.x[i] > high) continue;
        least = Math.min(least, value);
        greatest = Math.max(greatest, value);
      }
    }
    this.empty = least > greatest;
    if (this.empty) return log ? [0.1, 1] : [0, 1];
    // Values that differ by less than the six digits of the page's numbers count as equal.
    const same = greatest - least <= 1e-6 * Math.max(Math.abs(least), Math.abs(greatest));
    if (log) return same ? [least / 2, greatest * 2] : [least / 1.1, greatest * 1.1];
    const room = same ? Math.abs(greatest) * 0.1 || 1 : (greatest - least) * 0.06;
    return [least - room, greatest + room];
  }

  paint() {
    const width = this.frame.clientWidth;
    if (width === 0) return;
    const context = sizeCanvas(this.canvas, width, chartHeight);
    this.drawn = this.lines();
    const log = this.isLog();
    const [low, high] = this.zoom() || this.wholeRange();
    const [least, greatest] = this.yRange(low, high, log);
    this.yAxis = axis(least, greatest, chartHeight - 26, 12, log);
    this.yTicks = ticksOf(this.yAxis, log ? 6 : 5);
    this.left = leftEdge(context, this.yTicks);
    this.xAxis = axis(low, high, this.left, width - 12, this.isLogX());
    paintAxes(context, width, this);
    context.save();
    context.beginPath();
    context.rect(this.left - 4, 0, width - this.left - 4, chartHeight - 26);  // dots at both ends are whole
    context.clip();
    this.paintMarks(context);
    if (this.smoothing() > 0) for (const line of this.drawn) paintLine(context, this, line, line.raw, 0.25);
    for (const line of this.drawn) paintLine(context, this, line, line.y, 1);
    context.restore();
    this.says = this.drawn.length === 0 ? this.whyNoLine() : this.empty ? this.whyNoValue(log) : "";
    context.textAlign = "center";
    context.fillStyle = styleColor("quiet");
    context.fillText(this.says, (this.left + width) / 2, chartHeight / 2);
    this.paintCursor();
  }

  whyNoLine() {
    const later = page.x !== "step" && this.description.lines.some(line => line.run.clock.step.length < 2);
    return later ? `no ${page.x} is known before the first epoch has ended` : "no run is shown";
  }

  whyNoValue(log) {
    const values = this.drawn.flatMap(line => line.y).filter(hasValue);
    if (values.length === 0) return "no value is finite";
    return log && values.every(value => value <= 0) ? "no value above 0, so none on a log scale" : "no value in this range";
  }

  /** The point of each line that is nearest to the cursor, if the line goes on there or the point is near enough to be meant. */
  valuesAt(x) {
    const distance = value => Math.abs(this.xAxis.pixel(value) - this.xAxis.pixel(x));  // in pixels
    const covers = line => line.x[0] <= x && x <= line.x[line.x.length - 1];
    const near = [];
    for (const line of this.drawn) {
      let i = indexIn(line.x, x);
      if (i + 1 < line.x.length && distance(line.x[i + 1]) < distance(line.x[i])) ++i;
      if (hasValue(line.y[i]) && !(this.yAxis.log && line.y[i] <= 0)) near.push({line, x: line.x[i], y: line.y[i], raw: line.raw[i]});
    }
    const least = Math.min(...near.map(point => distance(point.x)));
    const points = near.filter(point => distance(point.x) <= least + 4 || covers(point.line));
    const nearest = points.find(point => distance(point.x) === least);
    // The lines nearest to the pointer, where there are many.
    const away = point => Math.abs(this.yAxis.pixel(point.y) - this.height);
    const shown = points.sort((a, b) => away(a) - away(b)).slice(0, mostValues).sort((a, b) => b.y - a.y);
    return {points: shown, more: points.length - shown.length, at: nearest && nearest.x};
  }

  paintCursor() {
    const width = this.frame.clientWidth;
    const context = sizeCanvas(this.over, width, chartHeight);
    if (this.drag) {
      context.fillStyle = styleColor("c0");
      context.globalAlpha = 0.18;
      context.fillRect(this.drag.from, 0, this.drag.to - this.drag.from, chartHeight - 26);
      context.globalAlpha = 1;
    }
    const {points, more, at} = this.cursor === null || !this.drawn ? {points: []} : this.valuesAt(this.cursor);
    this.box.hidden = points.length === 0;
    if (points.length === 0) return;
    const x = this.xAxis.pixel(at);
    context.strokeStyle = styleColor("axis");
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, chartHeight - 26);
    context.stroke();
    for (const point of points) {
      context.fillStyle = point.line.color;
      context.beginPath();
      context.arc(this.xAxis.pixel(point.x), this.yAxis.pixel(point.y), 3, 0, 7);
      context.fill();
    }
    this.fillBox(points, more, at, width);
  }

  fillBox(points, more, at, width) {
    const x = this.xAxis.pixel(at);
    const elsewhere = point => Math.abs(this.xAxis.pixel(point.x) - x) > 4;
    const rows = points.map(point => make("div", {},
      make("i", {style: `background:${point.line.color}`}), make("b", {}, short(point.y)),
      this.smoothing() > 0 ? make("small", {}, ` raw ${short(point.raw)}`) : null, ` ${point.line.label}`,
      elsewhere(point) ? make("small", {}, ` at ${this.xText(point.x)}`) : null));
    if (more > 0) rows.push(make("div", {}, `and ${more} more`));
    this.box.replaceChildren(make("div", {class: "quiet"}, this.xText(at)), ...rows);
    // Beside the cursor where there is more room.
    const left = x > width / 2;
    this.box.style.left = left ? "auto" : `${x + 24}px`;
    this.box.style.right = left ? `${width - x + 24}px` : "auto";
    this.box.style.maxWidth = `${Math.max(left ? x : width - x, 170)}px`;
  }

  setCursor(x, height = chartHeight / 2) {
    this.cursor = x;
    this.height = height;
    this.paintCursor();
  }

  listen() {
    const pixel = event => event.clientX - this.canvas.getBoundingClientRect().left;
    const point = event => this.setCursor(this.xAxis.value(pixel(event)), event.clientY - this.canvas.getBoundingClientRect().top);
    this.over.addEventListener("pointerdown", event => {
      if (event.pointerType === "mouse" && event.button === 0) {
        this.drag = {from: pixel(event), to: pixel(event)};
        this.over.setPointerCapture(event.pointerId);
      }
      point(event);
    });
    this.over.addEventListener("pointermove", event => {
      if (this.drag) this.drag.to = pixel(event);
      if (this.xAxis) point(event);
    });
    this.over.addEventListener("pointerup", () => this.endDrag());
    this.over.addEventListener("pointercancel", () => { this.drag = null; this.setCursor(null); });
    this.over.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") this.setCursor(null); });
    this.over.addEventListener("dblclick", () => this.setZoom(null));
    this.canvas.addEventListener("keydown", event => this.key(event));
    this.canvas.addEventListener("blur", () => this.setCursor(null));
  }

  endDrag() {
    const drag = this.drag;
    this.drag = null;
    if (!drag || Math.abs(drag.to - drag.from) < 8) return this.paintCursor();
    const ends = [this.xAxis.value(drag.from), this.xAxis.value(drag.to)].sort((a, b) => a - b);
    this.setZoom([Math.max(ends[0], this.xAxis.low), Math.min(ends[1], this.xAxis.high)]);
  }

  /** A range cut to the whole axis; null if nothing is left out. */
  inside([low, high]) {
    const [first, last] = this.wholeRange();
    return low <= first && high >= last ? null : [Math.max(low, first), Math.min(high, last)];
  }

  /** Arrows move the cursor, + and - zoom around it. */
  key(event) {
    const {low, high} = this.xAxis;
    const here = this.cursor === null ? (low + high) / 2 : this.cursor;
    const step = (high - low) / (event.shiftKey ? 10 : 100);
    const zoomed = factor => this.setZoom(this.inside([here - (here - low) * factor, here + (high - here) * factor]));
    const keys = {
      ArrowLeft: () => this.setCursor(Math.max(low, here - step)),
      ArrowRight: () => this.setCursor(Math.min(high, here + step)),
      Home: () => this.setCursor(low),
      End: () => this.setCursor(high),
      Escape: () => this.setZoom(null),
      "+": () => zoomed(0.5),
      "-": () => this.zoom() && zoomed(2),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  }
}

/** Whether a range is too small to be drawn. */
const isNoRange = range => range !== null && range[1] - range[0] <= 1e-9 * Math.max(1, Math.abs(range[1]));

/** Shows a range of the x axis in all charts; null: all of it. */
function setZoom(range) {
  if (isNoRange(range)) return;
  page.zoom = range;
  rememberChoices();
  showZoom();
  drawCharts();
}
