// What the lock and each node took, from the object of redlock bench --export-json.

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
    {name: width < 520 ? "the lock" : `the lock: ${quorum} of ${nodes.length}`, look: "ink",
     buckets: distributions.acquire}],
    width < 520 ? 300 : 400,
    "Percentiles of the time until the lock is held, and of each node's grant"));
}

const ordinal = (n) => `${n}${["th", "st", "nd", "rd"][n] ?? "th"}`; // of a quorum, below 21

// The band below the slowest, then the one below the p99, then the median.
const bands = (of) => [
  {name: "p50", look: "ink", value: (slot) => of(slot)?.p50_us ?? null},
  {name: "slowest", look: "pale", band: true, value: (slot) => of(slot)?.max_us ?? null},
  {name: "p99", look: "deep", band: true, value: (slot) => of(slot)?.p99_us ?? null}];

function showTimes(data, names) {
  const {timeline: {slots}, nodes, quorum} = data, time = timeOf(data);
  const failed = slots.some((slot) => slot.failed > 0);
  document.querySelector("#acquires .key").hidden = !failed;
  const acquire = bands((slot) => slot), release = bands((slot) => slot.release);
  const y = latencyAxis(slots.flatMap((slot) => [slot.p50_us, slot.max_us, slot.release?.p50_us ?? 0,
                                                 slot.release?.max_us ?? 0]), TIME_HEIGHT);
  chart("acquires", (width) => timeChart(width, slots, time, acquire,
    {name: "Time to acquire, over time", failures: true, y}));
  chart("releases", (width) => timeChart(width, slots, time, release,
    {name: "Time to release, over time", y}));
  const grants = latencyAxis(slots.flatMap((slot) => [...slot.nodes, slot.qth].flatMap((one) =>
    [one?.p50_us ?? 0, one?.p99_us ?? 0])), TIME_HEIGHT);
  for (const key of ["p50", "p99"])
    chart(`grants-${key}`, (width) => timeChart(width, slots, time, [
      ...nodes.map((_, i) => ({name: names[i], look: lookOf(i),
                               value: (slot) => slot.nodes[i]?.[`${key}_us`] ?? null})),
      {name: `${ordinal(quorum)} grant`, look: "ink",
       value: (slot) => slot.qth?.[`${key}_us`] ?? null}],
      {name: `${key} of each node's grant, over time`, y: grants}));
  const least = Math.min(...slots.map((slot) => slot.valid_least_ms ?? Infinity), data.ttl_ms);
  const axis = {scale: linear(least > data.ttl_ms * 0.9 ? data.ttl_ms * 0.9 : 0, data.ttl_ms)};
  axis.ticks = evenTicks(axis.scale.least, axis.scale.most, 4).map((v) => [v, span(v * 1000)]);
  chart("validity", (width) => timeChart(width, slots, time, [
    {name: "least", look: "ink", value: (slot) => slot.valid_least_ms ?? null}],
    {name: "Validity left when the lock is held, over time", y: axis,
     text: (ms) => span(ms * 1000)}));
  const silent = nodes.map((_, i) => i)
    .filter((i) => slots.some((slot) => slot.silent[i] || slot.other[i]));
  byId("strips").hidden = !silent.length;
  const rows = silent.map((i) => ({name: names[i], look: lookOf(i), states: strip(slots, i)}));
  chart("strips", (width) => stripChart(width, rows, time, "Nodes that did not grant, over time"));
}

const LATENCY_HEADS = [["P50", "number"], ["P90", "number wide-only"], ["P99", "number"],
                       ["P99.9", "number wide-only"], ["Slowest", "number"]];
const latencyCells = (latency, ms) => ["p50_us", "p90_us", "p99_us", "p99_9_us", "max_us"]
  .map((key) => ms(latency?.[key]));

function showMeasured(data, names) {
  const {acquire, release, nodes, quorum} = data;
  const ms = inMs([acquire, release, ...nodes.map(({latency}) => latency)]);
  const which = `${quorum} of ${nodes.length}`;
  const heads = [["ms"], ...LATENCY_HEADS, [`The ${ordinal(quorum)}`, "number"],
                 ["Granted", "number wide-only"]];
  fill(byId("measured"), heads, [
    {cells: [`acquire, ${which}`, ...latencyCells(acquire, ms), "", number(data.held)],
     look: "strong"},
    {cells: [`release, ${which}`, ...latencyCells(release, ms), "", ""], look: "strong"},
    ...nodes.map((node, i) => ({cells: [names[i], ...latencyCells(node.latency, ms),
      data.held ? percent(node.qth / data.held) : "–", number(node.granted)]}))]);
  const failures = [["acquire", data.not_acquired], ["release", data.not_released]].flatMap(
    ([what, codes]) => Object.entries(codes).map(([code, count]) => ({cells: [
      `${what}: ${code.replaceAll("_", " ")}`, number(count), percent(count / data.cycles)]})));
  byId("failures").hidden = !failures.length;
  byId("no-failures").hidden = failures.length > 0;
  fill(byId("failures"), [["Reason"], ["Cycles", "number"], ["Share", "number"]], failures);
}

function showQuorum(data) {
  const names = namesOf(data.nodes), {acquire, release, validity, cycles} = data;
  const failed = cycles - data.held;
  fillList(byId("figures"), [
    ["acquire p50", span(acquire.p50_us)], ["acquire p99", span(acquire.p99_us)],
    ["release p50", span(release.p50_us)], ["release p99", span(release.p99_us)],
    ["validity left, least", validity ? percent(validity.least_share) : "–"],
    ["cycles", number(cycles)],
    ["not held", failed ? `${number(failed)} (${percent(failed / cycles)})` : "0",
     failed ? "bad" : ""]]);
  showCurves(data, names);
  showTimes(data, names);
  showMeasured(data, names);
}
