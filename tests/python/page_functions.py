"""The functions of the page's scripts that need no browser: axes, curves, smoothing, tables, the codebook's uses.

Run by ctest: run.sh page_functions.py. QuickJS runs nsvq/report/page/*.js over elements that only remember their children.
"""

import json
import pathlib
import unittest

import quickjs

FOLDER = pathlib.Path(__file__).parents[2] / "nsvq" / "report" / "page"
# page.js, which starts the page, is only parsed.
SCRIPTS = ["basics", "scale", "curves", "paint", "chart", "legend", "tables", "experiments", "pictures", "codebook", "live"]
BROWSER = """
class Element {
  constructor(tag) { Object.assign(this, {tag, children: [], attributes: {}, style: {}, listeners: {}, dataset: {}, hidden: false}); }
  append(...more) { this.children.push(...more); }
  replaceChildren(...more) { this.children = more; }
  setAttribute(name, value) {
    this.attributes[name] = value;
    if (name.startsWith("data-")) this.dataset[name.slice(5)] = value;
  }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  get textContent() { return this.children.map(child => typeof child === "string" ? child : child.textContent).join(""); }
  all(tag) {
    const below = this.children.filter(child => child instanceof Element).flatMap(child => child.all(tag));
    return this.tag === tag ? [this, ...below] : below;
  }
}
const document = {createElement: tag => new Element(tag), documentElement: new Element("html")};
const location = {pathname: "/page.html"};
const matchMedia = () => ({matches: false});
const getComputedStyle = () => ({getPropertyValue: name => " " + name});
const devicePixelRatio = 1;
const calls = [];
/** A canvas's context that remembers what was drawn. */
const context = new Proxy({}, {
  get: (own, name) => name in own ? own[name] : name === "measureText" ? text => ({width: 6 * text.length})
    : (...values) => { calls.push([name, ...values]); },
});
// QuickJS has no languages: English numbers, and an order by the numbers in texts.
Number.prototype.toLocaleString = function(language, {maximumFractionDigits = 3} = {}) {
  const [whole, digits] = String(Number(this.toFixed(maximumFractionDigits))).split(".");
  return whole.replace(/\\B(?=(\\d{3})+$)/g, ",") + (digits ? "." + digits : "");
};
String.prototype.localeCompare = function(text) {
  const padded = one => String(one).replace(/\\d+/g, number => number.padStart(20, "0"));
  return padded(this) < padded(text) ? -1 : padded(this) > padded(text) ? 1 : 0;
};
const rowsOf = table => table.all("tbody")[0].all("tr").map(row => row.children.map(cell => cell.textContent));
"""


