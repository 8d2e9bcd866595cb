// What the page says of the nodes, without a browser: node verdict.js FOLDER-OF-THE-PAGE
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

// As much of a browser as these functions use.
const elements = new Map();
const document = {title: "redlock", getElementById: (id) => {
  elements.set(id, elements.get(id) ?? {id, textContent: "", className: "", title: "", hidden: true});
  return elements.get(id);
}};
const byId = document.getElementById, context = vm.createContext({document, ResizeObserver: class {}, Element: class {}});
const text = ["table.js", "nodes.js", "page.js"].map((name) =>
  fs.readFileSync(path.join(process.argv[2], name), "utf-8")).join("");
const [functions] = text.split(/^document.body/m); // what runs at the start needs a page
byId("data").textContent = "null";
vm.runInContext(`${functions}; Object.assign(globalThis, {showVerdict, showLost, clockCell, stateCell});`, context);

const node = (i, more = {}) => ({uri: `redis://h${i}`, connected: true, votes: true, state: "ready", findings: [], ...more});
const report = (nodes, more = {}) => ({nodes, votes: nodes.filter(({votes}) => votes).length, quorum: 2,
                                       healthy: true, reason: null, since_ms: 0, ...more});
const finding = (severity, code, detail = null) => ({severity, code, text: `about ${code}`, detail});
const show = (nodes, more) => {
  context.showVerdict(report(nodes, more));
  return [byId("verdict").className, document.title, byId("verdict").textContent, byId("why").textContent];
};
const cases = [];
const test = (what, play) => cases.push([what, play]);

test("all is well: green", () => assert.deepEqual(show([node(1), node(2), node(3)]),
  ["good", "● 3/3 redlock", "A quorum is fit: all 3 nodes vote, 2 are needed", ""]));

test("a note changes nothing", () =>
  assert.equal(show([node(1, {findings: [finding("note", "fsync_unknown")]}), node(2), node(3)])[0], "good"));

test("a clock that is off: headline, title and cell", () => {
  const off = node(2, {offset_us: 3e6, offset_err_us: 200, findings: [finding("warning", "clock_off", "by +3.000 s")]});
  assert.deepEqual(show([node(1), off, node(3)]), ["warn", "▲ 3/3 clock off · redlock",
    "A quorum is fit, with 1 warning (clock off): all 3 nodes vote, 2 are needed", "h2 (by +3.000 s): about clock_off"]);
  assert.deepEqual(context.clockCell(off), ["number warn", "+3000.0 ± 0.2 ms"]);
  assert.deepEqual(context.clockCell(node(1, {offset_us: 0, offset_err_us: 0})), ["number ", "0.0 ± 0.0 ms"]);
});

test("a defect comes before a warning, and no vote before both", () => {
  const bad = [finding("warning", "debug"), finding("defect", "evicts")];
  assert.equal(show([node(1, {findings: bad}), node(2), node(3)])[2],
               "A quorum is fit, with 1 defect and 1 warning (evicts): all 3 nodes vote, 2 are needed");
  assert.deepEqual(show([node(1, {findings: bad}), node(2), node(3, {votes: false})]).slice(0, 2).concat(
    byId("why").textContent), ["warn", "▲ 2/3 evicts · redlock", "Without a vote: h3"]);
});

test("no quorum stays red with findings", () => assert.equal(show([node(1), node(2, {votes: false}), node(3, {votes: false,
  findings: [finding("warning", "debug")]})], {healthy: false, reason: "why"})[0], "bad"));

test("a dead monitor: headline and title are grey, once", () => {
  show([node(1), node(2), node(3)]);
  context.showLost(true);
  context.showLost(true);
  assert.deepEqual([byId("verdict").className, document.title, byId("lost").hidden], ["lost", "○ 3/3 redlock", false]);
  context.showLost(false);
  assert.deepEqual([show([node(1), node(2), node(3)])[0], document.title, byId("lost").hidden], ["good", "● 3/3 redlock", true]);
});

let failed = 0;
console.log(`1..${cases.length}`);
cases.forEach(([what, play], i) => {
  try {
    play();
    console.log(`ok ${i + 1} - ${what}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${i + 1} - ${what}\n# ${String(error.message).replaceAll("\n", "\n# ")}`);
  }
});
process.exit(failed ? 1 : 0);
