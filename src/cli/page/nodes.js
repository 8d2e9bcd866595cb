// The nodes: live, or as a run of redlock bench met them.

const SEVERITIES = ["defect", "warning", "note"];
const severityLook = (severity) => ({defect: "bad", warning: "warn"}[severity] ?? "");
const worst = (findings) => SEVERITIES.find((one) => findings.some(({severity}) => severity === one));

function findingsCell(findings) {
  const count = (severity) => findings.filter((one) => one.severity === severity).length;
  const text = SEVERITIES.slice(0, 2).filter(count).map((one) => plural(count(one), one)).join(", ");
  return [severityLook(worst(findings)), text || "none"];
}

// The worst first; the same one of several nodes is one, with its details and their nodes.
function gather(nodes, names) {
  const found = new Map();
  nodes.forEach((node, i) => (node.findings ?? []).forEach((one) => {
    const key = JSON.stringify([one.severity, one.text]);
    found.set(key, found.get(key) ?? {...one, details: new Map()});
    const {details} = found.get(key);
    details.set(one.detail ?? "", [...details.get(one.detail ?? "") ?? [], names[i]]);
  }));
  const rank = ({severity}) => SEVERITIES.indexOf(severity);
  return [...found.values()].sort((a, b) => rank(a) - rank(b));
}

function showFindings(nodes, names) {
  const rows = gather(nodes, names);
  const text = JSON.stringify(rows.map(({details, ...one}) => [one, ...details]));
  if (showFindings.last === text)
    return;
  showFindings.last = text;
  byId("findings").replaceChildren(...rows.map(({severity, text: what, details}) => h("li", {},
    h("b", {class: severityLook(severity)}, severity), what,
    ...[...details].map(([detail, on]) => h("small", {},
      `${on.length === nodes.length ? "all nodes" : on.join(", ")}${detail ? `: ${detail}` : ""}`)))));
}

const NODE_HEADS = [["Node"], ["State"], ["Since"], ["Votes"], ["Round trip", "number"], ["Over time"],
                    ["Clock", "number"], ["Version"], ["Findings"]];

function stateCell({connected, votes, state, text}) {
  const isQuiet = connected && votes;
  return [isQuiet ? "good" : connected ? "warn" : "bad", isQuiet ? "votes" : state, text ?? ""];
}

const sinceCell = ({since_ms: since}) => ["", clock(since), "", iso(since)];

function clockCell({offset_us: at, offset_err_us: error, findings = []}) {
  const look = severityLook(worst(findings.filter(({code}) => code.startsWith("clock_"))));
  if (at === null || at === undefined)
    return [`number ${look}`, "–"];
  const sign = at > 49 ? "+" : at < -49 ? "−" : "";
  return [`number ${look}`, `${sign}${(Math.abs(at) / 1000).toFixed(1)} ± ${(error / 1000).toFixed(1)} ms`];
}

function votesCell({votes, votes_fenced: isFenced, fenced: member}, areFenced) {
  const text = !votes ? "none" : areFenced ? isFenced ? "plain and fenced" : "plain only" : "plain";
  return ["", text, member?.promises?.length ? `promised: ${member.promises.join(", ")}` : ""];
}

const EVENT_LOOKS = {error: "bad", warning: "warn", info: ""};

function showEvents(events, nodes) {
  const names = namesOf(nodes), nameOf = (uri) => names[nodes.findIndex((node) => node.uri === uri)] ?? "";
  byId("events-head").hidden = byId("recent").hidden = !events.length;
  fill(byId("events"), [["Time"], ["Node"], ["Event"]], events.map(({at_ms: at, level, node, text}) => ({
    cells: [clock(at), nameOf(node), [EVENT_LOOKS[level] ?? "", text]]})));
}

const sparks = new Map(); // by the index of the node

function showNodes({nodes, votes_fenced: fenced}) {
  const names = namesOf(nodes);
  const ms = inMs(nodes.map(({round_trip_us: us}) => ({p50_us: us ?? Infinity})));
  fill(byId("nodes-table"), NODE_HEADS, nodes.map((node, i) => ({
    look: severityLook(worst(node.findings ?? [])), cells: [
    names[i], stateCell(node), sinceCell(node), votesCell(node, fenced !== null),
    node.round_trip_us === null || !node.connected ? "–" : `${ms(node.round_trip_us)} ms`,
    sparks.get(i) ?? h("span"), clockCell(node), node.version ?? "–",
    findingsCell(node.findings ?? [])]})));
  showFindings(nodes, names);
}

function showSparks({timeline: {slots}, nodes}) {
  const names = namesOf(nodes), cycles = slots.filter((slot) => slot.count + slot.failed > 0);
  const lines = nodes.map((_, i) => cycles.map((slot) => slot.nodes[i]?.p50_us ?? null));
  const scale = latencyScale(lines.flat()); // one for all, so that they can be compared
  lines.forEach((values, i) => sparks.set(i, sparkline(values, scale, lookOf(i),
                                                       `round trip of ${names[i]} over time`)));
}

function runStateCell({text, granted}) {
  if (!text)
    return ["good", "granted all"];
  return granted ? ["warn", "failed at times", text] : ["bad", "never granted", text];
}

function showRunNodes({nodes, cycles}) {
  const names = namesOf(nodes);
  const heads = [["Node"], ["State"], ["Granted", "number"], ["Not granted", "number"],
                 ["No grant for", "number"], ["Longest", "number"]];
  fill(byId("nodes-table"), heads, nodes.map((node, i) => ({cells: [
    names[i], runStateCell(node), number(node.granted),
    number(cycles - node.granted - node.ready),
    ...[node.failing_ms, node.failing_longest_ms].map((ms) => ms ? lasting(ms) : "–")]})));
}
