// The page of redlock monitor and of redlock bench --html, in a browser, on five real servers:
//   node page.js REDLOCK [--browser PATH] [--pictures FOLDER] [--cycles N]
// The browser is Chromium or Firefox.
// Prints a line for each check; the exit code is 1 if one failed. NODE_PATH has puppeteer-core and
// axe-core. --pictures also makes the pictures of docs/monitor.md and docs/latency.svg.
"use strict";
const {spawn, execFile} = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const {parseArgs, promisify} = require("node:util");
const axe = require("axe-core");
const puppeteer = require("puppeteer-core");

const {values: options, positionals: [redlock]} = parseArgs({allowPositionals: true, options: {
  browser: {type: "string", default: "/usr/bin/chromium"}, pictures: {type: "string"}, cycles: {type: "string", default: "1000000"}}});
const IS_FIREFOX = /firefox/.test(path.basename(options.browser));
const SHOWN_MS = 2000;    // an event is on the page this soon
const WAIT_MS = 60000;    // a state that does not come is a failure
const OPENED_MS = 1000, FILE_MAX = 2e6; // of the file of 10^6 cycles
const TIMES = 3; // of which the fastest counts: other programs run, too
const PICTURE_MAX = 200e3;
const EVENTS_MAX = 300; // px: the quorum stays in sight
const LOCKS = 120, ALL = LOCKS + 4;
const COUNT = `(?:${ALL}|${ALL + 1})`; // a scan may have seen the monitor's own lock, too
const sleep = promisify(setTimeout), run = promisify(execFile);

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "redlock-page-"));
const children = new Set();
let failures = 0;

function start(program, words, more = {}) {
  const child = spawn(program, words, {stdio: "ignore", ...more});
  children.add(child);
  child.on("exit", () => children.delete(child));
  return child;
}

process.on("exit", () => {
  for (const child of children)
    child.kill("SIGKILL");
  fs.rmSync(folder, {recursive: true, force: true});
});
for (const signal of ["SIGINT", "SIGTERM"])
  process.on(signal, () => process.exit(130));

function check(ok, what, figure = "") {
  failures += !ok;
  console.log(`${ok ? "ok    " : "FAILED"} ${what}${figure && `: ${figure}`}`);
}

async function waitFor(what, condition, limit = WAIT_MS) {
  const begun = Date.now();
  for (;;) {
    const found = await condition();
    if (found)
      return Date.now() - begun;
    if (Date.now() - begun > limit)
      throw Error(`no ${what} within ${limit / 1000} s`);
    await sleep(20);
  }
}

// --- servers ---

class Server {
  constructor(name) {
    this.path = path.join(folder, name);
    this.begin();
  }
  begin() {
    this.process = start(process.env.REDIS_SERVER ?? "redis-server",
      ["--port", "0", "--unixsocket", this.path, "--save", "", "--dir", folder]);
    return waitFor(`socket ${this.path}`, () => fs.existsSync(this.path));
  }
  end() {
    const ended = new Promise((resolve) => this.process.on("exit", resolve));
    this.process.kill("SIGKILL");
    return ended.then(() => fs.rmSync(this.path, {force: true}));
  }
}

const servers = [1, 2, 3, 4, 5].map((n) => new Server(`redis-${n}`));
const env = {...process.env, REDLOCK_CONFIG: path.join(folder, "none"),
             REDLOCK_NODES: servers.map((server) => `unix://${server.path}`).join()};
fs.writeFileSync(env.REDLOCK_CONFIG, "");
const call = (...words) => run(redlock, words, {env});

async function fillNodes() {
  await Promise.all(servers.map((server) => waitFor("socket", () => fs.existsSync(server.path))));
  await call("admit", "--new", "--at-once", "--max-ttl", "1h");
  await call("acquire", "-n", "-t", "9m", "--fence", "orders");
  await call("acquire", "-n", "-t", "50m", "--shared", "report:q3");
  await call("acquire", "-n", "-t", "50m", "--shared", "report:q3");
  await call("acquire", "-n", "-t", "4m", "--slots", "3", "gpu");
  await call("acquire", "-n", "-t", "20m", "--and", "account:7", "account:3");
  for (let i = 0; i < LOCKS; i += 8)
    await Promise.all(Array.from({length: 8}, (_, k) =>
      call("acquire", "-n", "-t", `${30 + (i + k) % 20}m`, `job:${String(i + k).padStart(3, "0")}`)));
}

