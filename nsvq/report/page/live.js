// `nsvq watch`: data that the page fetches, and fetches again while runs go on.

const pause = 3000;  // milliseconds between two requests for the list of runs; more where fetching takes long

async function fetchJson(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${response.status}`);
  return response.json();
}

async function loadCodes({name}) {
  const answer = await fetchJson("codes?run=" + encodeURIComponent(name)).catch(() => ({no_codes: "The server does not answer."}));
  // The run may have been fetched anew meanwhile.
  const run = page.runs.find(one => one.name === name);
  if (run) Object.assign(run, answer.no_codes ? {codes: null, no_codes: answer.no_codes} : {codes: answer, no_codes: ""});
}

/** Adds a run that was fetched, or replaces an older state of it. */
function takeRun(run) {
  for (const picture of run.pictures) {
    picture.source = `picture?run=${encodeURIComponent(run.name)}&epoch=${picture.epoch}&version=${picture.version}`;
  }
  const index = page.runs.findIndex(one => one.name === run.name);
  if (index < 0) page.runs.push(run);
  else {
    // A codebook that was asked for stays until it is asked for anew, unless another run has taken the name.
    const former = page.runs[index];
    if (former.began === run.began && former.step <= run.step) run.codes = former.codes;
    page.runs[index] = run;
  }
  page.runs.sort((a, b) => a.name.localeCompare(b.name, "en", {numeric: true}));
}

/** Fetches the runs that have changed and shows them as they come, twice a second. */
async function followRuns(status) {
  const {runs: list, notes} = await fetchJson("runs");
  const left = page.runs.filter(run => list.some(entry => entry.name === run.name));
  let stale = left.length < page.runs.length || notes.join() !== page.notes.join();
  page.notes = notes;
  page.runs = left;
  const changed = list.filter(entry => !left.some(run => run.name === entry.name && run.version === entry.version));
  const show = () => {
    if (stale) showData();
    stale = false;
  };
  if (changed.length > 3) status.textContent = `reading ${counted(changed.length, "run")}`;
  const timer = setInterval(show, 500);
  await Promise.all(changed.map(async ({name}) => {  // the browser sends a few at a time
    const run = await fetchJson("run?run=" + encodeURIComponent(name)).catch(() => null);
    if (!run) return;
    takeRun(run);
    stale = true;
  }));
  clearInterval(timer);
  show();
  const running = page.runs.filter(run => run.state === "running").length;
  status.textContent = page.runs.length === 0 ? (notes.length > 0 ? "no runs to show" : "no runs yet") : `${counted(page.runs.length, "run")}, ${running} going on`;
}

async function follow(status) {
  for (;;) {
    const start = Date.now();
    // A page that nobody sees asks for nothing.
    if (!document.hidden) await followRuns(status).catch(() => { status.textContent = "nsvq watch does not answer; trying again"; });
    await new Promise(resolve => setTimeout(resolve, Math.max(pause, 4 * (Date.now() - start))));
  }
}
