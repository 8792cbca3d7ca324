// The bar of choices: runs, x axis, scale, smoothing, zoom, colours.

const manyRuns = 8;  // from here on with a filter

function choice(label, options, chosen, change) {
  const select = make("select", {"data-key": label, onchange: () => change(select.value)},
    ...options.map(option => make("option", {value: option, selected: option === chosen}, option)));
  return make("label", {}, label, " ", select);
}

function chartControls() {
  const changed = key => value => {
    page[key] = value;
    if (key === "x") page.zoom = null;
    rememberChoices();
    showZoom();
    drawCharts();
  };
  const shown = make("output", {}, String(page.smooth));
  const slider = make("input", {type: "range", id: "smooth", min: "0", max: "0.99", step: "0.01", value: String(page.smooth),
    oninput: () => { shown.textContent = slider.value; changed("smooth")(Number(slider.value)); }});
  const reset = make("button", {id: "reset", hidden: true, onclick: () => setZoom(null)}, "Reset zoom");
  return make("div", {class: "controls"},
    choice("x", ["step", "epoch", "time"], page.x, changed("x")),
    choice("y", ["auto", "linear", "log"], page.y, changed("y")),
    make("label", {}, "smoothing ", slider, " ", shown), reset, themeButton());
}

function showZoom() {
  document.getElementById("reset").hidden = page.zoom === null;
}

/** The colours that the system prefers, light or dark (page.css). */
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const themes = ["system", "light", "dark"];
let theme = "system";
try { theme = themes.find(name => name === localStorage.getItem("nsvq-theme")) || theme; } catch { /* switched off */ }

function applyTheme() {
  const root = document.documentElement;
  root.dataset.theme = root.classList.contains("printing") ? "light" : theme !== "system" ? theme : systemDark.matches ? "dark" : "light";
}

function themeButton() {
  const button = make("button", {id: "theme", onclick: () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try { localStorage.setItem("nsvq-theme", theme); } catch { /* switched off */ }
    button.textContent = `Colours: ${theme}`;
    applyTheme();
    redraw();
  }}, `Colours: ${theme}`);
  return button;
}

/** A switch for each run. */
class Legend {
  constructor() {
    this.list = make("div", {class: "runs"});
    this.filter = make("input", {type: "search", placeholder: "filter runs", "aria-label": "filter runs", hidden: true,
      oninput: () => { page.filter = this.filter.value; this.update(); }});
    this.all = make("button", {hidden: true, onclick: () => this.setMatching(true)}, "all");
    this.none = make("button", {hidden: true, onclick: () => this.setMatching(false)}, "none");
    this.element = make("div", {class: "legend"}, make("div", {class: "controls"}, this.filter, this.all, this.none), this.list);
  }

  matching() {
    const words = page.filter.toLowerCase().split(/\s+/).filter(Boolean);
    return page.runs.filter(run => words.every(word => run.name.toLowerCase().includes(word)));
  }

  setMatching(shown) {
    for (const run of this.matching()) page.hidden[shown ? "delete" : "add"](run.name);
    showRuns();
  }

  update() {
    const several = page.runs.length > 1;
    this.element.hidden = !several;
    this.filter.hidden = page.runs.length < manyRuns;
    this.all.hidden = this.none.hidden = page.runs.length < 3;
    refill(this.list, this.matching().map(run => this.chip(run)));
  }

  chip(run) {
    const box = make("input", {type: "checkbox", "data-key": run.name, checked: !page.hidden.has(run.name), onchange: () => {
      page.hidden[box.checked ? "delete" : "add"](run.name);
      showRuns();
    }});
    const state = run.state && run.state !== "finished" ? make("small", {}, run.state) : null;
    return make("label", {class: "run", "data-run": run.name, title: run.name}, box,
      make("i", {style: `background:${color(run.color)}`}), make("span", {}, run.name), state,
      run.alarms.length > 0 ? make("small", {class: "warn"}, counted(run.alarms.length, "alarm")) : null);
  }
}
