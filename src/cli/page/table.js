// Texts, tables and the charts of a page, for all its sections.

const byId = (id) => document.getElementById(id);

// --- texts ---

const number = (n) => n === null || n === undefined ? "–" : n.toLocaleString("en-US");
const timeOfDay = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const day = (ms) => new Date(ms).toLocaleDateString("sv-SE"); // YYYY-MM-DD
const clock = (ms) => (day(ms) === day(Date.now()) ? "" : `${day(ms)} `) + timeOfDay(ms);
const iso = (ms) => new Date(ms).toISOString();
const plural = (n, one) => `${number(n)} ${one}${n === 1 ? "" : "s"}`;

function percent(share) {
  const digits = share > 0.98 && share < 1 ? 2 : 1;
  if (share > 0 && share < 0.0005)
    return "< 0.1 %";
  return share === 0 ? "0 %" : `${(100 * share).toFixed(digits)} %`;
}

// "3 min 20 s"
function lasting(ms) {
  if (ms === null || ms === undefined)
    return "–";
  const s = Math.max(ms, 0) / 1000;
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => s >= size);
  if (first < 0 || first === 3)
    return s < 10 ? `${s.toFixed(1)} s` : `${Math.floor(s)} s`;
  const [size, unit] = parts[first], [next, small] = parts[first + 1];
  return `${Math.floor(s / size)} ${unit} ${Math.floor(s % size / next)} ${small}`;
}

// Texts of others: what would be invisible, or would turn what is beside it.
const visible = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) =>
  `\\u{${c.codePointAt(0).toString(16)}}`);

// The cells of a table of latencies, in ms; small ones get more digits.
function inMs(figures) {
  const least = Math.min(...figures.map((one) => one?.p50_us ?? Infinity));
  const digits = least < 2000 ? 3 : least < 20000 ? 2 : 1;
  return (us) => us === null || us === undefined ? "–" : (us / 1000).toFixed(digits);
}

// Names of nodes without their scheme; a socket without its folder, if that tells them apart.
function namesOf(nodes) {
  const whole = nodes.map(({uri}) => uri.replace(/^\w+:\/\//, ""));
  const base = whole.map((name) => name.replace(/^\/.*\//, ""));
  return new Set(base).size === base.length ? base : whole;
}
const lookOf = (i) => `n${i % 8}${i >= 8 ? " more" : ""}`;

// --- tables: cells are texts, [class, text, small text, title], or elements ---

function setText(element, text) {
  if (element.textContent !== text)
    element.textContent = text;
}

function setCell(cell, spec, head) {
  const [look, text, small, title = ""] = Array.isArray(spec) ? spec : ["", spec];
  if (spec instanceof Element) {
    if (spec.parentNode !== cell)
      cell.replaceChildren(spec);
  } else if (small) {
    if (cell.textContent !== text + small)
      cell.replaceChildren(text, h("small", {}, small));
  } else {
    setText(cell, text ?? "");
  }
  if (cell.className !== look)
    cell.className = look;
  if (cell.title !== title)
    cell.title = title;
  if (cell.tagName === "TD")
    cell.dataset.head = head;
}

// heads: [text, class, key to sort by]; an unchanged cell is not touched, so that it can be selected.
function fill(table, heads, rows, sort) {
  if (!table.tHead)
    table.append(h("thead", {}, h("tr", {role: "row"}, ...heads.map(([text, look, key]) =>
      h("th", {scope: "col", role: "columnheader", class: look, "data-key": key},
        key ? h("button", {type: "button"}, text) : text)))), h("tbody", {role: "rowgroup"}));
  for (const head of sort ? table.tHead.rows[0].cells : [])
    if (head.dataset.key === sort.key)
      head.setAttribute("aria-sort", sort.desc ? "descending" : "ascending");
    else
      head.removeAttribute("aria-sort");
  const body = table.tBodies[0];
  while (body.rows.length > rows.length)
    body.lastChild.remove();
  rows.forEach(({cells, look = ""}, i) => {
    const row = body.rows[i] ?? body.appendChild(h("tr", {role: "row"}, ...heads.map((_, column) =>
      column ? h("td", {role: "cell"}) : h("th", {scope: "row", role: "rowheader"}))));
    row.className = look;
    cells.forEach((spec, column) => {
      const [head, kind] = heads[column];
      const own = Array.isArray(spec) ? spec : [kind ?? "", spec];
      setCell(row.cells[column], spec instanceof Element ? spec : own, head);
    });
  });
}

function fillList(list, pairs) {
  if (list.children.length !== pairs.length)
    list.replaceChildren(...pairs.map(([name]) => h("div", {}, h("dt", {}, name), h("dd", {}))));
  pairs.forEach(([name, text, look], i) => {
    setText(list.children[i].firstChild, name);
    setText(list.children[i].lastChild, text);
    list.children[i].lastChild.className = look ?? "";
  });
}

// --- charts: drawn again when their width changes ---

const draws = new Map();
const sizes = new ResizeObserver((entries) => entries.forEach(({target}) => redraw(target)));

function redraw(figure) {
  const width = Math.floor(figure.clientWidth);
  if (width > 0 && draws.has(figure)) {
    figure.querySelector("svg")?.remove();
    figure.append(draws.get(figure)(width));
  }
}

function chart(id, draw) {
  const figure = byId(id);
  draws.set(figure, draw);
  sizes.observe(figure);
  redraw(figure);
}

// The time of a timeline: wall clock if it has one, or seconds of the run.
function timeOf(data) {
  const {interval_ms: interval, slots} = data.timeline, from = data.began_at_ms ?? 0;
  const isClock = data.began_at_ms !== undefined, until = from + Math.max(slots.length, 1) * interval;
  const shift = isClock ? new Date(from).getTimezoneOffset() * 60000 : 0;
  const seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
                   43200, 86400];
  const ticks = (width) => {
    const count = Math.max(2, Math.floor(width / 130));
    if (!isClock)
      return evenTicks(0, until, count).map((ms) => [ms, `${round(ms / 1000)} s`]);
    const step = 1000 * (seconds.find((s) => (until - from) / (s * 1000) <= count) ?? 86400);
    const found = [];
    for (let ms = Math.ceil((from - shift) / step) * step + shift; ms <= until; ms += step)
      found.push([ms, step < 60000 ? timeOfDay(ms) : timeOfDay(ms).slice(0, 5)]);
    return found;
  };
  return {from, until, ticks, at: (i) => from + i * interval,
          index: (ms) => Math.min(Math.floor((ms - from) / interval), slots.length - 1),
          text: (ms) => isClock ? clock(ms) : `${round(+((ms) / 1000).toPrecision(3))} s`};
}
