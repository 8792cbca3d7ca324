// From the data of runs to lines in charts.

/**
 * The charts of all runs under their topics. One run: a chart may have several lines, with a colour each. Several runs:
 * each line has a chart of its own, with a line and a colour for each run.
 */
function chartList(runs) {
  const several = runs.length > 1;
  const names = new Map();  // of each chart's lines over all runs
  for (const run of runs)
    for (const chart of run.charts)
      for (const line of chart.lines) listIn(names, chart.title, () => new Set()).add(line.name);
  const topics = new Map();
  for (const run of runs) {
    for (const chart of run.charts) {
      const charts = listIn(topics, chart.topic, () => new Map());
      chart.lines.forEach((line, number) => {
        const title = several && names.get(chart.title).size > 1 && line.name !== chart.title ? `${chart.title}: ${line.name}` : chart.title;
        const unit = chart.unit.replace(/(, )?log scale/, "");
        const found = listIn(charts, title, () => ({key: chart.topic + "/" + title, title, unit, log: false, lines: []}));
        found.log = found.log || chart.log;
        found.lines.push({run, name: line.name, color: several ? null : number, steps: line.x, values: line.y, means: line.mean});
      });
    }
  }
  const order = title => page.topics.includes(title) ? page.topics.indexOf(title) : page.topics.length;
  return [...topics].map(([title, charts]) => ({title, charts: [...charts.values()]}))
    .sort((a, b) => order(a.title) - order(b.title));
}

/** The value of a key, made if it is not there. */
function listIn(map, key, create) {
  if (!map.has(key)) map.set(key, create());
  return map.get(key);
}

/** Whether a number can be drawn; sums of larger ones overflow. */
const hasValue = value => value !== null && Math.abs(value) <= 1e100;

const fewest = 20;  // shorter lines are not smoothed: each of a few evaluations counts

/** A moving average that forgets, without the pull to zero at its start; gaps stay gaps. */
function smoothed(values, weight) {
  if (weight === 0 || values.length < fewest) return values;
  let sum = 0, share = 0;
  return values.map(value => {
    if (!hasValue(value)) return null;
    sum = weight * sum + (1 - weight) * value;
    share = weight * share + (1 - weight);
    return sum / share;
  });
}

/** Smooths the means where the log is thinned: the points that are left are the lowest and highest. */
const smoothedLine = line => page.smooth === 0 ? line.values : smoothed(line.means || line.values, page.smooth);

/** A line as it is drawn now: positions on the x axis, raw and smoothed values. */
function drawnLine(line) {
  const x = line.steps.map(step => onX(line.run, step));
  return {
    line, x, raw: line.values, y: smoothedLine(line),
    color: color(line.color === null ? line.run.color : line.color),
    label: line.color === null ? line.run.name : line.name,
  };
}

/** First and end index of a line's points in a range of x, with one more at each side, so that lines go on to the edge. */
function visiblePart(x, low, high) {
  if (x.length === 0 || x[0] === null) return [0, 0];
  return [Math.max(indexIn(x, low), 0), Math.min(indexIn(x, high) + 2, x.length)];
}
