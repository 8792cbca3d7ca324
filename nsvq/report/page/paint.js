// What a chart's canvas shows.

const chartHeight = 230;
const mostMarkedRuns = 6;
const axisFont = "11px system-ui, sans-serif";

/** Ticks with their numbers; those of y have lines. */
function paintAxes(context, width, chart) {
  const {xAxis, yAxis} = chart;
  context.font = axisFont;
  context.lineWidth = 1;
  context.strokeStyle = styleColor("grid");
  context.fillStyle = styleColor("quiet");
  context.textBaseline = "middle";
  context.textAlign = "right";
  const texts = tickTexts(chart.yTicks);
  chart.yTicks.forEach((tick, i) => {
    const y = Math.round(yAxis.pixel(tick)) + 0.5;
    context.beginPath();
    context.moveTo(chart.left, y);
    context.lineTo(width - 12, y);
    context.stroke();
    context.fillText(texts[i], chart.left - 6, y);
  });
  context.textAlign = "center";
  const ticks = chart.xTicks(Math.floor(width / 90)), words = chart.tickTexts(ticks);
  ticks.forEach((tick, i) => context.fillText(words[i], Math.min(xAxis.pixel(tick), width - 24), chartHeight - 11));
  context.strokeStyle = styleColor("axis");
  context.strokeRect(chart.left + 0.5, chartHeight - 26.5, width - chart.left - 12, 0);
}

/** The left edge of a chart, right of the numbers of its y axis. */
function leftEdge(context, ticks) {
  context.font = axisFont;
  return Math.max(56, ...tickTexts(ticks).map(text => Math.ceil(context.measureText(text).width) + 12));
}

/** Beginnings of phases, with their names, and alarms. */
function paintMarks(context, {xAxis}) {
  const runs = shownRuns();
  if (runs.length > mostMarkedRuns) return;
  context.font = "10px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "top";
  let free = -Infinity;
  for (const run of runs) {
    const paint = runs.length > 1 ? color(run.color) : styleColor("axis");
    for (const phase of run.phases) {
      const x = Math.round(xAxis.pixel(onX(run, phase.step))) + 0.5;
      paintMark(context, x, paint, [4, 4]);
      if (runs.length > 1 || x < free) continue;
      context.fillStyle = styleColor("quiet");
      context.fillText(phase.name, x + 4, 2);
      free = x + 8 + context.measureText(phase.name).width;
    }
    for (const alarm of run.alarms)
      for (const step of alarm.steps) paintMark(context, xAxis.pixel(onX(run, step)), styleColor("alarm-edge"), [1, 3], true);
  }
}

function paintMark(context, x, paint, dash, flag) {
  context.strokeStyle = context.fillStyle = paint;
  context.globalAlpha = 0.8;
  context.setLineDash(dash);
  context.beginPath();
  context.moveTo(x, 0);
  context.lineTo(x, chartHeight - 26);
  context.stroke();
  context.setLineDash([]);
  context.globalAlpha = 1;
  if (!flag) return;
  context.beginPath();
  context.moveTo(x - 4, chartHeight - 26);
  context.lineTo(x + 4, chartHeight - 26);
  context.lineTo(x, chartHeight - 33);
  context.fill();
}

function paintLine(context, {xAxis, yAxis}, line, values, alpha) {
  const [begin, end] = visiblePart(line.x, xAxis.low, xAxis.high);
  const usable = value => hasValue(value) && !(yAxis.log && value <= 0);
  context.strokeStyle = context.fillStyle = line.color;
  context.globalAlpha = alpha;
  context.lineWidth = alpha < 1 ? 1 : 1.6;
  context.lineJoin = "round";
  context.beginPath();
  let joined = false;
  for (let i = begin; i < end; ++i) {
    if (!usable(values[i])) { joined = false; continue; }
    const x = xAxis.pixel(line.x[i]), y = yAxis.pixel(values[i]);
    if (joined) context.lineTo(x, y); else context.moveTo(x, y);
    // A point without neighbours would not be seen.
    const alone = !joined && !(i + 1 < end && usable(values[i + 1]));
    if (alone || end - begin <= 12) { context.rect(x - 1.5, y - 1.5, 3, 3); context.moveTo(x, y); }
    joined = true;
  }
  context.stroke();
  context.globalAlpha = 1;
}
