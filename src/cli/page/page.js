// Sections of the page: live from /api/..., or from the data of a run that stand in the page.

const given = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const LATENCY_MS = 5000, LOCKS_MS = 2000, WHATIF_MS = 10000; // between two requests
const ANSWER_MS = 4000; // the monitor does not answer if it takes longer
const PAGE = 100; // rows of locks
const RTT_LEAST = 0.02, RTT_MOST = 400, RTT_STEPS = 1000; // of a slider, ms
const RANGES = [[60, "minute"], [600, "10 minutes"], [3600, "hour"], [6 * 3600, "6 hours"],
                [24 * 3600, "24 hours"]];

// --- texts ---

const number = (n) => n === null || n === undefined ? "–" : n.toLocaleString("en-US");
const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const plural = (n, one) => `${number(n)} ${one}${n === 1 ? "" : "s"}`;
const percent = (share) => `${share > 0 && share < 0.0005 ? "< 0.1" : round(+(100 * share).toFixed(share > 0.98 && share < 1 ? 2 : 1))} %`;

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

// The cells of a table of latencies, in ms; small ones get more digits.
function inMs(figures) {
  const least = Math.min(...figures.map((one) => one?.p50_us ?? Infinity));
  const digits = least < 2000 ? 3 : least < 20000 ? 2 : 1;
  return (us) => us === null || us === undefined ? "–" : (us / 1000).toFixed(digits);
}

