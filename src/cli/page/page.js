// A run that stands in the page, or what the monitor answers.

const given = JSON.parse(document.getElementById("data").textContent);
const LATENCY_MS = 5000, LOCKS_MS = 800, WHATIF_MS = 10000; // between two requests
const ADDRESS_MS = 10000; // for so long a page that grows stays at the section of its address
const FIRST_LOCKS_MS = 250; // while the first scan has found nothing yet, or some are older
const OLD_LOCKS_MS = 1500;  // than this: those that are shown first
const ANSWER_MS = 4000; // the monitor does not answer if it takes longer
const RANGES = [[60, "minute"], [600, "10 minutes"], [3600, "hour"], [6 * 3600, "6 hours"],
                [24 * 3600, "24 hours"]];

// --- a run ---

function showRun(data) {
  const failed = data.cycles - data.held, verdict = byId("verdict");
  document.title = "redlock bench";
  verdict.textContent = `${plural(data.cycles, "cycle")} in ${lasting(data.elapsed_ms)}, ` +
    `${data.lanes} at a time: ${failed ? `${number(failed)} did not hold` : "all held"} the lock`;
  verdict.className = data.held === 0 ? "bad" : failed ? "warn" : "good";
  showRunNodes(data);
  showQuorum(data);
  showRunWhatIf(data);
  fillList(byId("parameters"), [
    ["nodes", `${data.nodes.length}, ${data.quorum} needed`], ["at a time", number(data.lanes)],
    ["TTL", lasting(data.ttl_ms)], ["warmup", lasting(data.warmup_ms)],
    ["measured", lasting(data.elapsed_ms)],
    ["cycles a second", number(Math.round(data.cycles_per_s))],
    ["without a lock", data.failing_ms ?
      `${lasting(data.failing_ms)}, longest ${lasting(data.failing_longest_ms)}` : "never"],
    ...data.signal ? [["ended by signal", String(data.signal)]] : []]);
}

// --- live ---

const live = {every: 1000, seconds: 600, lost: null, nodes: null, latency: null,
              sort: {key: "key", desc: false}, offset: 0, next: 0, earlier: [], awaitsLocks: false,
              rtt: new Map(), without: new Set(), size: null, quorum: null};

async function ask(path, query = {}) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""));
  const answer = await fetch(`api/${path}?${words}`, {signal: AbortSignal.timeout(ANSWER_MS)});
  const object = await answer.json();
  if (!answer.ok)
    throw Error(object.error ?? answer.statusText);
  return object;
}

const asked = new Map(); // how often, by path

// As ask(), but {failed: error}, and null if the path was asked again meanwhile: an older
// answer must not replace a newer one.
async function askLast(path, query) {
  const mine = (asked.get(path) ?? 0) + 1;
  asked.set(path, mine);
  const data = await ask(path, query).catch((error) => ({failed: error}));
  return asked.get(path) === mine ? data : null;
}

// Calls `once` now and each `every()` ms after its end, but not while the page is hidden (unless
// `whileHidden`) or `when` says no. Returns what makes it begin at once.
function repeat(once, every, when = () => true, whileHidden = false) {
  let timer = null, running = false;
  const run = async () => {
    clearTimeout(timer);
    timer = null;
    if (running || document.hidden && !whileHidden || !when())
      return;
    running = true;
    try {
      await once();
    } finally {
      running = false;
      timer = setTimeout(run, every());
    }
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden)
      run();
    else if (!whileHidden)
      clearTimeout(timer);
  });
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

// "1 defect and 2 warnings", the worst one's code, and which nodes have it.
function describeFindings(nodes, names) {
  const found = gather(nodes, names).filter(({severity}) => severity !== "note");
  if (!found.length)
    return null;
  const [{code, text, details}] = found, words = code.replaceAll("_", " ");
  const count = SEVERITIES.map((one) => [found.filter(({severity}) => severity === one).length, one])
    .filter(([n]) => n).map(([n, one]) => plural(n, one)).join(" and ");
  const on = [...details].map(([detail, nodesOf]) => nodesOf.join(", ") + (detail && ` (${detail})`));
  return {words, count, text: `${on.join("; ")}: ${text}`};
}