class PageFunctions(unittest.TestCase):
    def setUp(self):
        self.context = quickjs.Context()
        self.context.eval(BROWSER)
        for name in SCRIPTS:
            self.context.eval((FOLDER / f"{name}.js").read_text())

    def js(self, text):
        """The value of an expression."""
        result = self.context.eval(f"JSON.stringify({text})")
        return None if result is None else json.loads(result)

    def run_js(self, text):
        self.context.eval(text)

    def test_the_whole_page_parses(self):
        text = "".join((FOLDER / f"{name}.js").read_text() for name in [*SCRIPTS, "page"])
        self.context.eval(f'(() => {{\n"use strict";\n{text}}})')

    def test_numbers_in_words(self):
        words = {"0": "0", "null": "–", "NaN": "–", "1.23456": "1.235", "12345.6": "12,346", "0.00001234": "1.23e-5", "2.5e7": "2.50e7", "-0.5": "-0.5"}
        for value, text in words.items():
            self.assertEqual(self.js(f"short({value})"), text, value)
        self.assertEqual(self.js("[duration(45), duration(600), duration(9060)]"), ["45 s", "10 min", "2 h 31 min"])
        self.assertEqual(self.js("[counted(1, 'run'), counted(2, 'run')]"), ["1 run", "2 runs"])

    def test_linear_ticks_are_round_and_inside(self):
        self.assertEqual(self.js("linearTicks(0, 10, 5)"), [0, 2, 4, 6, 8, 10])
        self.assertEqual(self.js("linearTicks(-3, 3, 3)"), [-2, 0, 2])
        for low, high in ((0.1, 0.7), (-1e-9, 1e-9), (1e12, 1e12 + 5), (5000, 5000.2)):
            ticks = self.js(f"linearTicks({low}, {high}, 5)")
            self.assertTrue(2 <= len(ticks) <= 12, ticks)
            step = (high - low) * 1e-6
            self.assertTrue(all(low - step <= tick <= high + step for tick in ticks), ticks)

    def test_ticks_on_a_log_axis(self):
        self.assertEqual(self.js("logTicks(1, 100, 6)"), [1, 2, 5, 10, 20, 50, 100])
        self.assertEqual(self.js("logTicks(1e-3, 1e3, 6)"), [1e-3, 1e-2, 0.1, 1, 10, 100, 1000])
        self.assertLessEqual(len(self.js("logTicks(1e-12, 1e12, 6)")), 7)
        self.assertTrue(all(tick > 0 for tick in self.js("logTicks(0.3, 0.4, 6)")))

    def test_ticks_of_time_are_round(self):
        self.assertEqual(self.js("timeTicks(0, 8000, 5).map(timeText)"), ["0", "30 min", "1 h", "1 h 30 min", "2 h"])
        self.assertEqual(self.js("timeTicks(119.9, 120.15, 3).map(timeText)"), ["1 min 59.9 s", "2 min", "2 min 0.1 s"])
        days = self.js("timeTicks(0, 30 * 86400, 5)")
        self.assertTrue(all(tick % 86400 == 0 for tick in days), days)

    def test_labels_of_ticks_differ(self):
        for start, step in ((10.62, 1e-4), (2_000_000, 10), (5000, 0.01), (0, 1e-7)):
            labels = self.js(f"tickTexts(linearTicks({start}, {start} + 5 * {step}, 5))")
            self.assertEqual(len(set(labels)), len(labels), labels)

    def test_an_axis_goes_both_ways(self):
        for log in ("false", "true"):
            self.run_js(f"var one = axis(2, 200, 10, 310, {log})")
            self.assertEqual(self.js("[one.pixel(2), Math.round(one.pixel(200) * 1e6) / 1e6]"), [10, 310])
            self.assertAlmostEqual(self.js("one.value(one.pixel(37))"), 37)
        self.assertAlmostEqual(self.js("axis(1, 100, 0, 10, true).pixel(10)"), 5)

    def test_indices_in_a_rising_list(self):
        self.assertEqual(self.js("[-1, 0, 1, 4, 5, 99].map(value => indexIn([0, 1, 5], value))"), [0, 0, 1, 1, 2, 2])
        self.assertEqual(self.js("visiblePart([0, 10, 20, 30, 40], 12, 28)"), [1, 4])
        self.assertEqual(self.js("visiblePart([], 0, 1)"), [0, 0])
        self.assertEqual(self.js("visiblePart([null, null], 0, 1)"), [0, 0])

    def test_steps_as_epochs_and_time(self):
        self.run_js("var run = {clock: {step: [0, 10, 30], epoch: [0, 1, 2], time: [0, 60, 90]}}")
        self.assertEqual(self.js("onX(run, 20)"), 20)
        self.run_js("page.x = 'epoch'")
        self.assertEqual(self.js("[0, 5, 10, 20, 50].map(step => onX(run, step))"), [0, 0.5, 1, 1.5, 3])
        self.run_js("page.x = 'time'")
        self.assertEqual(self.js("[5, 20].map(step => onX(run, step))"), [30, 75])
        self.assertIsNone(self.js("onX({clock: {step: [0], epoch: [0], time: [0]}}, 5)"), "before an epoch has ended")

    def test_smoothing(self):
        self.assertEqual(self.js("smoothed([1, 2], 0.9)"), [1, 2], "too few points")
        self.assertEqual(self.js("smoothed(Array(30).fill(3), 0)"), [3] * 30)
        constant = self.js("smoothed(Array(30).fill(3), 0.9)")
        self.assertTrue(all(abs(value - 3) < 1e-9 for value in constant), "no pull to zero at the start")
        gap = self.js("smoothed([...Array(15).fill(1), null, 1e200, ...Array(15).fill(2)], 0.5)")
        self.assertEqual(gap[15:17], [None, None])
        self.assertTrue(1.4 < gap[17] < 1.6 and gap[-1] > 1.99)
        self.run_js("page.smooth = 0.5; var line = {values: Array(30).fill(9), means: Array(30).fill(1)}")
        self.assertAlmostEqual(self.js("smoothedLine(line)[29]"), 1, msg="the means of a thinned log")
        self.run_js("page.smooth = 0")
        self.assertEqual(self.js("smoothedLine(line)[29]"), 9)

    RUNS = """
      var run = (name, lines) => ({name, color: 0, alarms: [], phases: [], charts: [
        {topic: "Losses", title: "Loss", unit: "loss, log scale", log: true, lines: lines.map(one => ({name: one, x: [1], y: [2]}))},
        {topic: "Quality", title: "PSNR", unit: "dB", log: false, lines: [{name: "PSNR", x: [1], y: [20]}]}]});
      page.topics = ["Quality", "Losses"];
    """

    def test_charts_of_one_run_have_several_lines(self):
        self.run_js(self.RUNS)
        topics = self.js("chartList([run('a', ['total', 'L1'])])")
        self.assertEqual([topic["title"] for topic in topics], ["Quality", "Losses"])
        (chart,) = topics[1]["charts"]
        self.assertEqual((chart["title"], chart["unit"], chart["log"]), ("Loss", "loss", True))
        self.assertEqual([(line["name"], line["color"]) for line in chart["lines"]], [("total", 0), ("L1", 1)])

    def test_charts_of_several_runs_have_a_line_each(self):
        self.run_js(self.RUNS)
        topics = self.js("chartList([run('a', ['total', 'L1']), run('b', ['total'])])")
        self.assertEqual([chart["title"] for chart in topics[1]["charts"]], ["Loss: total", "Loss: L1"])
        self.assertEqual([line["run"]["name"] for line in topics[1]["charts"][0]["lines"]], ["a", "b"])
        self.assertEqual([chart["title"] for chart in topics[0]["charts"]], ["PSNR"])

    CHART = """
      var chart = Object.create(Chart.prototype);
      var line = y => ({x: y.map((_, i) => i), y, raw: y, color: "red", label: "a"});
      chart.drawn = [line([1, 5, null, 3]), line([2, 2, 2, 2])];
    """

    def test_the_range_of_the_y_axis(self):
        self.run_js(self.CHART)
        low, high = self.js("chart.yRange(0, 3, false)")
        self.assertTrue(0.7 < low < 1 and 5 < high < 5.3)
        self.assertEqual(self.js("chart.yRange(2, 3, true)"), [2 / 1.1, 3 * 1.1])
        self.assertEqual(self.js("[chart.yRange(7, 9, false), chart.empty]"), [[0, 1], True])
        self.run_js("chart.drawn = [line([5, 5, 5])]")
        self.assertEqual(self.js("[chart.yRange(0, 2, false), chart.yRange(0, 2, true)]"), [[4.5, 5.5], [2.5, 10]])

    def test_values_under_the_cursor(self):
        self.run_js(self.CHART + "chart.xAxis = axis(0, 3, 0, 300, false); chart.yAxis = axis(0, 6, 200, 0, false); chart.height = 0;")
        values = self.js("chart.valuesAt(1.2)")
        self.assertEqual([point["y"] for point in values["points"]], [5, 2])
        self.assertEqual((values["at"], values["more"]), (1, 0))
        self.assertEqual([point["y"] for point in self.js("chart.valuesAt(2)")["points"]], [2], "the first line has a gap there")
        self.run_js("chart.drawn = Array.from({length: 20}, (_, i) => line([i, i]))")
        self.assertEqual(self.js("[chart.valuesAt(0).points.length, chart.valuesAt(0).more]"), [8, 12])

    def test_zooming_out_ends_at_the_whole_axis(self):
        self.run_js(self.CHART + "chart.wholeRange = () => [0, 100];")
        self.assertEqual(self.js("[chart.inside([-5, 50]), chart.inside([-5, 105])]"), [[0, 50], None])
        self.assertEqual(self.js("[isNoRange([1, 1]), isNoRange([1, 2]), isNoRange(null)]"), [True, False, False])

    def test_painted_lines_break_at_gaps(self):
        self.run_js("var axes = {xAxis: axis(0, 30, 0, 300, false), yAxis: axis(0, 10, 100, 0, false)};"
                    "var y = Array(30).fill(5); y[10] = null; y[20] = null; y[22] = null;"
                    "paintLine(context, axes, {x: y.map((_, i) => i), color: 'red'}, y, 1)")
        calls = self.js("calls")
        self.assertEqual([round(call[1]) for call in calls if call[0] == "moveTo"], [0, 110, 210, 210, 230])
        self.assertEqual([call[1:] for call in calls if call[0] == "rect"], [[208.5, 48.5, 3, 3]], "a dot for a point without neighbours")
        self.assertEqual(sum(call[0] == "lineTo" for call in calls), 9 + 8 + 6)
        self.assertEqual(self.js("leftEdge(context, [0, 1000000])"), 56)
        self.assertGreater(self.js("leftEdge(context, [1234567.5, 1234567.6])"), 60)

    RESULTS = """
      var figure = (value, epoch) => ({value, text: value === null ? "–" : value + " dB", epoch});
      var result = (name, psnr) => ({name, state: "finished", verdict: {word: "fine", text: "fine (PSNR)"}, step: 10, epoch: 2, seconds: 5, phase: "stage1", alarms: [],
        settings: {seed: "1", "optimizer.lr": String(psnr / 1000)},
        results: [{title: "PSNR", last: figure(psnr, 2), best: figure(null, 0), first: figure(1, 1)}]});
    """

    def test_results(self):
        self.run_js(self.RESULTS)
        self.assertEqual(self.js("rowsOf(resultsOfOne(result('a', 20))[0])"), [["PSNR", "20 dB", "–", "1 dB"]])
        self.assertEqual(self.js("resultsOfOne({results: []})"), [])
        self.run_js("var table = resultsOfSeveral([result('a', 20), result('b', 30), {...result('c', 1), results: []}])[0]")
        self.assertEqual(self.js("rowsOf(table).map(row => [row[0], row[7]])"), [["a", "20 dB"], ["b", "30 dB"], ["c", "–"]])

    def test_the_verdict(self):
        self.run_js(self.RESULTS + """
          var judged = (name, word) => ({...result(name, 20), verdict: {word, text: word && word + " (<b>why</b>)"}});
          var stopped = {...judged("c", ""), state: "stopped"};
          var table = resultsOfSeveral([judged("a", "fine"), judged("b", "collapsed"), stopped])[0];
        """)
        self.assertEqual(self.js("rowsOf(table).map(row => row[1])"), ["finished fine", "finished collapsed", "stopped"])
        self.run_js("table.all('button')[1].listeners.click()")
        self.assertEqual(self.js("rowsOf(table).map(row => row[0])"), ["b", "a", "c"], "sorted by it")
        self.assertEqual(self.js("verdictOfOne([judged('a', 'diverged')])[0].textContent"), "Verdict: diverged (<b>why</b>)")
        classes = "['fine', 'undertrained', 'collapsed', 'diverged'].map(word => verdictOfOne([judged('a', word)])[0].attributes.class)"
        self.assertEqual(self.js(classes), ["facts", "notice", "alarm", "alarm"])
        self.assertEqual(self.js("[[], [stopped], [judged('a', 'fine'), stopped]].map(verdictOfOne)"), [[], [], []])

    def test_a_click_on_a_heading_sorts(self):
        self.run_js(self.RESULTS + "var table = resultsOfSeveral([result('a', 20), {...result('c', 1), results: []}, result('b', 30)])[0];"
                    "var click = i => table.all('button')[i].listeners.click(); var names = () => rowsOf(table).map(row => row[0]);")
        self.run_js("click(7)")
        self.assertEqual(self.js("names()"), ["b", "a", "c"], "from the highest; without a figure last")
        self.run_js("click(7)")
        self.assertEqual(self.js("names()"), ["a", "b", "c"])
        self.run_js("click(0); click(0)")
        self.assertEqual(self.js("names()"), ["c", "b", "a"])

    def test_settings_that_differ(self):
        self.run_js(self.RESULTS)
        self.assertEqual(self.js("rowsOf(differingSettings([result('a', 20), result('b', 30)])[0])"), [["a", "0.02"], ["b", "0.03"]])
        self.assertEqual(self.js("differingSettings([result('a', 20), result('b', 20)])[0].textContent"), "The runs have the same settings.")
        self.assertEqual(self.js("differingSettings([result('a', 20)])"), [])

    def test_many_notices_are_folded(self):
        self.run_js("var noted = count => [{name: 'a', notices: Array(count).fill('<b>')}]")
        self.assertEqual(self.js("notices(noted(2), ['of the folder']).map(one => one.textContent)"), ["of the folder", "<b>", "<b>"])
        self.assertEqual(self.js("notices(noted(9), []).map(one => one.all('summary')[0].textContent)"), ["9 notes"])

    def test_runs_by_words_of_the_filter(self):
        self.run_js("page.runs = ['nsvq-1', 'nsvq-2', 'vqgan'].map(name => ({name})); page.filter = 'SV 2'")
        self.assertEqual(self.js("new Legend().matching().map(run => run.name)"), ["nsvq-2"])

    def test_uses_of_codes(self):
        self.run_js("var uses = findUses({width: 2, tokens: [[3, 3, 1, 3], [1, 0, 0, 0]]})")
        self.assertEqual(self.js("uses.get(3).length"), 3)
        self.assertEqual(self.js("uses.get(1)"), [{"image": 0, "row": 1, "column": 0}, {"image": 1, "row": 0, "column": 0}])
        self.assertEqual(self.js("[useColor(0, 9), useColor(1, 9), useColor(9, 9)]"), ["--axis", "hsl(215 75% 45%)", "hsl(25 75% 45%)"])

    def test_grids_of_images_and_reconstructions(self):
        grid = "gridOf({{naturalWidth: {}, naturalHeight: {}}})"
        self.assertEqual(self.js(grid.format(3 * 16 + 2 * 2, 2 * 16 + 2)), {"size": 16, "count": 3})
        for width, height in ((50, 33), (49, 34), (2, 2)):
            self.assertIsNone(self.js(grid.format(width, height)), (width, height))

    def test_runs_that_are_fetched_again(self):
        self.run_js("var fetched = (name, began, step) => ({name, began, step, pictures: [{epoch: 3, version: '5.7'}]});"
                    "takeRun(fetched('b 10', 'x', 1)); takeRun(fetched('b 9', 'x', 1)); page.runs[1].codes = 'kept';")
        self.assertEqual(self.js("page.runs.map(run => run.name)"), ["b 9", "b 10"])
        self.assertEqual(self.js("page.runs[1].pictures[0].source"), "picture?run=b%2010&epoch=3&version=5.7")
        self.run_js("takeRun(fetched('b 10', 'x', 2))")
        self.assertEqual(self.js("page.runs[1].codes"), "kept")
        self.run_js("takeRun(fetched('b 10', 'y', 2))")
        self.assertIsNone(self.js("page.runs[1].codes"), "another run of that name")

    def test_charts_side_by_side(self):
        self.run_js("var experimentCharts = [], seen = {observe() {}}; var data = beside => ({title: 't', y_label: 'dB', x_label: 'rate', marks: [],"
                    "log_x: true, log_y: false, beside, lines: [{name: 'a', x: [1, 10], y: [2, 3]}]});")
        self.assertEqual(self.js("chartRows([data(1), data(1), data(2), data(2), data(1)]).map(row => row.children.length)"), [2, 2, 1])


if __name__ == "__main__":
    unittest.main()
