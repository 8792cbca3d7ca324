// Tables that a click on a heading sorts, the verdict, alarms, phases, settings, checks.

const longCell = 30;      // characters; longer cells say why there is no figure
const paperColumns = 12;  // more do not fit on paper

/** `columns`: {title, text}; a cell is {text, value, more}; rows with a value come before those without. */
function sortableTable(columns, rows, name) {
  const body = make("tbody"), wide = columns.length > paperColumns;
  const state = sortableTable.states[name] || (sortableTable.states[name] = {column: -1, down: false});
  const fill = () => {
    const sorted = [...rows];
    if (state.column >= 0) sorted.sort((a, b) => {
      const [left, right] = [a[state.column], b[state.column]].map(cell => cell.value === undefined ? cell.text : cell.value);
      if (left === null || right === null) return (left === null) - (right === null);
      const order = typeof left === "string" || typeof right === "string" ? String(left).localeCompare(String(right), "en", {numeric: true}) : left - right;
      return state.down ? -order : order;
    });
    body.replaceChildren(...sorted.map(row => make("tr", {}, ...row.map((cell, i) =>
      make(i === 0 ? "th" : "td", i === 0 ? {scope: "row"} : {...(wide ? {"data-title": columns[i].title} : {}),
        class: columns[i].text ? "text" : cell.text.length > longCell ? "long" : ""},
        make("span", {}, cell.text), cell.more ? make("small", {}, cell.more) : null)))));
    heads.forEach((head, i) => head.setAttribute("aria-sort", i !== state.column ? "none" : state.down ? "descending" : "ascending"));
  };
  const heads = columns.map((column, i) => make("th", {scope: "col", class: column.text ? "text" : ""},
    make("button", {"data-key": `${name} ${column.title}`, onclick: () => {
      // Numbers are most often wanted from the highest.
      const first = rows.some(row => typeof row[i].value === "number");
      state.down = state.column === i ? !state.down : first;
      state.column = i;
      fill();
    }}, column.title)));
  fill();
  return make("div", {class: "scroll", "data-key": name}, make("table", {"data-table": name, class: wide ? "wide" : ""}, make("thead", {}, make("tr", {}, ...heads)), body));
}
sortableTable.states = {};

const textCell = text => ({text});
const figureCell = (figure, more) => ({text: figure.text, value: figure.value, more});
const nothing = {text: "–", value: null};

/** One run: a row for each figure. */
function resultsOfOne(run) {
  if (run.results.length === 0) return [];
  const {last, first} = run.results[0];
  const best = figure => figure.value === null ? nothing : figureCell(figure, ` epoch ${figure.epoch}`);
  return [sortableTable(
    [{title: "Validation"}, {title: `Last, epoch ${last.epoch}`}, {title: "Best"}, {title: `First, epoch ${first.epoch}`}],
    run.results.map(row => [textCell(row.title), figureCell(row.last), best(row.best), figureCell(row.first)]), "results")];
}

/** The state, with how the run went behind it. */
function stateCell({state, verdict: {word}}) {
  return {text: state || "–", value: `${state} ${word}`, more: word && ` ${word}`};
}

/** Several: a row for each run, a column for each figure. */
function resultsOfSeveral(runs) {
  const titles = [...new Set(runs.flatMap(run => run.results.map(row => row.title)))];
  const columns = ["Run", "State", "Steps", "Epochs", "Time", "Phase", "Alarms", ...titles]
    .map((title, i) => ({title, text: i === 1 || i === 5}));
  const number = value => ({text: value.toLocaleString("en-US"), value});
  return [sortableTable(columns, runs.map(run => [
    textCell(run.name), stateCell(run), number(run.step), number(run.epoch),
    {text: duration(run.seconds), value: run.seconds}, textCell(run.phase || "–"), number(run.alarms.length),
    ...titles.map(title => {
      const found = run.results.find(row => row.title === title);
      return found ? figureCell(found.last) : nothing;
    })]), "results")];
}

