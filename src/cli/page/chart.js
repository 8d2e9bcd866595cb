// Curves, times and strips as SVG. Texts come in as text nodes only, looks from the style sheet.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const TIME_HEIGHT = 170; // px
const LABEL_LEAST = 17; // px between two labels
const TICK_HEIGHT = 28; // px of the labels below a chart
const HEAD_HEIGHT = 22; // px for the readout above it

// An element with attributes and children; a child that is no node becomes text.
function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {}))
    if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
const svg = (name, attributes, ...children) =>
  make(document.createElementNS(SVG, name), attributes, children);
const h = (name, attributes, ...children) =>
  make(document.createElement(name), attributes, children);

// Cuts a long name in its middle.
function cut(text, most) {
  const signs = [...text], half = Math.floor(most / 2);
  return signs.length <= most ? text :
    signs.slice(0, half).join("") + "…" + signs.slice(-half + 1).join("");
}

// --- scales ---

const linear = (least, most) => ({least, most, share: (v) => (v - least) / (most - least),
                                  value: (s) => least + s * (most - least)});
const logarithmic = (least, most) => ({
  least, most, share: (v) => Math.log(Math.max(v, least) / least) / Math.log(most / least),
  value: (s) => least * (most / least) ** s});

function evenTicks(least, most, count) {
  const rough = (most - least) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * power >= rough) * power;
  const ticks = [];
  for (let i = Math.ceil(least / step); i * step <= most * (1 + 1e-9); i++)
    ticks.push(i * step);
  return ticks;
}

// The less room a power of ten has, the fewer ticks it gets.
function logTicks(least, most, height) {
  const power10 = height / Math.log10(most / least), ticks = [];
  if (most / least <= 3)
    return evenTicks(least, most, height / 30);
  const steps = power10 < 70 ? [1] : power10 < 250 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
  for (let power = 10 ** Math.floor(Math.log10(least)); power <= most; power *= 10)
    ticks.push(...steps.map((step) => step * power).filter((v) => v >= least && v <= most));
  return ticks;
}

const round = (number) => parseFloat(number.toPrecision(6));

// Microseconds as text: "0.05 ms", "1.2 s".
function span(us) {
  if (us === null || us === undefined)
    return "–";
  if (us >= 999500)
    return `${round(+(us / 1e6).toPrecision(3))} s`;
  const ms = us / 1000;
  return `${ms < 10 ? +ms.toFixed(ms < 1 ? 3 : 2) : ms < 100 ? +ms.toFixed(1) : Math.round(ms)} ms`;
}

// A scale of latencies in us, with room beyond the values.
function latencyScale(values) {
  const known = values.filter((v) => v > 0);
  const least = known.reduce((a, b) => Math.min(a, b), Infinity);
  const most = known.reduce((a, b) => Math.max(a, b), 0);
  return known.length ? logarithmic(least / 1.15, most * 1.15) : logarithmic(100, 1000);
}

function latencyAxis(values, height) {
  const scale = latencyScale(values);
  return {scale, ticks: logTicks(scale.least, scale.most, height).map((v) => [v, span(round(v))])};
}

// --- the frame of a chart ---

// A panel with grid and axes; x(v) and y(v) are pixels. `label` is the room for names at the right.
function frame(width, height, {x, y, left = 64, label = 0, name}) {
  const right = width - Math.max(label, 12), top = HEAD_HEIGHT, bottom = top + height;
  const at = {left, right, top, bottom, width,
              x: (v) => left + x.scale.share(v) * (right - left),
              y: (v) => bottom - (y ? y.scale.share(v) : 0) * height};
  const whole = bottom + (x.ticks.length ? TICK_HEIGHT : 4);
  at.root = svg("svg", {viewBox: `0 0 ${width} ${whole}`, width, height: whole, role: "img",
                        "aria-label": name});
  const grid = svg("g", {class: "grid"}), ticks = svg("g", {class: "ticks"});
  for (const [value, text] of y?.ticks ?? []) {
    grid.append(svg("line", {x1: left, x2: right, y1: at.y(value), y2: at.y(value)}));
    ticks.append(svg("text", {x: left - 9, y: at.y(value) + 4, "text-anchor": "end"}, text));
  }
  let last = -Infinity;
  for (const [value, text] of x.ticks) {
    const place = at.x(value), half = text.length * 3.4 + 5;
    grid.append(svg("line", {x1: place, x2: place, y1: top, y2: bottom}));
    if (place - half < last || place + half > width + 4)
      continue;
    last = place + half;
    ticks.append(svg("text", {x: place, y: bottom + 20, "text-anchor": "middle"}, text));
  }
  at.root.append(grid, ticks);
  return at;
}

