"""The page of runs in a browser: switching runs, values, smoothing, zoom, pictures, codebook, colours, phones, `nsvq watch`.

Run by ctest: run.sh page.py NSVQ, the program. Skipped without chromium and chromium-driver.
"""

import contextlib
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import zlib

import browser

NSVQ = None
RECIPE = """
data: {train: "builtin:dead-leaves?size=16&count=32", val: "builtin:dead-leaves?size=16&count=4&seed=1", size: 16}
model: {width: 8, multipliers: [1, 2], blocks: 1, latent_dim: 8}
quantizer: {codes: 32}
optimizer: {lr: 1e-3, ema_decay: 0.9}
schedule: {freeze: epoch, freeze_epoch: 1, warmup_epochs: 1}
train: {epochs: 3, batch_size: 8, log_every: 1, eval_every: 1, samples_every: 1, samples: 3}
threads: 1
"""
EXPERIMENT = """
title: Two rates
columns: [psnr]
scales: {test: {seeds: [0]}}
runs:
  rate: {recipe: tiny.yaml, vary: optimizer.lr, values: [1e-3, 1e-2]}
charts:
  psnr: {kind: sweep, title: PSNR by rate, y: [psnr], log_x: true}
  utilisation: {title: Codes used, y: [epoch.utilisation]}
claims:
  one: {text: A claim, holds: ["rate@1e-3:psnr > 0"]}
"""
RIGHT = "\ue014"


