// `nsvq watch`: data that the page fetches, and fetches again while runs go on.

const pause = 3000;

async function fetchJson(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${response.status}`);
  return response.json();
}

async function loadCodes(run) {
  try {
    const codes = await fetchJson("codes?run=" + encodeURIComponent(run.name));
    if (codes.no_codes) run.no_codes = codes.no_codes; else run.codes = codes;
  } catch {
    run.no_codes = "The server does not answer.";
  }
}

/** Fetches the runs that have changed; each is shown as it comes. */
async function followRuns(status) {
  const list = await fetchJson("runs");
  const names = new Set(list.map(entry => entry.name));
  const gone = page.runs.filter(run => !names.has(run.name));
  if (gone.length > 0) {
    page.runs = page.runs.filter(run => names.has(run.name));
    showData();
  }
  const changed = list.filter(entry => !page.runs.some(run => run.name === entry.name && run.version === entry.version));
  let left = changed.length;
  for (const entry of changed) {
    if (left > 3) status.textContent = `reading ${counted(left, "run")}`;
    const run = await fetchJson("run?run=" + encodeURIComponent(entry.name)).catch(() => null);
    --left;
    if (!run) continue;
    const at = page.runs.findIndex(one => one.name === run.name);
    if (at < 0) page.runs.push(run);
    else {
      // A codebook that was asked for stays until it is asked for anew.
      run.codes = page.runs[at].codes;
      page.runs[at] = run;
    }
    page.runs.sort((a, b) => a.name.localeCompare(b.name, "en", {numeric: true}));
    if (left === 0 || left % 10 === 0) showData();
  }
  const running = page.runs.filter(run => run.state === "running").length;
  status.textContent = page.runs.length === 0 ? "no runs yet" : `${counted(page.runs.length, "run")}, ${running} going on`;
}

async function follow(status) {
  for (;;) {
    // A page that nobody sees asks for nothing.
    if (!document.hidden) await followRuns(status).catch(() => { status.textContent = "nsvq watch does not answer; trying again"; });
    await new Promise(resolve => setTimeout(resolve, pause));
  }
}
