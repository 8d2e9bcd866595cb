// What if: the tables of a run, or the answers of the monitor beside its figures.

const RTT_LEAST = 0.02, RTT_MOST = 400, RTT_STEPS = 1000; // of a slider, ms

// --- a run ---

const lostCell = (share) => [share >= 0.001 ? "number bad" : "number", percent(share)];

// rows: [name, what acquires would take, look]
function showModels(rows) {
  const ms = inMs(rows.map(([, one]) => one));
  fill(byId("compared"), [["ms"], ...LATENCY_HEADS, ["Not held", "number"]],
    rows.map(([name, one, look]) => ({
      cells: [name, ...latencyCells(one, ms), lostCell(one.not_held_share)], look})));
}

function showRunWhatIf({what_if: {all, fewer, computed}, nodes, quorum}) {
  const names = namesOf(nodes);
  const rows = [[`all ${nodes.length}, ${quorum} needed`, all],
                ...nodes.map((node, i) => [`without ${names[i]}`, node.without]),
                ...fewer.map((one) => [`any ${one.node_count}, ${one.quorum} needed`, one])];
  showModels(rows.map(([name, one], i) => [name, one, i ? "" : "strong"]));
  byId("computed").textContent = computed.replaceAll("\n", " ");
}

// --- live ---

const sliderMs = (step) => +(RTT_LEAST * (RTT_MOST / RTT_LEAST) ** (step / RTT_STEPS)).toPrecision(2);
const sliderStep = (ms) => Math.round(RTT_STEPS * logarithmic(RTT_LEAST, RTT_MOST).share(ms));
const majority = (n) => Math.floor(n / 2) + 1;

function choices(select, numbers, chosen) {
  select.replaceChildren(...numbers.map((n) =>
    h("option", {value: n, selected: n === chosen}, String(n))));
}

function nodeControls(names, i, changed) {
  const output = h("output", {for: `rtt-${i}`}, "as measured");
  const slider = h("input", {type: "range", id: `rtt-${i}`, min: 0, max: RTT_STEPS,
                             "aria-label": `round trip of ${names[i]}`,
                             "aria-valuetext": "as measured"});
  const box = h("input", {type: "checkbox", id: `without-${i}`, "aria-label": `without ${names[i]}`});
  const row = h("div", {class: "node"}, h("span", {}, names[i]),
                h("label", {}, box, " without"), slider, output);
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
  const names = namesOf(nodes);
  const sizes = h("select", {id: "size"}), quorums = h("select", {id: "needed"});
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
    h("div", {class: "sizes"}, h("label", {}, "Nodes ", sizes),
      h("label", {}, "needed ", quorums), reset),
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

function answerText({now, then, may_fail: may}) {
  const failed = live.without.size, ratio = then.p50_us / now.p50_us;
  const begin = `${live.quorum} of ${live.size}: ${plural(may, "node")} may fail` +
    (failed ? `, ${failed} of them ${failed === 1 ? "has" : "have"}` : "");
  if (then.p50_us === null)
    return `${begin}. No lock would be held.`;
  if (ratio > 0.95 && ratio < 1.05)
    return `${begin}. The lock would take as long as now.`;
  if (now.p50_us === null)
    return `${begin}.`;
  return `${begin}. The lock would take ${ratio > 1 ?
    `${round(+ratio.toPrecision(2))} times as long as now` : `${percent(ratio)} of today's time`}.`;
}

function showAnswer(data) {
  const {now, then, computed} = data;
  setText(byId("answer"), answerText(data));
  showModels([["now", now], ["then", then, "strong"]]);
  const pairs = [["P50", "p50_us"], ["P90", "p90_us"], ["P99", "p99_us"], ["P99.9", "p99_9_us"]]
    .map(([name, key]) => ({name, now: now[key], then: then[key]}));
  chart("pairs", (width) =>
    pairChart(width, pairs, "The time until the lock is held, now and then"));
  setText(byId("computed"), computed.replaceAll("\n", " "));
}

async function takeWhatIf() {
  if (!live.nodes)
    return;
  const count = live.nodes.nodes.length;
  const rtts = Array.from({length: count}, (_, i) => live.rtt.get(i) ?? "");
  const data = await askLast("whatif", {for: live.seconds, node_count: live.size, quorum: live.quorum,
    without: [...live.without].sort().join(),
    rtt: live.rtt.size ? rtts.join() : ""});
  if (!data)
    return;
  if (data.failed)
    return setText(byId("answer"), `No answer: ${data.failed.message}`);
  if (live.latency)
    placeSliders(live.latency);
  showAnswer(data);
}
