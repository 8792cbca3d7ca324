// The page as a whole.

const legend = new Legend(), pictures = new Pictures(), codebook = new Codebook();
const sections = {};
for (const name of ["experiments", "verdict", "alarms", "results", "curves", "checks", "phases", "configuration"]) sections[name] = make("section", {id: name});
const charts = new Map();  // by key
const seen = new IntersectionObserver(entries => {
  for (const entry of entries) entry.target.chart.setVisible(entry.isIntersecting);
}, {rootMargin: "200px"});

const experimentCharts = [];

const allCharts = () => [...experimentCharts, ...charts.values()];

function drawCharts() {
  for (const chart of allCharts()) chart.draw();
}

/** After a change of colours or size. */
function redraw() {
  legend.update();
  drawCharts();
  codebook.paint();
}

/** Paper is light, and has all charts. */
function setPrinting(printing) {
  document.documentElement.classList.toggle("printing", printing);
  applyTheme();
  for (const chart of allCharts()) if (printing) chart.setVisible(true);
  redraw();
}

/** Lays out charts. Those that were there stay, so that what the user points at does not go away. */
function layCharts() {
  const topics = chartList(page.runs);
  const wanted = new Set(topics.flatMap(topic => topic.charts.map(chart => chart.key)));
  for (const [key, chart] of charts) {
    if (wanted.has(key)) continue;
    seen.unobserve(chart.element);
    charts.delete(key);
  }
  for (const description of topics.flatMap(topic => topic.charts)) {
    if (charts.has(description.key)) charts.get(description.key).describe(description);
    else {
      const chart = new Chart(description);
      chart.element.chart = chart;
      charts.set(description.key, chart);
      seen.observe(chart.element);
    }
  }
  const order = [...wanted].join("\n");
  if (order !== layCharts.order) {
    layCharts.order = order;
    const focused = document.activeElement;
    sections.curves.replaceChildren(...(wanted.size > 0 ? [make("h2", {}, "Curves")] : []), ...topics.flatMap(topic => [
      make("h3", {}, topic.title), make("div", {class: "charts"}, ...topic.charts.map(chart => charts.get(chart.key).element))]));
    if (sections.curves.contains(focused)) focused.focus({preventScroll: true});
  }
  drawCharts();
}

function fill(section, title, children) {
  refill(section, [...(children.length > 0 && title ? [make("h2", {}, title)] : []), ...children]);
}

/** Fills all that depends on which runs are shown, but does not lay out charts. */
function showRuns() {
  const runs = shownRuns(), several = page.runs.length > 1;
  legend.update();
  fill(sections.verdict, "", verdictOfOne(runs));
  fill(sections.alarms, "", [...alarmNotices(runs), ...notices(runs, page.notes)]);
  fill(sections.results, several ? "Results" : "", several
    ? [...resultsOfSeveral(runs), ...(runs.length > 1 ? [make("h3", {}, "Settings that differ"), ...differingSettings(runs)] : [])]
    : runs.flatMap(resultsOfOne));
  pictures.update();
  codebook.update();
  fill(sections.checks, "Fast quantizer path against the plain one", runs.flatMap(run => checkSection(run, several)));
  fill(sections.phases, "Phases", phaseTable(runs));
  fill(sections.configuration, "", configurations(runs));
  drawCharts();
}

/** After runs have come, gone or changed. Colours go by the order in which runs came. */
function showData() {
  for (const run of page.runs) {
    if (!showData.colors.has(run.name)) showData.colors.set(run.name, showData.colors.size);
    run.color = showData.colors.get(run.name);
  }
  facts.textContent = page.runs.length === 1 ? page.runs[0].facts : page.runs.length > 1 ? counted(page.runs.length, "run") : "";
  layCharts();
  showRuns();
}
showData.colors = new Map();

const facts = make("p", {class: "facts"});

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  page.live = data.live;
  page.runs = data.runs;
  page.topics = data.topics;
  recallChoices();
  applyTheme();
  const status = make("small", {id: "status"});
  document.querySelector("main").append(
    make("header", {}, make("h1", {}, data.title), facts, status), sections.experiments, sections.verdict, sections.alarms,
    make("div", {class: "bar", hidden: page.runs.length === 0 && data.experiments !== undefined}, legend.element, chartControls()),
    sections.results, pictures.element, sections.curves, codebook.element, sections.checks, sections.phases, sections.configuration);
  fill(sections.experiments, "", (data.experiments || []).map(one => experimentSection(one, data.experiments.length > 1)));
  showData();
  showZoom();
  new ResizeObserver(drawCharts).observe(sections.curves);
  systemDark.addEventListener("change", () => { applyTheme(); redraw(); });
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));
  if (data.live) follow(status);
}

start();