// Names of nodes without their scheme; a socket without its folder, if that tells them apart.
function namesOf(nodes) {
  const whole = nodes.map(({uri}) => uri.replace(/^\w+:\/\//, ""));
  const base = whole.map((name) => name.startsWith("/") ? name.slice(name.lastIndexOf("/") + 1) : name);
  return new Set(base).size === base.length ? base : whole;
}
const lookOf = (i) => `n${i % 8}${i >= 8 ? " more" : ""}`;

// --- tables: cells are texts, [class, text, small text], or elements ---

function setText(element, text) {
  if (element.textContent !== text)
    element.textContent = text;
}

function setCell(cell, spec, head) {
  const [look, text, small] = Array.isArray(spec) ? spec : ["", spec];
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
  const seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  const ticks = (width) => {
    const count = Math.max(2, Math.floor(width / 130));
    if (!isClock)
      return evenTicks(0, until, count).map((ms) => [ms, `${round(ms / 1000)} s`]);
    const step = 1000 * (seconds.find((s) => (until - from) / (s * 1000) <= count) ?? 86400);
    const found = [];
    for (let ms = Math.ceil((from - shift) / step) * step + shift; ms <= until; ms += step)
      found.push([ms, step < 60000 ? clock(ms) : clock(ms).slice(0, 5)]);
    return found;
  };
  return {from, until, ticks, at: (i) => from + i * interval,
          index: (ms) => Math.min(Math.floor((ms - from) / interval), slots.length - 1),
          text: (ms) => isClock ? clock(ms) : `${round(+((ms) / 1000).toPrecision(3))} s`};
}

// --- nodes ---

const SEVERITIES = ["defect", "warning"];
const severityLook = (severity) => severity === "defect" ? "bad" : severity === "warning" ? "warn" : "";

function findingsCell(findings) {
  const count = (severity) => findings.filter((one) => one.severity === severity).length;
  const text = SEVERITIES.filter(count).map((one) => plural(count(one), one)).join(", ");
  return [count("defect") ? "bad" : count("warning") ? "warn" : "", text || "none"];
}

// The same finding of several nodes is shown once.
function showFindings(nodes, names) {
  const found = new Map();
  nodes.forEach((node, i) => (node.findings ?? []).forEach((one) => {
    const key = JSON.stringify([one.severity, one.text]);
    found.set(key, found.get(key) ?? {...one, details: new Map()});
    const {details} = found.get(key);
    details.set(one.detail ?? "", [...details.get(one.detail ?? "") ?? [], names[i]]);
  }));
  const rank = ({severity}) => (SEVERITIES.indexOf(severity) + 3) % 3;
  const rows = [...found.values()].sort((a, b) => rank(a) - rank(b));
  const text = JSON.stringify(rows.map(({severity, text: what, details}) => [severity, what, ...details]));
  if (showFindings.last === text)
    return;
  showFindings.last = text;
  byId("findings").replaceChildren(...rows.map(({severity, text: what, details}) => h("li", {},
    h("b", {class: severityLook(severity)}, severity), what,
    ...[...details].map(([detail, on]) => h("small", {},
      `${on.length === nodes.length ? "all nodes" : on.join(", ")}${detail ? `: ${detail}` : ""}`)))));
}

const NODE_HEADS = [["Node"], ["State"], ["Votes"], ["Round trip", "number"], ["Over time"],
                    ["Clock", "number"], ["Version"], ["Findings"]];

function stateCell({connected, votes, state, text}) {
  const isQuiet = connected && votes;
  return [isQuiet ? "good" : connected ? "warn" : "bad", isQuiet ? "votes" : state, text ?? ""];
}

const clockCell = ({offset_us: at, offset_err_us: error}) => at === null || at === undefined ? "–" :
  `${at > 49 ? "+" : at < -49 ? "−" : ""}${(Math.abs(at) / 1000).toFixed(1)} ± ${(error / 1000).toFixed(1)} ms`;

const sparks = new Map(); // by the index of the node

function showNodes({nodes, votes_fenced: fenced}) {
  const names = namesOf(nodes), ms = inMs(nodes.map(({round_trip_us: us}) => ({p50_us: us ?? Infinity})));
  fill(byId("nodes-table"), NODE_HEADS, nodes.map((node, i) => ({cells: [
    names[i], stateCell(node),
    (node.votes ? "plain" : "none") + (fenced === null ? "" : node.votes_fenced ? " and fenced" : node.votes ? " only" : ""),
    node.round_trip_us === null ? "–" : `${ms(node.round_trip_us)} ms`, sparks.get(i) ?? h("span"), clockCell(node), node.version ?? "–",
    findingsCell(node.findings ?? [])]})));
  showFindings(nodes, names);
}

function showSparks({timeline: {slots}, nodes}) {
  const names = namesOf(nodes), cycles = slots.filter((slot) => slot.count + slot.failed > 0);
  const lines = nodes.map((_, i) => cycles.map((slot) => slot.nodes[i]?.mean_us ?? null));
  const scale = latencyScale(lines.flat()); // one for all, so that they can be compared
  lines.forEach((values, i) => sparks.set(i, sparkline(values, scale, lookOf(i),
                                                       `round trip of ${names[i]} over time`)));
}

function showRunNodes({nodes, cycles}) {
  const names = namesOf(nodes);
  const heads = [["Node"], ["State"], ["Granted", "number"], ["Not granted", "number"], ["No grant for", "number"],
                 ["Longest", "number"]];
  fill(byId("nodes-table"), heads, nodes.map((node, i) => ({cells: [
    names[i], node.fault ? node.granted ? ["warn", "failed at times", node.fault] : ["bad", "never granted", node.fault] : ["good", "granted all"],
    number(node.granted), number(cycles - node.granted - node.ready),
    node.failing_ms ? lasting(node.failing_ms) : "–", node.failing_ms ? lasting(node.failing_longest_ms) : "–"]})));
}

// --- the quorum ---

const stateOf = (slot, i, before) => slot.count + slot.failed === 0 ? before :
  slot.silent[i] ? "silent" : slot.other[i] ? "other" : "granted";

function strip(slots, i) {
  let state = null;
  return slots.map((slot) => state = stateOf(slot, i, state));
}

function showCurves(data, names) {
  const {distributions, nodes, quorum} = data;
  chart("percentiles", (width) => percentileChart(width, [
    ...nodes.map((_, i) => ({name: names[i], look: lookOf(i), buckets: distributions.nodes[i]})),
    {name: `${ordinal(quorum)} grant`, look: "pale", buckets: distributions.qth},
    {name: width < 520 ? "the lock" : `the lock: ${quorum} of ${nodes.length}`, look: "ink", buckets: distributions.acquire}],
    width < 520 ? 300 : 400, "Percentiles of the time until the lock is held, and of each node's grant"));
}

const ordinal = (n) => `${n}${["th", "st", "nd", "rd"][n % 100 > 10 && n % 100 < 14 ? 0 : n % 10] ?? "th"}`;

// The band below the slowest, then the one below the p99, then the median.
const bands = (of) => [
  {name: "p50", look: "ink", value: (slot) => of(slot)?.p50_us ?? null},
  {name: "slowest", look: "pale", band: true, value: (slot) => of(slot)?.max_us ?? null},
  {name: "p99", look: "deep", band: true, value: (slot) => of(slot)?.p99_us ?? null}];

function showTimes(data, names) {
  const {timeline: {slots}, nodes, quorum} = data, time = timeOf(data);
  const hasReleases = slots.some((slot) => slot.release), hasNodes = slots.some((slot) => slot.nodes);
  const failed = slots.some((slot) => slot.failed > 0);
  document.querySelector("#acquires .key").hidden = !failed;
  const acquire = bands((slot) => slot), release = bands((slot) => slot.release);
  const y = latencyAxis(slots.flatMap((slot) => [slot.p50_us, slot.max_us, slot.release?.p50_us ?? 0,
                                                 slot.release?.max_us ?? 0]), TIME_HEIGHT);
  chart("acquires", (width) => timeChart(width, slots, time, acquire,
    {name: "Time to acquire, over time", failures: true, y}));
  chart("releases", (width) => timeChart(width, slots, time, release, {name: "Time to release, over time", y}));
  chart("times", (width) => timeChart(width, slots, time, [
    ...nodes.map((_, i) => ({name: names[i], look: lookOf(i), value: (slot) => slot.nodes?.[i]?.mean_us ?? null})),
    {name: `${ordinal(quorum)} grant`, look: "ink", value: (slot) => slot.qth?.mean_us ?? null}],
    {name: "Mean time of each node's grant, over time"}));
  const least = Math.min(...slots.map((slot) => slot.valid_least_ms ?? Infinity), data.ttl_ms);
  const axis = {scale: linear(least > data.ttl_ms * 0.9 ? data.ttl_ms * 0.9 : 0, data.ttl_ms)};
  axis.ticks = evenTicks(axis.scale.least, axis.scale.most, 4).map((v) => [v, span(v * 1000)]);
  chart("validity", (width) => timeChart(width, slots, time, [
    {name: "least", look: "ink", value: (slot) => slot.valid_least_ms ?? null}],
    {name: "Validity left when the lock is held, over time", y: axis, text: (ms) => span(ms * 1000)}));
  byId("releases").hidden = !hasReleases;
  byId("times").hidden = byId("validity").hidden = !hasNodes;
  const silent = nodes.map((_, i) => i).filter((i) => slots.some((slot) => slot.silent[i] || slot.other[i]));
  byId("strips").hidden = !silent.length;
  chart("strips", (width) => stripChart(width, silent.map((i) => ({
    name: names[i], look: lookOf(i), states: strip(slots, i)})), time, "Nodes that did not grant, over time"));
}

const LATENCY_HEADS = [["P50", "number"], ["P90", "number wide-only"], ["P99", "number"],
                       ["P99.9", "number wide-only"], ["Slowest", "number"]];
const latencyCells = (latency, ms) => ["p50_us", "p90_us", "p99_us", "p99_9_us", "max_us"]
  .map((key) => ms(latency?.[key]));

function showMeasured(data, names) {
  const {acquire, release, nodes, quorum} = data;
  const ms = inMs([acquire, release, ...nodes.map(({latency}) => latency)]);
  const which = `${quorum} of ${nodes.length}`;
  fill(byId("measured"), [["ms"], ...LATENCY_HEADS, [`The ${ordinal(quorum)}`, "number"], ["Granted", "number wide-only"]], [
    {cells: [`acquire, ${which}`, ...latencyCells(acquire, ms), "", number(data.held)], look: "strong"},
    {cells: [`release, ${which}`, ...latencyCells(release, ms), "", ""], look: "strong"},
    ...nodes.map((node, i) => ({cells: [names[i], ...latencyCells(node.latency, ms),
      data.held ? percent(node.qth / data.held) : "–", number(node.granted)]}))]);
  const failures = [["acquire", data.not_acquired], ["release", data.not_released]].flatMap(([what, codes]) =>
    Object.entries(codes).map(([code, count]) => ({cells: [`${what}: ${code.replaceAll("_", " ")}`, number(count),
      percent(count / data.cycles)]})));
  byId("failures").hidden = !failures.length;
  byId("no-failures").hidden = failures.length > 0;
  fill(byId("failures"), [["Reason"], ["Cycles", "number"], ["Share", "number"]], failures);
}

function showQuorum(data) {
  const names = namesOf(data.nodes), failed = data.cycles - data.held, {acquire, release, validity} = data;
  fillList(byId("figures"), [
    ["acquire p50", span(acquire.p50_us)], ["acquire p99", span(acquire.p99_us)],
    ["release p50", span(release.p50_us)], ["release p99", span(release.p99_us)],
    ["validity left, least", validity ? percent(validity.least_share) : "–"],
    ["cycles", number(data.cycles)],
    ["not held", failed ? `${number(failed)} (${percent(failed / data.cycles)})` : "0", failed ? "bad" : ""]]);
  showCurves(data, names);
  showTimes(data, names);
  showMeasured(data, names);
}

// --- what if, of a run: the tables of what it computed ---

function showRunWhatIf({what_if: {all, fewer, computed}, nodes, quorum}) {
  const names = namesOf(nodes);
  const rows = [[`all ${nodes.length}, ${quorum} needed`, all],
                ...nodes.map((node, i) => [`without ${names[i]}`, node.without]),
                ...fewer.map((one) => [`any ${one.nodes}, ${one.quorum} needed`, one])];
  const ms = inMs(rows.map(([, one]) => one));
  fill(byId("compared"), [["ms"], ...LATENCY_HEADS, ["Not held", "number"]], rows.map(([name, one], i) => ({
    cells: [name, ...latencyCells(one, ms), [one.not_held_share >= 0.001 ? "number bad" : "number", percent(one.not_held_share)]],
    look: i ? "" : "strong"})));
  byId("computed").textContent = computed.replaceAll("\n", " ");
}

// --- a run, in a file ---

function showRun(data) {
  const failed = data.cycles - data.held, verdict = byId("verdict");
  document.title = "redlock bench";
  verdict.textContent = `${plural(data.cycles, "cycle")} in ${lasting(data.elapsed_ms)}, ${data.lanes} at a time: ${
    failed ? `${number(failed)} did not hold the lock` : "all held the lock"}`;
  verdict.className = data.held === 0 ? "bad" : failed ? "warn" : "good";
  showRunNodes(data);
  showQuorum(data);
  showRunWhatIf(data);
  fillList(byId("parameters"), [
    ["nodes", `${data.nodes.length}, ${data.quorum} needed`], ["at a time", number(data.lanes)],
    ["TTL", lasting(data.ttl_ms)], ["warmup", lasting(data.warmup_ms)], ["measured", lasting(data.elapsed_ms)],
    ["cycles a second", number(Math.round(data.cycles_per_s))],
    ["without a lock", data.failing_ms ? `${lasting(data.failing_ms)}, longest ${lasting(data.failing_longest_ms)}` : "never"],
    ...data.signal ? [["ended by signal", String(data.signal)]] : []]);
}

// --- live ---

const live = {every: 1000, seconds: 600, lost: null, nodes: null, latency: null,
              sort: {key: "key", desc: false}, offset: 0, rtt: new Map(), without: new Set(), size: null, quorum: null};

async function ask(path, query = {}) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  const answer = await fetch(`api/${path}${words ? `?${words}` : ""}`, {signal: AbortSignal.timeout(ANSWER_MS)});
  const object = await answer.json();
  if (!answer.ok)
    throw Error(object.error ?? answer.statusText);
  return object;
}

// Calls `once` now and each `every()` ms after its end, but not while the page is hidden or `when`
// says no. Returns what makes it begin at once.
function repeat(once, every, when = () => true) {
  let timer = null, running = false;
  const run = async () => {
    clearTimeout(timer);
    timer = null;
    if (running || document.hidden || !when())
      return;
    running = true;
    try {
      await once();
    } finally {
      running = false;
      timer = setTimeout(run, every());
    }
  };
  document.addEventListener("visibilitychange", () => document.hidden ? clearTimeout(timer) : run());
  return run;
}

// True while the section is on the screen; `begin` is called when it comes there.
function onScreen(id, begin) {
  let visible = false;
  new IntersectionObserver((entries) => {
    const before = visible;
    visible = entries.at(-1).isIntersecting;
    if (visible && !before)
      begin();
  }, {rootMargin: "200px"}).observe(byId(id));
  return () => visible;
}

function showVerdict({nodes, votes, quorum, healthy, reason, since_ms: since}) {
  const verdict = byId("verdict"), all = votes === nodes.length;
  const votesText = `${all ? `all ${votes}` : `${votes} of ${nodes.length}`} nodes vote, ${quorum} are needed`;
  const bad = nodes.every(({connected}) => !connected) ? "All nodes are lost" :
    votes < quorum ? "No quorum" : "No lock can be taken";
  setText(verdict, healthy ? `A quorum is fit: ${votesText}` :
    `${bad} since ${clock(since)}: ${votesText}${reason ? `. ${reason}` : ""}`);
  verdict.className = healthy ? all ? "good" : "warn" : "bad";
  document.title = `${healthy ? all ? "●" : "▲" : "✕"} ${votes}/${nodes.length} redlock`;
}

function showCanary({canary, every_ms: every}) {
  setText(byId("canary"), canary.writes ? `Each ${every === 1000 ? "second" : lasting(every)} the monitor acquires and releases a lock of its own, ${canary.key}` :
    `The monitor watches and acquires no lock: ${canary.text}`);
}

function showLost(isLost) {
  live.lost = isLost ? live.lost ?? Date.now() : null;
  byId("lost").hidden = !isLost;
  setText(byId("lost"), isLost ? `The monitor does not answer since ${clock(live.lost)}. What is shown is older. The page asks again.` : "");
}

async function takeNodes() {
  const data = await ask("nodes").catch(() => null);
  showLost(!data);
  if (!data)
    return;
  live.nodes = data;
  live.every = Math.max(data.every_ms, 1000);
  showVerdict(data);
  showCanary(data);
  showNodes(data);
  showRanges(data.keep_ms);
  showControls(data);
  setText(byId("age"), `${clock(data.at_ms)} · ${data.version}`);
}

function showRanges(keep) {
  const select = byId("range");
  if (select.options.length)
    return;
  for (const [seconds, text] of RANGES)
    if (seconds * 1000 <= keep || seconds === RANGES[0][0])
      select.append(h("option", {value: seconds, selected: seconds === live.seconds}, text));
}

async function takeLatency() {
  const data = await ask("latency", {for: live.seconds}).catch(() => null);
  if (!data)
    return;
  const {timeline} = live.latency = data;
  const begun = timeline.slots.findIndex((slot) => slot.count + slot.failed > 0);
  timeline.slots.splice(0, Math.max(begun, 0)); // the monitor is younger than the range
  data.began_at_ms += Math.max(begun, 0) * timeline.interval_ms;
  showSparks(data);
  if (live.nodes)
    showNodes(live.nodes);
  showQuorum(data);
}

// --- locks ---

const LOCK_HEADS = [["Key", "", "key"], ["Kind", "", "kind"], ["State", "", "state"], ["Holder", "", "holder"],
                    ["Since", "", "since"], ["Remaining", "number", "remaining"], ["Fence", "number", "fence"],
                    ["Waiting", "number", "waiting"]];

const kindOf = ({kind, slot, readers, fenced}) => (kind ?? "") + (slot ? ` ${slot}` : "") +
  (readers > 1 ? ` × ${readers}` : "") + (fenced ? ", fenced" : "");

// `now`: of the monitor, which saw the lock some time ago.
function lockCells(lock, now) {
  const remaining = lock.remaining_ms === null ? null : lock.remaining_ms - (lock.seen_ms ? now - lock.seen_ms : 0);
  return [lock.keys?.join(" and ") ?? lock.key, kindOf(lock), [lock.state === "held" ? "" : "warn", lock.state],
          lock.holder ?? "–", lock.since_ms ? clock(lock.since_ms) : "–", lasting(remaining),
          lock.fence === null ? "" : String(lock.fence), lock.waiting ? number(lock.waiting) : ""];
}

function countText({total, matched, offset, locks, scanning, scanned_ago_ms: ago, took_ms: took, truncated, error}) {
  const shown = locks.length ? `${number(offset + 1)}–${number(offset + locks.length)} of ${plural(matched, "lock")}` : "No lock";
  return [shown + (matched < total ? ` (${number(total)} in all)` : ""), error,
          truncated ? "more than the monitor reads" : null,
          ago === null ? scanning ? "the first scan runs" : null : `read ${lasting(ago)} ago in ${lasting(took)}`]
    .filter(Boolean).join(" · ");
}

function showPrefixes(prefixes) {
  const select = byId("prefix"), chosen = select.value;
  const texts = prefixes.map(({prefix, locks}) => `${prefix} (${number(locks)})`).join("\n");
  if (select.dataset.texts === texts || document.activeElement === select)
    return;
  select.dataset.texts = texts;
  select.replaceChildren(h("option", {value: ""}, "all"), ...prefixes.filter(({prefix}) => prefix && prefix !== "other")
    .map(({prefix, locks}) => h("option", {value: prefix, selected: prefix === chosen}, `${prefix} (${number(locks)})`)));
}

async function takeLocks() {
  const {sort, offset} = live;
  const data = await ask("locks", {sort: sort.key, desc: sort.desc ? 1 : 0, filter: byId("filter").value,
    prefix: byId("prefix").value, offset, limit: PAGE}).catch((error) => ({failed: error}));
  if (data.failed)
    return setText(byId("locks-count"), `The locks cannot be read: ${data.failed.message}`);
  fill(byId("locks-table"), LOCK_HEADS, data.locks.map((lock) => ({cells: lockCells(lock, data.at_ms)})), sort);
  setText(byId("locks-count"), countText(data));
  showPrefixes(data.prefixes);
  byId("before").disabled = offset === 0;
  byId("after").disabled = offset + PAGE >= data.matched;
  byId("before").parentElement.hidden = data.matched <= PAGE && offset === 0;
}

function beginLocks() {
  const run = repeat(takeLocks, () => LOCKS_MS, onScreen("locks", () => run()));
  const again = (offset) => {
    live.offset = Math.max(offset, 0);
    takeLocks();
  };
  fill(byId("locks-table"), LOCK_HEADS, [], live.sort);
  byId("locks-table").tHead.addEventListener("click", (event) => {
    const key = event.target.closest("th")?.dataset.key;
    if (event.target.tagName !== "BUTTON")
      return;
    live.sort = {key, desc: live.sort.key === key && !live.sort.desc};
    again(0);
  });
  byId("locks-form").addEventListener("submit", (event) => event.preventDefault());
  byId("filter").addEventListener("input", () => again(0));
  byId("prefix").addEventListener("change", () => again(0));
  byId("before").addEventListener("click", () => again(live.offset - PAGE));
  byId("after").addEventListener("click", () => again(live.offset + PAGE));
}

// --- what if, live ---

const sliderMs = (step) => +(RTT_LEAST * (RTT_MOST / RTT_LEAST) ** (step / RTT_STEPS)).toPrecision(2);
const sliderStep = (ms) => Math.round(RTT_STEPS * logarithmic(RTT_LEAST, RTT_MOST).share(ms));
const majority = (n) => Math.floor(n / 2) + 1;

function choices(select, numbers, chosen) {
  select.replaceChildren(...numbers.map((n) => h("option", {value: n, selected: n === chosen}, String(n))));
}

function nodeControls(names, i, changed) {
  const output = h("output", {for: `rtt-${i}`}, "as measured");
  const slider = h("input", {type: "range", id: `rtt-${i}`, min: 0, max: RTT_STEPS, "aria-label": `round trip of ${names[i]}`,
                             "aria-valuetext": "as measured"});
  const box = h("input", {type: "checkbox", id: `without-${i}`});
  const row = h("div", {class: "node"}, h("span", {}, names[i]), h("label", {}, box, " without"), slider, output);
  slider.addEventListener("input", () => {
    live.rtt.set(i, sliderMs(+slider.value));
    output.textContent = `${live.rtt.get(i)} ms`;
    slider.setAttribute("aria-valuetext", output.textContent);
    row.classList.add("moved");
    changed();
  });
  box.addEventListener("change", () => {
    live.without[box.checked ? "add" : "delete"](i);
    changed();
  });
  return row;
}

// Made again when the set of nodes changes, which is rare.
function showControls({nodes, quorum}) {
  const form = byId("controls"), key = nodes.map(({uri}) => uri).join();
  if (form.dataset.nodes === key)
    return;
  form.dataset.nodes = key;
  Object.assign(live, {size: nodes.length, quorum, rtt: new Map(), without: new Set()});
  const names = namesOf(nodes), sizes = h("select", {id: "size"}), quorums = h("select", {id: "needed"});
  let timer = null;
  const changed = () => {
    clearTimeout(timer);
    timer = setTimeout(takeWhatIf, 250);
  };
  const reset = h("button", {type: "button", id: "reset"}, "As measured");
  const fillQuorums = () => choices(quorums, Array.from({length: live.size - majority(live.size) + 1},
    (_, i) => majority(live.size) + i), live.quorum);
  choices(sizes, [...new Set([3, 5, 7, nodes.length])].sort((a, b) => a - b), live.size);
  fillQuorums();
  sizes.addEventListener("change", () => {
    live.size = +sizes.value;
    live.quorum = majority(live.size);
    fillQuorums();
    changed();
  });
  quorums.addEventListener("change", () => {
    live.quorum = +quorums.value;
    changed();
  });
  reset.addEventListener("click", () => {
    form.dataset.nodes = "";
    showControls(live.nodes);
    byId("reset").focus();
    takeWhatIf();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.replaceChildren(
    h("div", {class: "sizes"}, h("label", {}, "Nodes ", sizes), h("label", {}, "needed ", quorums), reset),
    ...nodes.map((_, i) => nodeControls(names, i, changed)));
  if (live.latency)
    placeSliders(live.latency);
}

// A slider that was not moved stands where its node was measured.
function placeSliders({nodes}) {
  nodes.forEach(({latency}, i) => {
    const slider = byId(`rtt-${i}`);
    if (slider && !live.rtt.has(i) && latency.p50_us)
      slider.value = sliderStep(latency.p50_us / 1000);
  });
}

function showAnswer({now, then, may_fail: may, computed}) {
  const ms = inMs([now, then]), ratio = then.p50_us && now.p50_us ? then.p50_us / now.p50_us : null;
  setText(byId("answer"), `${live.quorum} of ${live.size}: ${plural(may, "node")} may fail${
    live.without.size ? `, ${live.without.size} of them ${live.without.size === 1 ? "has" : "have"}` : ""}. ${
    then.p50_us === null ? "No lock would be held" : ratio === null ? "" :
      ratio > 0.95 && ratio < 1.05 ? "The lock would take as long as now" :
      `The lock would take ${ratio > 1 ? `${round(+ratio.toPrecision(2))} times as long as now` :
        `${percent(ratio)} of the time of now`}`}.`);
  const heads = [["ms"], ["P50", "number"], ["P90", "number"], ["P99", "number"], ["P99.9", "number wide-only"],
                 ["Slowest", "number wide-only"], ["Not held", "number"]];
  fill(byId("compared"), heads, [["now", now], ["then", then]].map(([name, one]) => ({cells: [name, ...latencyCells(one, ms),
    [one.not_held_share >= 0.001 ? "number bad" : "number", percent(one.not_held_share)]], look: name === "then" ? "strong" : ""})));
  chart("pairs", (width) => pairChart(width, [["P50", "p50_us"], ["P90", "p90_us"], ["P99", "p99_us"], ["P99.9", "p99_9_us"]]
    .map(([name, key]) => ({name, now: now[key], then: then[key]})), "The time until the lock is held, now and then"));
  setText(byId("computed"), (computed ?? "").replaceAll("\n", " "));
}

async function takeWhatIf() {
  if (!live.nodes)
    return;
  const count = live.nodes.nodes.length;
  const rtt = live.rtt.size ? Array.from({length: count}, (_, i) => live.rtt.get(i) ?? "").join() : "";
  const data = await ask("whatif", {for: live.seconds, nodes: live.size, quorum: live.quorum,
    without: [...live.without].sort().join(), rtt}).catch((error) => ({failed: error}));
  if (data.failed)
    return setText(byId("answer"), `No answer: ${data.failed.message}`);
  if (live.latency)
    placeSliders(live.latency);
  showAnswer(data);
}

async function beginLive() {
  await takeNodes();
  repeat(takeNodes, () => live.every)();
  const latency = repeat(takeLatency, () => LATENCY_MS);
  latency();
  beginLocks();
  const whatIf = repeat(takeWhatIf, () => WHATIF_MS, onScreen("whatif", () => whatIf()));
  byId("range").addEventListener("change", () => {
    live.seconds = +byId("range").value;
    takeLatency();
    takeWhatIf();
  });
}

document.body.classList.add(given ? "is-file" : "is-live");
if (given)
  showRun(given);
else
  beginLive();