async function startMonitor(...words) {
  const monitor = start(redlock, ["monitor", "--listen", "127.0.0.1:0", ...words],
                        {env, stdio: ["ignore", "ignore", "pipe"]});
  let said = "";
  monitor.stderr.on("data", (text) => said += text);
  await waitFor("address of the monitor", () => /http:\S+/.test(said));
  return {monitor, url: said.match(/http:\S+/)[0]};
}

// --- the browser ---

// Firefox has the scheme of all its pages from its start.
const launch = (scheme) => puppeteer.launch({executablePath: options.browser, ...IS_FIREFOX ? {browser: "firefox",
  extraPrefsFirefox: {"layout.css.prefers-color-scheme.content-override": scheme === "dark" ? 0 : 1}} :
  {args: process.getuid() === 0 ? ["--no-sandbox"] : []}});

async function open(browser, url, {width = 1280, height = 900, scheme = "light"} = {}) {
  const page = await browser.newPage(), noise = page.noise = [];
  page.on("console", (message) => ["error", "warn"].includes(message.type()) && noise.push(message.text()));
  page.on("pageerror", (error) => noise.push(String(error)));
  await page.setViewport({width, height});
  if (!IS_FIREFOX)
    await page.emulateMediaFeatures([{name: "prefers-color-scheme", value: scheme}]);
  await page.goto(url);
  return page;
}

const text = (page, selector) => page.$eval(selector, (element) => element.innerText);
const shows = (page, selector, pattern, limit) => waitFor(`${pattern} in ${selector}`,
  async () => pattern.test(await text(page, selector)), limit);
const rows = (page, table) => page.$$eval(`${table} tbody tr`, (all) =>
  all.map((row) => [...row.cells].map((cell) => cell.innerText)));
const nodeRow = (n) => `#nodes-table tbody tr:nth-child(${n})`;

async function noViolation(page, what) {
  await page.evaluate(axe.source);
  const {violations} = await page.evaluate(() => axe.run());
  check(violations.length === 0, `axe finds no violation, ${what}`, violations.map(({id, nodes}) =>
    `${id}: ${nodes.map(({target}) => target).join(" ")}`).join("; "));
}

// Whether the page is this wide, and each chart as wide as its figure.
const drawn = (page, width) => page.evaluate((wanted) => innerWidth === wanted && draws.size > 0 &&
  [...draws.keys()].every((figure) => figure.clientWidth === 0 ||
    +figure.querySelector("svg").getAttribute("width") === Math.floor(figure.clientWidth)), width);

async function fits(page, width) {
  await page.setViewport({width, height: 900});
  await waitFor(`charts for ${width} px`, () => drawn(page, width));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  check(wide <= width, `no horizontal scrolling at ${width} px`, `${wide} px`);
}

// --- what is checked ---

// Returns what happened and how soon it was shown.
async function killAndStart(page) {
  const found = [];
  const event = async (what, act, selector, pattern) => {
    await act();
    found.push([what, await shows(page, selector, pattern)]);
  };
  const each = (act) => () => Promise.all(servers.map(act));
  await event("a node is killed", () => servers[1].end(), nodeRow(2), /down/);
  await shows(page, "#events", /redis-2\s+[^\n]*down/);
  await shows(page, "#verdict", /[0-4] of 5 nodes vote/);
  await shows(page, "#why", /redis-2/);
  check((await rows(page, "#nodes-table"))[1][4] === "–", "it has no round trip");
  await event("it is back", () => servers[1].begin(), nodeRow(2), /quarantined|votes/);
  await event("all nodes are killed", each((server) => server.end()), "#verdict", /All nodes are lost since \d\d:\d\d:\d\d/);
  await noViolation(page, "without nodes");
  await event("all are back", each((server) => server.begin()), "#nodes-table", /^(?!.*(down|connecting))/s);
  await shows(page, "#verdict", /No quorum since \d\d:\d\d:\d\d/);
  return found;
}

