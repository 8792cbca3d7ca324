// Axes: ticks, and the epoch and time of a step.

/** Multiples of a step from low to high. */
function multiples(low, high, step, count) {
  const ticks = [], first = Math.ceil(low / step - 1e-9);
  // Counted, since a step may be lost beside a large number.
  for (let i = 0; i <= 2 * count + 2 && (first + i) * step <= high + step * 1e-9; ++i) ticks.push((first + i) * step);
  return ticks;
}

/** Round numbers from low to high, about `count` of them. */
function linearTicks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(size => size >= rough * 0.999);
  return multiples(low, high, step, count);
}

const minute = 60, hour = 3600, day = 86400;
const timeSteps = [1, 2, 5, 10, 15, 30, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute,
  hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day];

/** Round numbers of seconds, minutes or hours. */
function timeTicks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  if (rough < 1) return linearTicks(low, high, count);
  const step = timeSteps.find(size => size >= rough * 0.999);
  return step ? multiples(low, high, step, count) : linearTicks(low / day, high / day, count).map(tick => tick * day);
}

function timeText(value) {
  const exact = number => Math.round(number * 1e6) / 1e6, seconds = exact(value);
  const units = [[Math.floor(seconds / hour), "h"], [Math.floor(seconds % hour / minute), "min"], [exact(seconds % minute), "s"]];
  return units.filter(([number]) => number > 0).map(([number, unit]) => `${number} ${unit}`).join(" ") || "0";
}

/** Powers of ten or, where there are few, also their doubles and fivefolds. */
function logTicks(low, high, count) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil((last - first) / count));
  const factors = last - first <= 2 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = first; power <= last; power += every)
    for (const factor of factors) ticks.push(factor * 10 ** power);
  const inside = ticks.filter(tick => tick >= low * 0.999 && tick <= high * 1.001);
  return inside.length >= 2 ? inside : linearTicks(low, high, count).filter(tick => tick > 0);
}

/** Numbers of an axis, with as many digits as their distance asks for. */
function tickTexts(ticks) {
  const least = Math.min(...ticks.slice(1).map((tick, i) => tick - ticks[i]));
  const exact = digits => ticks.every(tick => Math.abs(Number(tick.toPrecision(digits)) - tick) < 1e-3 * least);
  let digits = 4;
  while (digits < 16 && !exact(digits - 1)) ++digits;  // one less: short() writes powers of ten with one digit less
  return ticks.map(tick => short(tick, digits));
}

const ticksOf = ({low, high, log}, count) => log ? logTicks(low, high, count) : linearTicks(low, high, count);

/** The last index of a rising list whose number is at most `value`; at least 0. */
function indexIn(list, value) {
  let low = 0, high = list.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (list[middle] <= value) low = middle; else high = middle;
  }
  return low;
}

/** Where a step of a run is on the x axis in use: in proportion between the ends of two epochs, extrapolated after the last. */
function onX(run, step) {
  if (page.x === "step") return step;
  const steps = run.clock.step, ends = run.clock[page.x];
  if (steps.length < 2) return null;
  const i = Math.min(indexIn(steps, step), steps.length - 2);
  return ends[i] + (step - steps[i]) * (ends[i + 1] - ends[i]) / (steps[i + 1] - steps[i]);
}

const xText = value => page.x === "time" ? duration(value)
  : page.x === "epoch" ? "epoch " + short(value) : "step " + Math.round(value).toLocaleString("en-US");

/** From values to pixels and back. */
function axis(low, high, from, to, log) {
  const [a, b] = log ? [Math.log(low), Math.log(high)] : [low, high];
  return {
    low, high, log,
    pixel: value => from + ((log ? Math.log(value) : value) - a) / (b - a) * (to - from),
    value: pixel => {
      const inside = a + (pixel - from) / (to - from) * (b - a);
      return log ? Math.exp(inside) : inside;
    },
  };
}
