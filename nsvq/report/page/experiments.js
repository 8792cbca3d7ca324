// What came out of experiments (nsvq reproduce): table, charts, claims, pictures.

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
  return [make("h3", {}, "Claims of the paper"), make("ul", {class: "claims"}, ...experiment.claims.map(claim =>
    make("li", {class: mark[claim.verdict] || "untested"}, claim.text + ": ", make("strong", {}, claim.verdict),
      claim.why ? make("small", {}, claim.why) : null)))];
}

/** The program has drawn it, with all text of others escaped. */
function drawnChart(svg) {
  const place = make("div", {class: "drawn"});
  place.innerHTML = svg;
  return place;
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
    ...experimentTable(experiment),
    agreement ? make("p", {class: "quiet"}, "Rank correlation of our order of the rows with the paper's: " + agreement) : null,
    ...experiment.notes.map(text => make("p", {class: "quiet"}, text)),
    ...experimentClaims(experiment),
    make("div", {class: "charts"}, ...experiment.charts.map(drawnChart)),
    ...experimentPictures(experiment));
}