async function checkNodes(page) {
  const fastest = new Map();
  await shows(page, "#verdict", /all 5 nodes vote/, 2 * WAIT_MS); // after a quarantine
  for (let i = 0; i < TIMES && !(fastest.size && Math.max(...fastest.values()) <= SHOWN_MS); i++)
    for (const [what, ms] of await killAndStart(page))
      fastest.set(what, Math.min(ms, fastest.get(what) ?? Infinity));
  const [height, wanted] = await page.$eval("#recent", ({clientHeight, scrollHeight}) => [clientHeight, scrollHeight]);
  check(height < EVENTS_MAX && wanted > EVENTS_MAX, "many events scroll, and the quorum stays in sight", `${height} of ${wanted} px`);
  for (const [what, ms] of fastest)
    check(ms <= SHOWN_MS, `${what}, and it is shown`, `${ms} ms`);
}

async function checkLost(page, monitor) {
  monitor.kill("SIGSTOP");
  await shows(page, "#lost", /does not answer since \d\d:\d\d:\d\d/);
  check(await page.$eval("#verdict", ({className}) => className) === "lost" && (await page.title()).startsWith("○ "),
        "headline and title are grey");
  monitor.kill("SIGCONT");
  await waitFor("answer", () => page.$eval("#lost", (element) => element.hidden));
  check(true, "the page says that the monitor does not answer, and goes on when it does");
}

async function checkWhatIf(page) {
  let asked = null;
  const seen = async (response) => {
    if (response.url().includes("/api/whatif"))
      asked = {query: new URL(response.url()).searchParams, answer: await response.json()};
  };
  page.on("response", seen);
  const answered = async (what, pattern, values) => {
    await waitFor(`request with ${pattern}`, () => asked && pattern.test(asked.query.toString()));
    await waitFor("the table", async () => {
      const wanted = [asked.answer.now, asked.answer.then], shown = await rows(page, "#compared");
      const isThat = (cell, us) => us === null ? cell === "–" : Math.abs(cell - us / 1000) < 0.051;
      return shown.length === 2 && shown.every((row, i) => values.every((key, k) =>
        isThat(row[k + 1], wanted[i][key])));
    }, 5000).then(() => check(true, what), () => check(false, what));
  };
  const values = ["p50_us", "p90_us", "p99_us", "p99_9_us", "max_us"];
  await page.$eval("#whatif", (element) => element.scrollIntoView());
  await answered("today beside itself", /node_count=5&quorum=3/, values);
  for (const n of [0, 1, 2]) {
    await page.focus(`#rtt-${n}`);
    await page.keyboard.press("End");
  }
  await answered("sliders by keyboard: three nodes far away", /rtt=400%2C400%2C400%2C%2C/, values);
  check(+(await rows(page, "#compared"))[1][1] > 300, "the lock takes as long as the third node");
  await page.click("#without-3");
  await answered("a node less", /without=3&/, values);
  await page.select("#size", "7");
  await page.select("#needed", "5");
  await answered("5 of 7", /node_count=7&quorum=5/, values);
  await page.click("#reset");
  await answered("as measured again", /node_count=5&quorum=3$/, values);
  page.off("response", seen);
}