/** Settings that differ between the runs shown. */
function differingSettings(runs) {
  const known = runs.filter(run => Object.keys(run.settings).length > 0);
  if (known.length < 2) return [];
  const keys = [...new Set(known.flatMap(run => Object.keys(run.settings)))].sort();
  const differing = keys.filter(key => new Set(known.map(run => run.settings[key])).size > 1);
  if (differing.length === 0) return [make("p", {class: "quiet"}, "The runs have the same settings.")];
  const cell = text => {
    if (text === undefined) return nothing;
    return {text, value: text !== "" && Number.isFinite(Number(text)) ? Number(text) : text};
  };
  return [sortableTable([{title: "Run"}, ...differing.map(title => ({title, text: true}))],
    known.map(run => [textCell(run.name), ...differing.map(key => cell(run.settings[key]))]), "settings")];
}

const fewNotices = 4;

/** Children behind a line that opens them. */
function foldable(key, title, ...children) {
  return make("details", {"data-key": key}, make("summary", {"data-key": key + " title"}, title), ...children);
}

/** Many of them are behind a line that counts them. */
function folded(list, thing, kind) {
  if (list.length <= fewNotices) return list;
  const fold = foldable(kind, counted(list.length, thing), ...list);
  fold.className = kind;
  return [fold];
}

/** How a finished run went, where it is the only one shown; of several the table has the words. */
function verdictOfOne(runs) {
  const {word, text} = runs.length === 1 ? runs[0].verdict : {word: "", text: ""};
  if (!word) return [];
  return [make("p", {class: word === "fine" ? "facts" : word === "diverged" || word === "collapsed" ? "alarm" : "notice"},
    make("strong", {}, "Verdict: "), text)];
}

function alarmNotices(runs) {
  const name = run => runs.length > 1 ? run.name + ": " : "";
  return folded(runs.flatMap(run => run.alarms.map(alarm => make("p", {class: "alarm"},
    make("strong", {}, `${name(run)}Alarm, ${alarm.when}. `), alarm.text))), "alarm", "alarm");
}

function notices(runs, notes) {
  const texts = runs.flatMap(run => run.notices.map(text => (runs.length > 1 ? run.name + ": " : "") + text));
  return folded([...notes, ...texts].map(text => make("p", {class: "notice"}, text)), "note", "notice");
}

function phaseTable(runs) {
  const rows = runs.flatMap(run => run.phases.map(phase => [
    ...(runs.length > 1 ? [textCell(run.name)] : []), textCell(phase.name), {text: short(phase.epoch), value: phase.epoch},
    {text: phase.step.toLocaleString("en-US"), value: phase.step}, textCell(phase.reason)]));
  if (rows.length === 0) return [];
  const columns = [...(runs.length > 1 ? [{title: "Run"}] : []), {title: "Phase", text: runs.length > 1}, {title: "From epoch"},
    {title: "From step"}, {title: "Reason", text: true}];
  return [sortableTable(columns, rows, "phases")];
}

/** Histograms of the errors that train.check measured. */
function checkSection(run, several) {
  if (!run.checks) return [];
  const histogram = ({title, bars}) => {
    const highest = Math.max(1, ...bars.map(bar => bar.count));
    return make("div", {class: "chart"}, make("h4", {}, title), make("div", {class: "bars"}, ...bars.map(bar =>
      make("div", {title: `${bar.range}: ${bar.count}`}, make("span", {}, String(bar.count || "")),
        make("i", {style: `height:${Math.round(120 * bar.count / highest)}px`}), make("small", {}, bar.label)))));
  };
  return [make("p", {}, `${several ? run.name + ": " : ""}${counted(run.checks.count, "check")} of train.check: histograms of its errors.`),
    make("div", {class: "charts"}, ...run.checks.histograms.map(histogram))];
}

function configurations(runs) {
  const texts = runs.filter(run => run.config !== undefined);
  if (texts.length === 0) return [];
  if (texts.length === 1) return [foldable("configuration", "Configuration", make("pre", {}, texts[0].config))];
  return [foldable("configuration", "Configurations",
    ...texts.map(run => foldable("configuration of " + run.name, run.name, make("pre", {}, run.config))))];
}
