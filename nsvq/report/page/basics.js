// Elements, numbers, colours, and what the user has chosen.

/** An element; children are elements or text, which never becomes markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

/** Replaces an element's children. What has a `data-key` stays open, scrolled and in focus; no DOM change if the markup is equal. */
function refill(element, children) {
  const keyed = parent => [...parent.querySelectorAll("[data-key]")];
  const before = new Map(keyed(element).map(one => [one.dataset.key,
    {open: one.open, top: one.scrollTop, left: one.scrollLeft, focused: one === document.activeElement}]));
  const fresh = element.cloneNode(false);
  fresh.append(...children);
  const again = keyed(fresh).filter(one => before.has(one.dataset.key));
  for (const one of again) if (before.get(one.dataset.key).open) one.open = true;
  // Equal markup does not mean equal inputs and pictures.
  if (!fresh.querySelector("input, select, canvas") && fresh.isEqualNode(element)) return;
  element.replaceChildren(...fresh.childNodes);
  for (const one of again) {
    const {top, left, focused} = before.get(one.dataset.key);
    one.scrollTo(left, top);
    if (focused) one.focus({preventScroll: true});
  }
}

/** What the page shows, and how. */
const page = {
  runs: [],          // data of page_data.cpp, each with `color`, a number
  topics: [],        // headings of curves, in order
  notes: [],         // about the folder
  hidden: new Set(), // names of runs that are switched off
  filter: "",
  x: "step",         // step, epoch or time
  y: "auto",         // auto, linear or log
  smooth: 0,
  zoom: null,        // [low, high] of the x axis of all charts
  epoch: null,       // whose pictures are shown; null: the last
  live: false,
};

const shownRuns = () => page.runs.filter(run => !page.hidden.has(run.name));

const kept = ["x", "y", "smooth", "zoom", "epoch"];
const keptAt = "nsvq " + location.pathname;  // each page has its own

/** Keeps the choices for when the page loads itself again. */
function rememberChoices() {
  try {
    sessionStorage.setItem(keptAt, JSON.stringify(Object.fromEntries(kept.map(key => [key, page[key]]))));
  } catch { /* storage may be switched off */ }
}

function recallChoices() {
  try {
    const stored = JSON.parse(sessionStorage.getItem(keptAt)) || {};
    for (const key of kept) if (key in stored) page[key] = stored[key];
  } catch { /* storage may be switched off */ }
}

/** Four digits or so, with a power of ten where the number is very large or small. */
function short(value, digits = 4) {
  if (value === null || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(digits - 2).replace("e+", "e");
  if (size < 1000) return String(Number(value.toPrecision(digits)));
  return value.toLocaleString("en-US", {maximumFractionDigits: Math.max(0, digits - 1 - Math.floor(Math.log10(size)))});
}

function duration(seconds) {
  if (seconds < 100) return short(seconds) + " s";
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const counted = (number, thing) => `${number.toLocaleString("en-US")} ${thing}${number === 1 ? "" : "s"}`;

const isDark = () => document.documentElement.dataset.theme === "dark";

const styleColor = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

/** Eight colours that everyone can tell apart (page.css), then hues as far apart as possible. */
function color(number) {
  if (number < 8) return styleColor("c" + number);
  return `hsl(${(number * 137.5) % 360} 60% ${isDark() ? 65 : 42}%)`;
}

/** A canvas whose drawing is sharp on this screen; the context's units are CSS pixels. */
function sizeCanvas(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return context;
}