async function checkLocks(page) {
  await page.$eval("#locks", (element) => element.scrollIntoView());
  await shows(page, "#locks-count", new RegExp(`1–100 of ${COUNT} locks`));
  const keys = async () => (await rows(page, "#locks-table")).map(([key]) => key);
  check((await keys())[0].startsWith("account:3"), "sorted by key");
  await page.click("#locks-table th:nth-child(1) button");
  await waitFor("the last key first", async () => (await keys())[0] === "report:q3");
  check(await page.$eval("#locks-table th:nth-child(1)", (head) => head.ariaSort) === "descending", "and downwards");
  await page.focus("#locks-table th:nth-child(6) button");
  await page.keyboard.press("Enter");
  await waitFor("the one that ends first", async () => (await keys())[0] === "gpu");
  check(true, "sorted by the remaining time, by keyboard");
  await page.click("#after");
  await shows(page, "#locks-count", new RegExp(`101–${COUNT} of ${COUNT} locks`));
  check((await keys()).length >= ALL - 100, "the second page");
  await page.type("#filter", "job:01");
  await shows(page, "#locks-count", /1–10 of 10 locks/);
  check((await keys()).every((key) => key.startsWith("job:01")), "filtered");
  await page.$eval("#filter", (input) => {
    input.value = "";
    input.dispatchEvent(new Event("input"));
  });
  await waitFor("prefixes", () => page.$eval("#prefix", (select) => select.options.length > 1));
  await page.select("#prefix", "report:");
  await shows(page, "#locks-count", /1–1 of 1 lock /);
  check(/shared × 2/.test(await text(page, "#locks-table tbody")), "of a prefix, with its readers");
  await page.select("#prefix", "");
  await shows(page, "#locks-count", new RegExp(`of ${COUNT} locks`));
}

// The answers are cut as those with long keys are, and one of them comes late.
async function checkLocksCut(page) {
  await page.evaluate(() => {
    const real = window.fetch;
    window.late = new Promise((resolve) => window.release = resolve);
    window.unstub = () => window.fetch = real;
    window.fetch = async (url, ...more) => {
      const answer = await real(url, ...more), data = await answer.json();
      if (url.includes("api/locks")) {
        data.locks.length = Math.min(data.locks.length, 50);
      }
      const isLate = url.includes("filter=job%3A00");
      if (isLate)
        await window.late;
      return {ok: answer.ok, json: async () => {
        window.taken ||= isLate;
        return data;
      }};
    };
  });
  const shown = (from, until) => shows(page, "#locks-count", new RegExp(`^${from}–${until} of ${COUNT}`));
  await shown(1, 50);
  await page.click("#after");
  await shown(51, 100);
  await page.click("#after");
  await shown(101, COUNT);
  check(await page.$eval("#after", (button) => button.disabled), "a cut page: no row is left out");
  await page.click("#before");
  await shown(51, 100);
  await page.click("#before");
  await shown(1, 50);
  check(await page.$eval("#before", (button) => button.disabled), "and back");
  const filter = (words) => page.$eval("#filter", (input, value) => {
    input.value = value;
    input.dispatchEvent(new Event("input"));
  }, words);
  await filter("job:00");
  await filter("report");
  await shows(page, "#locks-count", /1–1 of 1 lock /);
  await page.evaluate(() => window.release());
  await waitFor("the older answer", () => page.evaluate(() => window.taken));
  check(/1–1 of 1 lock /.test(await text(page, "#locks-count")), "an older answer is not shown after a newer one");
  await page.evaluate(() => window.unstub());
  await filter("");
  await shows(page, "#locks-count", new RegExp(`of ${COUNT} locks`));
}

// The charts above the section are drawn after it was jumped to.
async function checkAddress(browser, url) {
  const page = await open(browser, `${url}#locks`);
  await shows(page, "#locks-count", /of/);
  await shows(page, "#measured", /acquire/);
  const top = () => page.$eval("#locks", (element) => element.getBoundingClientRect().top);
  await waitFor("the section of the address", async () => Math.abs(await top()) < 150);
  check(true, "#locks leads to the locks");
  await page.close();
}

async function checkTimes(browser, page) {
  const [today, before] = await page.evaluate(() => [clock(Date.now()), clock(Date.now() - 48 * 3600000)]);
  check(/^[\d:]{8}$/.test(today) && /^\d{4}-\d\d-\d\d [\d:]{8}$/.test(before), "a time of another day has its date", before);
  check(/^\d{4}-\d\d-\d\dT.*Z$/.test(await page.$eval("#locks-table td:nth-child(5)", ({title}) => title)), "and a title");
  const {monitor, url} = await startMonitor("--keep", "1m");
  const short = await open(browser, url);
  await waitFor("ranges", () => short.$eval("#range", (select) => select.options.length > 0));
  check(await short.evaluate(() => live.seconds) === 60, "what is not kept is not asked for");
  await short.close();
  monitor.kill();
}