function showVerdict({nodes, votes, quorum, healthy, reason, since_ms: since}) {
  const verdict = byId("verdict"), all = votes === nodes.length, names = namesOf(nodes);
  const findings = describeFindings(nodes, names), isGood = healthy && all && !findings;
  const silent = names.filter((_, i) => !nodes[i].votes).join(", ");
  const count = all ? `all ${votes}` : `${votes} of ${nodes.length}`;
  const votesText = `${count} nodes vote, ${quorum} are needed`;
  const bad = nodes.every(({connected}) => !connected) ? "All nodes are lost" :
    votes < quorum ? "No quorum" : "No lock can be taken";
  const withText = findings ? `, with ${findings.count} (${findings.words})` : "";
  setText(verdict, healthy ? `A quorum is fit${withText}: ${votesText}` :
    `${bad} since ${clock(since)}: ${votesText}`);
  setText(byId("why"), reason ?? (all ? findings?.text ?? "" : `Without a vote: ${silent}`));
  verdict.title = healthy ? "" : iso(since);
  verdict.className = isGood ? "good" : healthy ? "warn" : "bad";
  document.title = `${isGood ? "●" : healthy ? "▲" : "✕"} ${votes}/${nodes.length} ` +
    (findings ? `${findings.words} · redlock` : "redlock");
}

function showCanary({canary, every_ms: every}) {
  const often = every === 1000 ? "second" : lasting(every);
  setText(byId("canary"), canary.writes ?
    `Every ${often} the monitor acquires and releases a lock of its own, ${canary.key}` :
    `The monitor watches and acquires no lock: ${canary.text}`);
}

// What was known is grey: nobody knows it now. The next answer has its colours again.
function showLost(isLost) {
  if (isLost) {
    byId("verdict").className = "lost";
    document.title = `○ ${document.title.replace(/^[●▲✕○] /, "")}`;
  }
  live.lost = isLost ? live.lost ?? Date.now() : null;
  byId("lost").hidden = !isLost;
  byId("lost").title = isLost ? iso(live.lost) : "";
  setText(byId("lost"), isLost ? `The monitor does not answer since ${clock(live.lost)}. ` +
    "What is shown is older. The page asks again." : "");
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
  showEvents(data.events, data.nodes);
  showRanges(data.keep_ms);
  showControls(data);
  setText(byId("age"), `${clock(data.at_ms)} · ${data.version}`);
  byId("age").title = iso(data.at_ms);
}

function showRanges(keep) {
  const select = byId("range");
  if (select.options.length)
    return;
  for (const [seconds, text] of RANGES)
    if (seconds * 1000 <= keep || seconds === RANGES[0][0])
      select.append(h("option", {value: seconds, selected: seconds === live.seconds}, text));
  live.seconds = +select.value; // less is kept than is asked for
}

async function takeLatency() {
  const data = await askLast("latency", {for: live.seconds});
  if (!data || data.failed)
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

// What is above the section of the address gets its height only with its data.
function keepSection() {
  const section = location.hash.length > 1 ? byId(location.hash.slice(1)) : null;
  if (!section)
    return;
  const growing = new ResizeObserver(() => section.scrollIntoView({behavior: "instant"}));
  const end = () => growing.disconnect();
  growing.observe(document.querySelector("main"));
  for (const act of ["wheel", "touchstart", "pointerdown", "keydown"])
    addEventListener(act, end, {once: true, passive: true});
  setTimeout(end, ADDRESS_MS);
}

async function beginLive() {
  keepSection();
  await takeNodes();
  repeat(takeNodes, () => live.every, () => true, true)(); // the title is seen from other tabs
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