// Names at the right end of curves: [{name, look, x, y}] in pixels. Each is pushed away from the
// one below, and then all back from the top.
function labels(at, marks, most) {
  const sorted = marks.toSorted((a, b) => b.y - a.y);
  let limit = Infinity;
  for (const mark of sorted)
    limit = mark.label = Math.min(mark.y, limit - LABEL_LEAST);
  limit = at.top - LABEL_LEAST + 4;
  for (const mark of sorted.toReversed())
    limit = mark.label = Math.max(mark.label, limit + LABEL_LEAST);
  for (const {name, look, x, y, label} of sorted)
    at.root.append(
      x < at.right - 1 ? svg("line", {class: `lead ${look}`, x1: x, x2: at.right, y1: y, y2: y}) : "",
      svg("line", {class: `tie ${look}`, x1: at.right, x2: at.right + 18, y1: y, y2: label}),
      svg("text", {class: `name ${look}`, x: at.right + 23, y: label + 4}, cut(name, most)));
}

const path = (points) => points.map(([x, y], i) =>
  `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// Shows what `probe(value of x)` says of the place under the pointer.
function readout(at, scale, probe) {
  const line = svg("line", {class: "hair", y1: at.top, y2: at.bottom, visibility: "hidden"});
  const text = svg("text", {class: "readout", x: at.right, y: at.top - 8, "text-anchor": "end"});
  at.root.append(line, text);
  at.root.addEventListener("pointermove", (event) => {
    const box = at.root.getBoundingClientRect();
    const x = (event.clientX - box.left) * at.width / box.width;
    const inside = x >= at.left && x <= at.right;
    line.setAttribute("visibility", inside ? "visible" : "hidden");
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    text.textContent = inside ? probe(scale.value((x - at.left) / (at.right - at.left))) : "";
  });
  at.root.addEventListener("pointerleave", () => {
    line.setAttribute("visibility", "hidden");
    text.textContent = "";
  });
}

const labelRoom = (width, names) => {
  const most = width < 520 ? 12 : 26;
  const longest = Math.max(0, ...names.map((name) => Math.min([...name].length, most)));
  return {most, label: names.length ? 30 + longest * (width < 520 ? 6.6 : 7.2) : 0};
};

// --- percentiles ---

// [[cycles of which one takes longer, us], ...] of [[us, count], ...].
function steps(buckets) {
  const total = buckets.reduce((sum, [, count]) => sum + count, 0), points = [[1, buckets[0][0]]];
  let seen = 0, last = 0;
  for (const [us, count] of buckets) {
    seen += count;
    const x = seen < total ? total / (total - seen) : Math.max(total, 2);
    if (x < last * 1.01 && seen < total)
      continue;
    points.push([x, us]);
    last = x;
  }
  return points;
}

function percentileName(x) {
  const percent = 100 * (1 - 1 / x);
  return x <= 1 ? "least" : `p${+percent.toFixed(Math.max(0, Math.ceil(Math.log10(x)) - 2))}`;
}

// curves: [{name, look, buckets}], drawn in this order.
function percentileChart(width, curves, height, name) {
  const drawn = curves.filter(({buckets}) => buckets?.length)
    .map((curve) => ({...curve, points: steps(curve.buckets)}));
  const most = drawn.reduce((a, {points}) => Math.max(a, points.at(-1)[0]), 2);
  const ticks = [[1, "least"]];
  for (const x of [2, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9])
    if (x <= most)
      ticks.push([x, percentileName(x)]);
  const y = latencyAxis(drawn.flatMap(({points}) => [
    (points.find(([x]) => x > 1.01) ?? points[0])[1], points.at(-1)[1]]), height);
  const x = {scale: logarithmic(1, most), ticks}, room = labelRoom(width, drawn.map((c) => c.name));
  const at = frame(width, height, {x, y, name, label: room.label});
  for (const {look, points} of drawn) {
    let d = `M${at.x(1).toFixed(1)} ${at.y(points[0][1]).toFixed(1)}`;
    for (const [right, us] of points)
      d += `V${at.y(us).toFixed(1)}H${at.x(right).toFixed(1)}`;
    at.root.append(svg("path", {class: `curve ${look}`, d}));
  }
  labels(at, drawn.map(({name: text, look, points}) => ({
    name: text, look, x: at.x(points.at(-1)[0]), y: at.y(points.at(-1)[1])})), room.most);
  readout(at, x.scale, (value) => percentileName(value).replace(/(\.\d\d?).*/, "$1") + ": " +
    drawn.map(({name: text, points}) => cut(text, 18) + " " +
      span((points.find(([right]) => right >= value) ?? points.at(-1))[1]))
      .slice(width < 900 ? -1 : 0).join("  ·  "));
  return at.root;
}

// --- time ---

// time: {from, until, text(v), ticks}; in ms.
const timeAxis = (time, width) => ({scale: linear(time.from, time.until), ticks: time.ticks(width)});

// Runs of slots with a value; one without a value ends a run, unless it has no cycle at all.
function runs(slots, value) {
  const found = [];
  let open = null;
  slots.forEach((slot, i) => {
    const v = value(slot);
    if (v !== null && v !== undefined) {
      open ?? found.push(open = []);
      open.push([i, v]);
    } else if (slot.count + slot.failed > 0) {
      open = null;
    }
  });
  return found;
}

// Pixels of a run: it covers all of its first and its last slot, and never too little to see.
function stretched(run, at, time, y) {
  const left = Math.min(at.x(time.at(run[0][0])), at.right - 3);
  const right = Math.max(at.x(time.at(run.at(-1)[0] + 1)), left + 3);
  return [[left, y(run[0][1])], ...run.map(([i, v]) => [at.x(time.at(i + 0.5)), y(v)])
    .filter(([x]) => x > left && x < right), [right, y(run.at(-1)[1])]];
}

// curves: [{name, look, value(slot), band: from the first curve's value up to this}].
function timeChart(width, slots, time, curves, {y, name, failures, text = span}) {
  const values = curves.flatMap(({value}) => slots.map(value));
  const shown = curves.filter(({value}) => slots.some((slot) => (value(slot) ?? null) !== null));
  const room = labelRoom(width, curves.map((c) => c.name)), x = timeAxis(time, width);
  y ??= latencyAxis(values, TIME_HEIGHT);
  const at = frame(width, TIME_HEIGHT, {x, y, name, label: room.label}), marks = [];
  const floor = curves[0].value;
  for (const {value, look, band, name: label} of shown) {
    const found = runs(slots, value);
    for (const run of found) {
      const line = stretched(run, at, time, at.y);
      const base = band && stretched(run.map(([i]) => [i, floor(slots[i])]), at, time, at.y);
      at.root.append(svg("path", band ? {class: `band ${look}`, d: `${path(line)}L${
        path(base.toReversed()).slice(1)}Z`} : {class: `curve ${look}`, d: path(line)}));
    }
    const [i, v] = found.at(-1).at(-1);
    marks.push({name: label, look, x: at.x(time.at(i + 1)), y: at.y(v)});
  }
  for (const [i, slot] of slots.entries())
    if (failures && slot.failed > 0)
      at.root.append(svg("circle", {class: "failed", r: 2.5, cx: at.x(time.at(i + 0.5)),
                                    cy: at.top + 7}));
  labels(at, marks, room.most);
  readout(at, x.scale, (value) => {
    const slot = slots[time.index(value)];
    return slot ? [time.text(value), ...shown.map((curve) => `${cut(curve.name, 18)} ${
      text(curve.value(slot))}`).slice(0, width < 520 ? 2 : 9), failures && slot.failed ?
      `${slot.failed} not held` : null].filter(Boolean).join("  ·  ") : "";
  });
  return at.root;
}

// --- strips ---

// rows: [{name, look, states: [class per slot, or null]}]; equal neighbours are one box.
function stripChart(width, rows, time, name) {
  const room = labelRoom(width, rows.map((row) => row.name)), line = 20;
  const at = frame(width, rows.length * line,
                   {x: timeAxis(time, width), name, label: room.label});
  rows.forEach(({name: text, look, states}, row) => {
    const y = at.top + row * line + 3, height = line - 6;
    for (let from = 0, until; from < states.length; from = until) {
      for (until = from + 1; until < states.length && states[until] === states[from];)
        until++;
      const left = at.x(time.at(from)), right = at.x(time.at(until));
      if (states[from])
        at.root.append(svg("rect", {class: `state ${states[from]}`, x: left, y, height,
                                    width: Math.max(right - left, 1)}));
    }
    at.root.append(svg("text", {class: `name ${look}`, x: at.right + 23, y: y + 11},
                       cut(text, room.most)));
  });
  return at.root;
}

// A small line without axes; null breaks it.
function sparkline(values, scale, look, name) {
  const width = 140, height = 26;
  const root = svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, class: "spark",
                           role: "img", "aria-label": name});
  let d = "", pen = "M";
  values.forEach((v, i) => {
    const x = 1 + i * (width - 2) / Math.max(values.length - 1, 1);
    if (v !== null)
      d += `${pen}${x.toFixed(1)} ${(height - 2 - scale.share(v) * (height - 4)).toFixed(1)}`;
    pen = v === null ? "M" : "L";
  });
  root.append(svg("path", {class: `curve ${look}`, d}));
  return root;
}

// Each row: a dot for `now`, one for `then`, on one axis of latency.
function pairChart(width, rows, name) {
  const line = 30, y0 = HEAD_HEIGHT;
  const x = latencyAxis(rows.flatMap(({now, then}) => [now, then]), width / 2.5);
  const at = frame(width, rows.length * line, {x, name, left: 64});
  rows.forEach(({name: text, now, then}, row) => {
    const y = y0 + row * line + line / 2;
    at.root.append(svg("text", {x: at.left - 9, y: y + 4, "text-anchor": "end"}, text));
    if (now > 0 && then > 0)
      at.root.append(svg("line", {class: "tie ink", x1: at.x(now), x2: at.x(then), y1: y, y2: y}));
    for (const [look, us] of [["now", now], ["then", then]])
      if (us > 0)
        at.root.append(svg("circle", {class: `dot ${look}`, cx: at.x(us), cy: y,
                                      r: look === "now" ? 4 : 5}));
  });
  return at.root;
}