async function checkHidden(page) {
  let requests = 0;
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", {value: true, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await sleep(1000);
  const count = (request) => requests += !request.url().includes("/api/nodes"); // the title is seen
  page.on("request", count);
  await sleep(3000);
  page.off("request", count);
  check(requests === 0, "a hidden page asks for nothing but the nodes", `${requests} requests in 3 s`);
  await page.evaluate(() => {
    delete document.hidden;
    document.dispatchEvent(new Event("visibilitychange"));
  });
}

async function checkFile(browser) {
  const file = path.join(folder, "bench.html");
  await call("bench", "-c", "8", "-n", options.cycles, "--html", file);
  const {size} = fs.statSync(file);
  check(size < FILE_MAX, `bench --html of ${options.cycles} cycles`, `${size} bytes`);
  const page = await open(browser, `file://${file}`), times = [];
  page.on("request", (request) => /^(file|data):/.test(request.url()) || page.noise.push(request.url()));
  for (let i = 0; i < TIMES; i++) {
    await page.reload();
    await page.waitForSelector("#percentiles svg .curve");
    times.push(Math.round(await page.evaluate(() => performance.getEntriesByType("navigation")[0].loadEventEnd)));
  }
  check(Math.min(...times) <= OPENED_MS, "it opens", `${times.join(", ")} ms`);
  check(/cycles in/.test(await text(page, "#verdict")), "with its cycles", await text(page, "#verdict"));
  check(await page.$eval("#locks", (element) => getComputedStyle(element).display === "none"), "without the live parts");
  await noViolation(page, "in a file");
  for (const width of [360, 2000])
    await fits(page, width);
  const pdf = await page.pdf({format: "A4", printBackground: true});
  check(pdf.length > 10000, "it prints", `${pdf.length} bytes of PDF`);
  check(page.noise.length === 0, "no message and no request", page.noise.join("; "));
  await page.close();
}

// --- pictures ---

async function picture(page, name, clip) {
  const file = path.join(options.pictures, name);
  await page.screenshot({path: file, clip});
  const {size} = fs.statSync(file);
  check(size < PICTURE_MAX, `picture ${name}`, `${size} bytes`);
}

// The charts of a run as one SVG with its looks inside.
async function drawLatency(browser) {
  const file = path.join(folder, "latency.html");
  await call("bench", "-c", "4", "-d", "10s", "--html", file);
  const page = await open(browser, `file://${file}`);
  const drawn = await page.evaluate(() => {
    const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "visibility"], WIDTH = 1030;
    const whole = svg("svg", {xmlns: SVG, width: WIDTH});
    whole.append(svg("rect", {width: "100%", height: "100%", fill: "#fff"}));
    let top = 30;
    const say = (words, size, fill) => whole.append(svg("text", {x: 24, y: top, "font-size": size, fill}, words));
    say(document.getElementById("verdict").textContent, 13, "#5d6875");
    for (const id of ["percentiles", "acquires"]) {
      const figure = document.getElementById(id), chart = draws.get(figure)(WIDTH - 40);
      figure.append(chart);
      for (const element of chart.querySelectorAll("path, line, text, circle, rect")) {
        const style = getComputedStyle(element);
        for (const look of LOOKS)
          if (!["none", "normal", "visible", "0px"].includes(style[look]) || look === "fill")
            element.setAttribute(look, style[look]);
        element.removeAttribute("class");
      }
      chart.querySelectorAll("[visibility=hidden], text:empty").forEach((element) => element.remove());
      top += 34;
      say(figure.querySelector("figcaption").firstChild.textContent.trim(), 15, "#1f2630");
      chart.setAttribute("x", 10);
      chart.setAttribute("y", top);
      top += +chart.getAttribute("height");
      whole.append(chart);
    }
    whole.setAttribute("height", top + 14);
    whole.setAttribute("viewBox", `0 0 ${WIDTH} ${top + 14}`);
    whole.setAttribute("font-family", "sans-serif");
    return new XMLSerializer().serializeToString(whole);
  });
  fs.writeFileSync(path.join(options.pictures, "latency.svg"), drawn.replaceAll("><", ">\n<") + "\n");
  check(drawn.length < PICTURE_MAX, "picture latency.svg", `${drawn.length} bytes`);
  await page.close();
}