def write_log(folder, lines, alarm=False):
    """A run that was never trained."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"seed: {len(str(folder))}\noptimizer:\n  lr: 0.{lines}\n")
    with open(folder / "metrics.jsonl", "w") as file:
        for step in range(1, lines + 1):
            file.write(json.dumps({"kind": "step", "step": step, "epoch": 1, "loss": 1 + 1 / step, "vq": 0.5}) + "\n")
        file.write(json.dumps({"kind": "epoch", "step": lines, "epoch": 1, "seconds": 7, "loss": 1}) + "\n")
        file.write(json.dumps({"kind": "eval", "step": lines, "epoch": 1, "psnr": lines / 10}) + "\n")
        if alarm:
            file.write(json.dumps({"kind": "alarm", "step": lines, "epoch": 1, "sign": "s", "reason": "<b>low</b>"}) + "\n")


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        (cls.folder / "tiny.yaml").write_text(RECIPE)
        cls.trained = cls.folder / "runs" / "trained"
        cls.nsvq("train", str(cls.folder / "tiny.yaml"), "--run", str(cls.trained))
        write_log(cls.folder / "runs" / "other <!--<script>", 40, alarm=True)
        cls.several = cls.folder / "several.html"
        cls.nsvq("report", str(cls.folder / "runs"), "--out", str(cls.several))
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    @staticmethod
    def nsvq(*arguments):
        subprocess.run([NSVQ, *arguments], check=True, capture_output=True, timeout=300)

    def setUp(self):
        self.browser.resize(1280, 900)
        self.browser.prefer("light")

    def tearDown(self):
        self.assertEqual(self.browser.errors(), [])

    def open(self, file):
        self.browser.open(pathlib.Path(file).as_uri())
        self.browser.script("localStorage.clear(); sessionStorage.clear(); scrollTo(0, 0)")

    def js(self, text, *arguments):
        return self.browser.script(text, *arguments)

    def box(self, selector):
        """Where an element is on the screen, brought there first: left, top, width, height."""
        return self.js(
            "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height];",
            selector,
        )

    def at(self, selector, x, y):
        left, top, width, height = self.box(selector)
        return left + x * width, top + y * height

    def set(self, selector, value):
        self.js(
            "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change', {bubbles: true}));",
            selector,
            value,
        )

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

    def pixels(self, selector):
        """A number that tells what a canvas shows from what another does."""
        return zlib.crc32(self.js("return document.querySelector(arguments[0]).toDataURL()", selector).encode())

    def colored(self, selector):
        """How many pixels of a canvas are neither clear nor grey."""
        return self.js(
            "const c = document.querySelector(arguments[0]); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "let n = 0; for (let i = 0; i < d.length; i += 4)"
            "  if (d[i + 3] > 60 && Math.max(d[i], d[i+1], d[i+2]) - Math.min(d[i], d[i+1], d[i+2]) > 60) ++n; return n;",
            selector,
        )

    def test_switching_a_run(self):
        self.open(self.several)
        self.assertEqual(self.js("return document.querySelectorAll('.run').length"), 2)
        self.assertEqual(self.text("#verdict"), "", "of several the table has the words")
        self.assertIn("other <!--<script>", self.text(".runs"))
        self.assertEqual(self.js("return document.querySelectorAll('#alarms b, #alarms script').length"), 0)
        chart = "#curves .chart canvas"
        self.box(chart)
        self.browser.until(lambda: self.colored(chart) > 0)
        self.js("document.querySelectorAll('#results th button')[2].click()")
        rows = "return [...document.querySelectorAll('#results table')[0].querySelectorAll('tbody th')].map(e => e.textContent)"
        self.assertEqual(self.js(rows), ["other <!--<script>", "trained"])
        self.js("document.querySelectorAll('#results th button')[2].click()")
        self.assertEqual(self.js(rows), ["trained", "other <!--<script>"])
        self.assertIn("optimizer.lr", self.text("#results"))
        before = self.colored(chart)
        self.js("document.querySelector('.run input').click()")
        self.assertEqual(self.js(rows), ["trained"])
        self.assertIn("Verdict: ", self.text("#verdict"))
        self.assertEqual(self.text("#alarms"), "")
        self.assertNotEqual(self.colored(chart), before)
        self.js("document.querySelectorAll('.run input')[1].click()")
        self.assertEqual(self.colored(chart), 0)

    def test_values_smoothing_axes_and_zoom(self):
        self.open(self.trained / "report.html")
        loss = "return [...document.querySelectorAll('.chart')].findIndex(e => e.textContent.startsWith('Loss and'))"
        self.js("document.querySelectorAll('.chart')[arguments[0]].id = 'loss'", self.js(loss))
        canvas = "#loss canvas"
        self.box(canvas)
        self.browser.until(lambda: self.colored(canvas) > 0)
        self.assertTrue(self.js("return document.querySelector('#loss .values').hidden"))
        self.browser.pointer(self.at("#loss .over", 0.5, 0.5))
        self.assertRegex(self.text("#loss .values"), r"step \d.*\d total")
        self.browser.pointer((1, 1))
        self.assertTrue(self.js("return document.querySelector('#loss .values').hidden"))
        self.js("document.querySelector('#loss canvas').focus()")
        self.browser.keys(RIGHT)
        self.assertRegex(self.text("#loss .values"), r"step \d")
        self.js("document.activeElement.blur()")
        plain = self.pixels(canvas)
        self.set("#smooth", "0")
        for selector, value in ((".bar select", "epoch"), (".bar select", "time")):
            self.set(selector, value)
            self.assertNotEqual(self.pixels(canvas), plain, value)
            self.browser.pointer(self.at("#loss .over", 0.5, 0.5))
            self.assertRegex(self.text("#loss .values"), "epoch" if value == "epoch" else r"\d s")
        self.set(".bar select", "step")
        self.browser.pointer((1, 1))
        self.assertEqual(self.pixels(canvas), plain)
        self.set(".bar label:nth-child(2) select", "log")
        self.assertNotEqual(self.pixels(canvas), plain)
        self.set(".bar label:nth-child(2) select", "auto")
        self.assertTrue(self.js("return document.querySelector('#reset').hidden"))
        self.browser.pointer(self.at("#loss .over", 0.4, 0.5), "down", self.at("#loss .over", 0.7, 0.5), "up")
        self.assertNotEqual(self.pixels(canvas), plain)
        self.js("document.querySelector('#reset').click()")
        self.assertEqual(self.pixels(canvas), plain)

    def test_smoothing_keeps_the_raw_curve_pale(self):
        self.open(self.several)
        canvas = "#curves .charts:last-child canvas"
        self.box(canvas)
        self.js("document.querySelectorAll('.run input')[1].click()")
        loss = "return [...document.querySelectorAll('.chart')].findIndex(e => /terms: total/.test(e.textContent))"
        self.js("document.querySelectorAll('.chart')[arguments[0]].id = 'loss'", self.js(loss))
        self.box("#loss canvas")
        self.browser.until(lambda: self.colored("#loss canvas") > 0)
        plain = self.pixels("#loss canvas")
        self.set("#smooth", "0.9")
        self.assertNotEqual(self.pixels("#loss canvas"), plain)
        self.browser.pointer(self.at("#loss .over", 0.3, 0.5))
        self.assertIn("raw", self.text("#loss .values"))

    def test_choices_outlive_a_reload_of_this_page_alone(self):
        self.open(self.trained / "report.html")
        self.set(".bar select", "epoch")
        self.js("document.querySelector('#curves .chart').chart.setZoom([1, 2])")
        self.set("#picture-epoch", "0")
        shown = "const c = document.querySelector('#curves .chart').chart; c.setVisible(true); return [c.xAxis.low, c.xAxis.high]"
        self.browser.open((self.trained / "report.html").as_uri())
        self.assertEqual(self.js(shown), [1, 2])
        self.assertEqual(self.js("return document.querySelector('.bar select').value"), "epoch")
        self.assertFalse(self.js("return document.querySelector('#reset').hidden"))
        self.browser.until(lambda: "epoch 1" in self.text(".pictures figcaption"))
        self.browser.open(self.several.as_uri())
        self.assertEqual(self.js("return document.querySelector('.bar select').value"), "step")
        self.assertTrue(self.js("return document.querySelector('#reset').hidden"))

    def put_values(self, name, runs):
        """A page of runs with a loss at each step, {run: {step: loss}}, and of the epochs' ends."""
        folder = self.folder / name
        for run, losses in runs.items():
            (folder / run).mkdir(parents=True)
            (folder / run / "config.yaml").write_text("seed: 1\n")
            with open(folder / run / "metrics.jsonl", "w") as file:
                for step, loss in losses.items():
                    file.write(json.dumps({"kind": "step", "step": step, "epoch": 1, "loss": loss}) + "\n")
                file.write(json.dumps({"kind": "epoch", "step": max(losses), "epoch": 1, "seconds": 8000}) + "\n")
        self.nsvq("report", str(folder), "--out", str(folder / "page.html"), "--no-codes")
        self.open(folder / "page.html")
        loss = "return [...document.querySelectorAll('#curves .chart')].findIndex(e => e.textContent.startsWith('Loss and'))"
        self.js("document.querySelectorAll('#curves .chart')[arguments[0]].id = 'loss'", self.js(loss))
        self.box("#loss")
        self.browser.until(lambda: self.js("return document.querySelector('#loss').chart.yTicks !== undefined"))

    def y_labels(self):
        return self.js("const c = document.querySelector('#loss').chart; return c.tickTexts(c.yTicks)")

    def test_smoothing_of_a_thinned_log(self):
        # The mean is 1/3; of the lowest and highest points it would be 5.
        losses = {step: 10 if step % 30 == 0 else 0 for step in range(1, 30_001)}
        for name, runs in (("thinned", 1), ("thinned-more", 9)):
            self.put_values(name, {f"run-{i}": losses for i in range(runs)})
            self.set("#smooth", "0.95")
            y = self.js("return document.querySelector('#loss').chart.drawn[0].y")
            self.assertGreater(len(y), 500)
            self.assertLess(max(abs(value - 1 / 3) for value in y[100:]), 0.1, name)

    def test_a_constant_curve_and_labels_of_its_axis(self):
        self.put_values("constant", {"a": {step: 1.7 for step in range(1, 200)}})
        for smoothing in ("0", "0.9"):
            self.set("#smooth", smoothing)
            low, high = self.js("const {low, high} = document.querySelector('#loss').chart.yAxis; return [low, high]")
            self.assertGreater(high - low, 0.1)
            self.assertEqual(len(set(self.y_labels())), len(self.y_labels()))
        for name, start, step in (("labels", 10.62, 1e-4), ("large", 2_000_000, 10), ("thousands", 5000, 0.01)):
            self.put_values(name, {"a": {i: start + i * step for i in range(1, 20)}})
            labels = self.y_labels()
            self.assertEqual(len(set(labels)), len(labels), labels)
            self.assertGreater(len(labels), 2)

    def test_ticks_of_time_are_round(self):
        self.put_values("times", {"a": {step: 1 / step for step in range(1, 100)}})
        self.set(".bar select", "time")
        ticks = self.js("const c = document.querySelector('#loss').chart; return c.tickTexts(c.xTicks(5))")
        self.assertEqual(ticks, ["0", "30 min", "1 h", "1 h 30 min", "2 h"])
        self.js("document.querySelector('#loss').chart.setZoom([119.9, 120.15])")
        ticks = self.js("const c = document.querySelector('#loss').chart; return c.tickTexts(c.xTicks(3))")
        self.assertEqual(ticks, ["1 min 59.9 s", "2 min", "2 min 0.1 s"])

    def test_a_log_scale_is_said(self):
        self.put_values("scales", {"a": {step: 10.0 ** -(step % 4) for step in range(1, 100)}})
        for scale, said in (("log", True), ("linear", False)):
            self.set(".bar label:nth-child(2) select", scale)
            self.assertEqual("log scale" in self.text("#loss h4"), said)

    def test_values_of_runs_at_other_steps(self):
        self.put_values("steps", {"every": {step: 1 for step in range(1, 1001)}, "some": {100: 2, 500: 3, 900: 4}, "short": {10: 5, 20: 6}})
        self.browser.pointer(self.at("#loss .over", 0.75, 0.5))
        shown = self.text("#loss .values")
        self.assertRegex(shown, r"step \d+.*4 some at step 900.*1 every$")

    def test_zoom_out_ends_and_empty_charts_say_why(self):
        self.put_values("empty", {"a": {step: -step for step in range(1, 100)}})
        says = "return document.querySelector('#loss').chart.says"
        self.assertEqual(self.js(says), "")
        self.set(".bar label:nth-child(2) select", "log")
        self.assertIn("no value above 0", self.js(says))
        self.set(".bar label:nth-child(2) select", "linear")
        self.js("document.querySelector('#loss canvas').focus(); document.querySelector('#loss').chart.setZoom([200, 300])")
        self.assertIn("no value in this range", self.js(says))
        self.js("document.querySelector('#loss').chart.setZoom([40, 60])")
        self.browser.keys("-" * 12)
        low, high = self.js("const {low, high} = document.querySelector('#loss').chart.xAxis; return [low, high]")
        self.assertEqual((low, high), (0, 99))
        self.assertTrue(self.js("return document.querySelector('#reset').hidden"))

    def test_pictures(self):
        self.open(self.trained / "report.html")
        self.browser.until(lambda: self.js("return document.querySelectorAll('.tile').length") == 3)
        tile = ".tile"
        half = self.pixels(tile)
        self.set("#split", "100")
        image = self.pixels(tile)
        self.set("#split", "0")
        reconstruction = self.pixels(tile)
        self.assertEqual(len({half, image, reconstruction}), 3)
        self.browser.pointer(self.at(tile, 0.2, 0.5), "down", self.at(tile, 0.99, 0.5), "up")
        self.assertEqual(self.js("return Number(document.querySelector('#split').value) > 90"), True)
        self.assertFalse(self.js("return document.querySelector('.lens').hidden"))
        self.assertEqual(self.js("return document.querySelectorAll('.lens canvas').length"), 2)
        self.browser.pointer((1, 1))
        self.assertTrue(self.js("return document.querySelector('.lens').hidden"))
        self.set("#split", "0")
        self.set("#picture-epoch", "0")
        self.browser.until(lambda: "epoch 1" in self.text(".pictures figcaption"))
        self.assertNotEqual(self.pixels(tile), reconstruction, "an earlier epoch")
        self.set("#split", "100")
        self.assertEqual(self.pixels(tile), image, "the image is the same")

    def test_codebook(self):
        self.open(self.trained / "report.html")
        self.assertRegex(self.text("#codebook p"), r"Checkpoint step-\d+\. \d+ codes? of 32 used in the 192 tokens")
        self.assertGreater(self.colored("#map"), 20)
        self.browser.until(lambda: self.colored("#tokens") > 0)
        self.js("document.querySelector('#map').focus()")
        self.browser.keys(RIGHT)
        self.assertRegex(self.text(".code"), r"Code \d+: \d+ uses?, \d")
        self.assertGreater(self.js("return document.querySelectorAll('.patches canvas').length"), 0)
        self.browser.until(lambda: self.js("return document.querySelector('.patches canvas').getContext('2d').getImageData(36, 36, 1, 1).data[3]") > 0)
        self.browser.pointer(self.at("#tokens", 0.1, 0.1))
        under_pointer = self.text(".code b")
        self.browser.pointer(self.at("#map", 0.5, 0.001))
        self.assertRegex(under_pointer, r"Code \d+")

    def test_codebook_without_sample_images(self):
        runs = self.folder / "imageless"
        shutil.copytree(self.trained, runs / "a")
        shutil.copytree(self.trained, runs / "b")
        shutil.rmtree(runs / "b" / "samples")
        self.nsvq("report", str(runs), "--out", str(runs / "page.html"))
        self.open(runs / "page.html")
        self.browser.until(lambda: self.colored("#tokens") > 0)
        self.set("#codebook select", "b")
        self.assertIn("use is not known", self.text("#codebook figcaption"))
        self.assertIn("No tokens to show", self.text("#codebook"))
        self.assertNotIn("used in", self.text("#codebook p"))
        self.assertGreater(self.colored("#map"), 20, "no grey, which would be unused")
        self.js("document.querySelector('#map').focus()")
        self.browser.keys(RIGHT)
        self.assertEqual(self.text(".code"), "Code 0: its use is not known")
        self.js("for (let i = 0; i < 3; ++i) document.querySelector('#theme').click()")  # draws anew
        self.set("#codebook select", "a")
        self.browser.until(lambda: self.colored("#tokens") > 0)

    def test_colors_by_system_and_button(self):
        self.open(self.several)
        background = "return getComputedStyle(document.body).backgroundColor"
        light = self.js(background)
        self.browser.prefer("dark")
        self.browser.until(lambda: self.js(background) != light)
        dark = self.js(background)
        self.js("document.querySelector('#theme').click()")
        self.assertEqual(self.js(background), light)
        self.js("document.querySelector('#theme').click()")
        self.assertEqual(self.js(background), dark)

    def test_an_experiment(self):
        (self.folder / "rates.yaml").write_text(EXPERIMENT)
        out = self.folder / "reproduced"
        self.nsvq("reproduce", str(self.folder / "rates.yaml"), "--scale", "test", "--out", str(out))
        self.open(out / "rates.html")
        self.assertEqual(self.js("return document.querySelectorAll('#experiments .chart').length"), 2)
        self.js("document.querySelectorAll('#experiments .chart').forEach((e, i) => { e.id = 'chart' + i; })")
        for chart, values in (("#chart0", r"optimizer\.lr 0\.01.*\d rate"), ("#chart1", r"step \d+.*\d rate, 1e-")):
            self.box(chart)
            self.browser.until(lambda: self.colored(chart + " canvas") > 0)
            self.assertTrue(self.js("return document.querySelector(arguments[0]).hidden", chart + " .values"))
            self.browser.pointer(self.at(chart + " .over", 0.65, 0.5))
            self.assertRegex(self.text(chart + " .values"), values)
            self.browser.pointer((1, 1))
        # Choices for the charts of runs leave it as it is; its own zoom changes it alone.
        plain = self.pixels("#chart1 canvas")
        self.set("#smooth", "0.9")
        self.set(".bar select", "time")
        self.assertEqual(self.pixels("#chart1 canvas"), plain)
        self.browser.pointer(self.at("#chart1 .over", 0.3, 0.5), "down", self.at("#chart1 .over", 0.7, 0.5), "up")
        self.assertNotEqual(self.pixels("#chart1 canvas"), plain)
        self.js("document.querySelector('#chart1 canvas').focus()")
        self.browser.keys("\ue00c")  # Escape
        self.js("document.activeElement.blur()")
        self.browser.pointer((1, 1))
        self.assertEqual(self.pixels("#chart1 canvas"), plain)
        self.browser.prefer("dark")
        self.browser.until(lambda: self.pixels("#chart1 canvas") != plain)
        self.assertGreater(self.colored("#chart1 canvas"), 0)
        self.browser.resize(375, 700)
        self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), 375)

    def test_why_a_figure_is_missing_wraps(self):
        (self.folder / "why.yaml").write_text(EXPERIMENT)
        out = self.folder / "failed"
        self.nsvq("reproduce", str(self.folder / "why.yaml"), "--scale", "test", "--out", str(out))
        html = (out / "why.html").read_text()
        start = html.index('id="data">') + len('id="data">')
        end = html.index("</script>", start)
        data = json.loads(html[start:end])
        data["experiments"][0]["rows"][0]["cells"][0]["text"] = "failed: " + "a reason of many words " * 20
        (out / "why.html").write_text(html[:start] + json.dumps(data) + html[end:])
        self.open(out / "why.html")
        beyond = "const e = document.querySelector('#experiments .scroll'); return e.scrollWidth - e.clientWidth"
        self.assertEqual(self.js(beyond), 0, "figures are not pushed out of sight")

    def test_a_phone(self):
        self.browser.resize(375, 700)
        for file in (self.several, self.trained / "report.html"):
            self.open(file)
            self.browser.until(lambda: self.js("return document.querySelectorAll('.tile').length") > 0)
            self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), 375)
            self.assertLessEqual(self.js("return document.querySelector('#curves .chart').getBoundingClientRect().right"), 375)

    def test_on_paper(self):
        for i in range(30):
            write_log(self.folder / "printed" / f"run-{i}", 30)
        self.nsvq("report", str(self.folder / "printed"), "--out", str(self.folder / "printed.html"))
        self.browser.prefer("dark")
        self.open(self.folder / "printed.html")
        self.js("dispatchEvent(new Event('beforeprint'))")
        self.browser.prefer("dark", media="print")
        self.browser.resize(720, 1000)
        self.assertEqual(self.js("return getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        table = "const e = document.querySelector('#results .scroll'); return [e.scrollHeight - e.clientHeight, e.scrollWidth - e.clientWidth]"
        self.assertEqual(self.js(table), [0, 0], "all rows and columns")
        for shape in self.js("return [...document.querySelectorAll('#curves .frame canvas:first-child')].map(e => [e.width / e.height, e.clientWidth / e.clientHeight])"):
            self.assertAlmostEqual(shape[0], shape[1], delta=0.05)
        self.assertGreater(self.colored("#curves .charts:last-child canvas"), 0, "charts off the screen are drawn")
        self.assertEqual(self.js("return document.querySelector('#theme').offsetHeight"), 0)
        self.browser.prefer("dark")
        self.js("dispatchEvent(new Event('afterprint'))")
        self.assertNotEqual(self.js("return getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")

    def test_long_names_on_a_phone(self):
        runs = self.folder / "names"
        shutil.copytree(self.trained, runs / ("long" * 60))
        self.nsvq("report", str(runs / ("long" * 60)), "--out", str(runs / "one.html"))
        write_log(runs / ("name" * 60), 30, alarm=True)
        self.nsvq("report", str(runs), "--out", str(runs / "two.html"))
        self.browser.resize(375, 700)
        for page in ("one.html", "two.html"):
            self.open(runs / page)
            self.browser.until(lambda: self.js("return document.querySelectorAll('.tile').length") > 0)
            self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), 375, page)
        name = self.js("return document.querySelector('#results tbody th').getBoundingClientRect().width")
        self.assertLess(name, 200, "figures are seen beside it")
        where = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
        self.assertLess(self.js(where, "#map"), self.js(where, ".code"))
        self.assertLess(self.js(where, ".code"), self.js(where, "#tokens"), "right below the map")

    def test_fifty_runs_and_a_filter(self):
        for i in range(50):
            write_log(self.folder / "many" / f"run-{i}", 30)
        self.nsvq("report", str(self.folder / "many"), "--out", str(self.folder / "many.html"))
        self.open(self.folder / "many.html")
        self.assertEqual(self.js("return document.querySelectorAll('.run').length"), 50)
        self.set(".legend input[type=search]", "run-4")
        self.assertEqual(self.js("return document.querySelectorAll('.run').length"), 11)
        self.js("[...document.querySelectorAll('.legend button')].find(b => b.textContent === 'none').click()")
        self.assertEqual(self.js("return document.querySelectorAll('#results table')[0].querySelectorAll('tbody tr').length"), 39)

    def test_a_long_log_stays_quick(self):
        write_log(self.folder / "long", 200_000)
        self.nsvq("report", str(self.folder / "long"))
        file = self.folder / "long" / "report.html"
        self.assertLess(file.stat().st_size, 400_000)
        self.open(file)
        self.box("#curves canvas")
        self.browser.until(lambda: self.colored("#curves canvas") > 0)

    def test_numbers_at_the_limits(self):
        run = self.folder / "limits"
        values = {"loss": [1e308, -1e308, 1e-320, None], "l1": [1e16, 1e16 + 2], "vq": [0, 0], "ns": [-1], "x": [1e-300, 1e90]}
        run.mkdir()
        with open(run / "metrics.jsonl", "w") as file:
            for key, numbers in values.items():
                for i, number in enumerate(numbers):
                    file.write(json.dumps({"kind": key, "step": i * 10**14, key: number}) + "\n")
        self.nsvq("report", str(run))
        self.open(run / "report.html")
        for scale in ("auto", "linear", "log"):
            self.set(".bar label:nth-child(2) select", scale)
            self.js("document.querySelectorAll('.chart').forEach(e => e.chart.setVisible(true))")
        self.assertIn("no epoch-NNNN.png", self.text("#alarms"))

    @contextlib.contextmanager
    def watch(self, runs):
        """`nsvq watch` in the browser."""
        server = subprocess.Popen([NSVQ, "watch", str(runs), "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            self.browser.open(re.search(r"http://\S+", server.stdout.readline())[0])
            yield
        finally:
            server.send_signal(signal.SIGINT)
            self.assertEqual(server.wait(timeout=30), 0)
            server.stdout.close()

    def test_watch(self):
        runs = self.folder / "watched"
        write_log(runs / "first", 30)
        with self.watch(runs):
            self.browser.until(lambda: "30 steps" in self.text(".facts"))
            write_log(runs / "second", 40)
            self.browser.until(lambda: self.js("return document.querySelectorAll('.run').length") == 2)
            with open(runs / "second" / "metrics.jsonl", "a") as file:
                file.write('{"kind":"step","step":90,"epoch":2,"loss":1}\n')
            self.browser.until(lambda: "90" in self.text("#results table"))
            self.js("[...document.querySelectorAll('#codebook button')].pop().click()")
            self.browser.until(lambda: "has the run written a checkpoint yet" in self.text("#codebook"))
            (runs / "link").symlink_to(self.trained)
            self.browser.until(lambda: "link is a link out of the folder" in self.text("#alarms"))
            shutil.rmtree(runs)
            self.browser.until(lambda: "no longer there" in self.text("#alarms"))
            self.assertEqual(self.text("#status"), "no runs to show")
        self.browser.until(lambda: "does not answer" in self.text("#status"))
        self.browser.errors()  # of requests that nobody answered

    def test_a_live_update_keeps_what_the_user_is_at(self):
        runs = self.folder / "kept"
        for name in ("first", "second"):
            write_log(runs / name, 30)
            for other in range(3):
                with open(runs / name / "metrics.jsonl", "a") as file:
                    file.write(json.dumps({"kind": "alarm", "step": other, "epoch": 1, "sign": f"s{other}", "reason": "r"}) + "\n")
        with self.watch(runs):
            self.browser.until(lambda: self.js("return document.querySelectorAll('.run').length") == 2)
            focused = "return document.activeElement.closest('[data-run]').dataset.run"
            self.js("document.querySelectorAll('.run input')[1].focus()")
            self.browser.keys(" ")
            self.assertFalse(self.js("return document.activeElement.checked"))
            self.browser.keys(" ")
            self.assertEqual(self.js(focused), "second")
            self.js("for (const s of ['alarms', 'configuration']) document.querySelector(`#${s} details`).open = true")
            self.set("#codebook select", "second")
            self.js("window.select = document.querySelector('#codebook select')")
            with open(runs / "first" / "metrics.jsonl", "a") as file:
                file.write('{"kind":"step","step":90,"epoch":2,"loss":1}\n')
            self.browser.until(lambda: "90" in self.text("#results table"))
            self.assertEqual(self.js(focused), "second")
            self.assertEqual(self.js("return document.querySelectorAll('#alarms details[open], #configuration > details[open]').length"), 2)
            self.assertTrue(self.js("return window.select.isConnected && window.select.value === 'second'"))
        self.browser.open("about:blank")
        self.browser.errors()  # of requests that nobody answered

    def test_watch_a_run_under_the_name_of_another(self):
        runs = self.folder / "renamed"
        shutil.copytree(self.trained, runs / "a")
        picture = runs / "a" / "samples" / "epoch-0003.png"
        with self.watch(runs):
            self.browser.until(lambda: self.js("return document.querySelectorAll('.tile').length") == 3)
            before = self.pixels(".tile")
            self.js("[...document.querySelectorAll('#codebook button')].pop().click()")
            self.browser.until(lambda: "Checkpoint step-" in self.text("#codebook"))
            shutil.rmtree(runs / "a")
            write_log(runs / "a", 50)
            picture.parent.mkdir()
            picture.write_bytes(b"torn")
            self.browser.until(lambda: "cannot be shown" in self.text("#pictures"))
            self.assertNotIn("Checkpoint step-", self.text("#codebook"))
            shutil.copy(self.trained / "samples" / "epoch-0001.png", picture)
            self.browser.until(lambda: self.js("return document.querySelectorAll('.tile').length") == 3)
            self.assertNotEqual(self.pixels(".tile"), before)
        self.browser.open("about:blank")
        self.browser.errors()  # of the picture that was torn


if __name__ == "__main__":
    if program := browser.missing():
        print(f"skipped: no {program}; apt-get install chromium chromium-driver runs this test")
        sys.exit(77)
    NSVQ = sys.argv.pop(1)
    unittest.main()
