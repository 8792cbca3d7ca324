// Results of experiments (nsvq reproduce): table, charts, claims, pictures.

/** The paper's figure stands below ours, small. */
function experimentTable(experiment) {
  if (experiment.columns.length === 0) return [];
  const rows = experiment.rows.map(row => [textCell(row.title), ...row.cells.map(cell =>
    ({text: cell.text, value: cell.value, more: cell.paper ? ` paper ${cell.paper}` : null}))]);
  const arrow = column => column.higher ? " ↑" : " ↓";
  return [sortableTable([{title: "Run"}, ...experiment.columns.map(column => ({title: column.title + arrow(column)}))],
    rows, "experiment-" + experiment.name)];
}

function experimentClaims(experiment) {
  if (experiment.claims.length === 0) return [];
  const mark = {"holds here": "holds", "does not hold here": "fails"};
  return [make("h3", {}, "Claims"), make("ul", {class: "claims"}, ...experiment.claims.map(claim =>
    make("li", {class: mark[claim.verdict] || "untested"}, claim.text + ": ", make("strong", {}, claim.verdict),
      claim.why ? make("small", {}, claim.why) : null)))];
}

/** Lines over steps or over the values of a setting; the choices for runs do not apply. */
class ExperimentChart extends Chart {
  lines() {
    return this.description.lines.map(line => ({line, x: line.x, y: line.y, raw: line.y, color: color(line.color), label: line.name}));
  }

  wholeRange() {
    const all = this.description.lines.flatMap(line => [line.x[0], line.x[line.x.length - 1]]);
    const low = Math.min(...all), high = Math.max(...all);
    if (low < high) return [low, high];
    return this.isLogX() ? [low / 2, low * 2] : [low - 1, low + 1];
  }

  /** Charts beside each other share one range of y. */
  yRange(low, high, log) {
    const own = super.yRange(low, high, log), shared = this.description.yRange;
    if (!shared || this.zoom()) return own;
    const [least, greatest] = shared, room = (greatest - least) * 0.06;
    return log ? [least / 1.1, greatest * 1.1] : [least - room, greatest + room];
  }

  smoothing() { return 0; }
  isLog() { return this.description.log; }
  isLogX() { return this.description.logX; }
  xText(x) { return `${this.description.xLabel} ${short(x)}`; }
  xTicks(count) { return ticksOf(this.xAxis, count); }
  tickTexts(ticks) { return tickTexts(ticks); }
  zoom() { return this.ownZoom || null; }

  setZoom(range) {
    if (isNoRange(range)) return;
    this.ownZoom = range;
    this.draw();
  }

  paintMarks(context) {
    context.font = "10px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "top";
    for (const mark of this.description.marks) {
      const x = Math.round(this.xAxis.pixel(mark.x)) + 0.5;
      paintMark(context, x, styleColor("axis"), [4, 4]);
      context.fillStyle = styleColor("quiet");
      context.fillText(mark.name, x + 4, 2);
    }
  }
}

function experimentChart(data) {
  const unit = [data.y_label, data.x_label === "step" ? "" : `over ${data.x_label}`].filter(Boolean).join(" ");
  const chart = new ExperimentChart({title: data.title, unit, xLabel: data.x_label, log: data.log_y, logX: data.log_x, yRange: data.y_range, marks: data.marks,
    lines: data.lines.map((line, number) => ({...line, color: number}))});
  chart.element.chart = chart;
  experimentCharts.push(chart);
  seen.observe(chart.element);
  return chart.element;
}

/** Charts to be compared stand side by side, all others as many in a row as there is room for. */
function chartRows(charts) {
  const rows = [];
  for (const data of charts) {
    const last = rows[rows.length - 1];
    if (!last || Number(last.dataset.beside) !== data.beside) {
      rows.push(make("div", {class: data.beside === 2 || data.beside === 3 ? "charts beside" : "charts", "data-beside": data.beside, style: `--beside: ${data.beside}`}));
    }
    rows[rows.length - 1].append(experimentChart(data));
  }
  return rows;
}

function experimentPictures(experiment) {
  return experiment.pictures.map(picture => make("figure", {}, make("figcaption", {}, `${picture.title}, from the left: ${picture.columns.join(", ")}`),
    make("img", {src: picture.image, alt: picture.title})));
}

function experimentSection(experiment, several) {
  const agreement = experiment.agreement.map(one =>
    `${one.column} ${one.rank_correlation.toFixed(2)} (${counted(one.rows, "row")})`).join(", ");
  return make("section", {class: "experiment", "data-experiment": experiment.name},
    several ? make("h2", {}, experiment.page ? make("a", {href: experiment.page}, experiment.title) : experiment.title) : null,
    experiment.about ? make("p", {}, experiment.about) : null,
    make("p", {class: "quiet"}, experiment.setting + "."),
    ...experimentTable(experiment),
    agreement ? make("p", {class: "quiet"}, "Rank correlation of our order of the rows with the paper's: " + agreement) : null,
    ...experiment.notes.map(text => make("p", {class: "quiet"}, text)),
    ...experimentClaims(experiment),
    ...chartRows(experiment.charts),
    ...experimentPictures(experiment));
}