// A history in which a node hung, and one was restarted.
async function makeHistory() {
  await sleep(40000);
  servers[3].process.kill("SIGSTOP");
  await sleep(4000);
  servers[3].process.kill("SIGCONT");
  await sleep(20000);
  await servers[1].end();
  await sleep(8000);
  await servers[1].begin();
  await sleep(10000);
}

async function drawPage(browser) {
  const {monitor, url} = await startMonitor("--every", "200ms");
  await makeHistory();
  const shown = async (look, act) => {
    const page = await open(browser, url, look);
    await shows(page, "#measured", /acquire/);
    await act?.(page);
    await page.waitForNetworkIdle();
    await waitFor("charts", () => drawn(page, look.width));
    if (look.at) // not before: the charts above it have moved it
      await page.$eval(look.at, (element) => element.scrollIntoView({behavior: "instant"}));
    await picture(page, look.name);
    await page.close();
  };
  await shown({name: "monitor-light.png", width: 1180, height: 960});
  await shown({name: "monitor-dark.png", scheme: "dark", width: 1180, height: 720, at: "#acquires"});
  await shown({name: "monitor-phone.png", width: 390, height: 844});
  await shown({name: "monitor-whatif.png", width: 1180, height: 1000, at: "#whatif"}, async (page) => {
    await page.$eval("#whatif", (element) => element.scrollIntoView()); // the locks are read
    await shows(page, "#locks-count", /of/);
    await page.focus("#rtt-0");
    await page.keyboard.press("PageUp");
    await page.click("#without-3");
    await shows(page, "#answer", /fail, 1 of them/);
    await page.evaluate(() => document.activeElement.blur());
  });
  monitor.kill();
}

async function main() {
  await fillNodes();
  const {monitor, url} = await startMonitor();
  const browser = await launch("light"), darkBrowser = IS_FIREFOX ? await launch("dark") : browser;
  try {
    const page = await open(browser, url);
    await shows(page, "#verdict", /all 5 nodes vote/);
    await checkAddress(browser, url);
    await page.bringToFront();
    await shows(page, "#measured", /acquire/);
    await checkLocks(page);
    await checkLocksCut(page);
    await checkTimes(browser, page);
    await page.bringToFront();
    await checkWhatIf(page);
    await noViolation(page, "light");
    const dark = await open(darkBrowser, url, {scheme: "dark"});
    await shows(dark, "#measured", /acquire/);
    check(await dark.evaluate(() => matchMedia("(prefers-color-scheme: dark)").matches), "a dark page");
    await noViolation(dark, "dark");
    for (const width of [360, 768, 1280, 2000])
      await fits(dark, width);
    check(dark.noise.length === 0, "no error on the console, dark", dark.noise.join("; "));
    await dark.close();
    await checkHidden(page);
    await checkLost(page, monitor);
    if (options.pictures && !IS_FIREFOX) {
      await drawLatency(browser);
      await drawPage(browser);
    }
    await checkFile(browser);
    await page.bringToFront(); // behind another one it would be hidden
    await checkNodes(page);
    check(page.noise.length === 0, "no error on the console", page.noise.join("; "));
  } finally {
    await browser.close();
    await darkBrowser.close();
  }
  console.log(`page: ${failures} checks failed in ${path.basename(options.browser)}`);
}

main().catch((error) => {
  console.log(`FAILED ${error.stack}`);
  failures++;
}).finally(() => process.exit(failures ? 1 : 0));
