// The wrapper above the real `redlock pipe`, while programs are killed and stopped:
//   REDLOCK_COMMAND=.../redlock redlock local -n 3 -- node --test contrib/node/test/servers.test.js
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { afterEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "../index.js";

const LIMIT = {
  timeout: 60_000,
  skip: process.env.REDLOCK_COMMAND && process.env.REDLOCK_NODES ? false
    : "REDLOCK_COMMAND and REDLOCK_NODES are not set",
};
const TTL_MS = 2000;
const FAR_MS = 600_000; // a TTL after which no test gets a lock

const PRELUDE = `
  import { writeSync } from "node:fs";
  import { setTimeout as sleep } from "node:timers/promises";
  import { spawn } from "node:child_process";
  import { Redlock } from ${JSON.stringify(new URL("../index.js", import.meta.url))};
  const redlock = new Redlock();
  const print = (...words) => writeSync(1, words.join(" ") + "\\n");
  const block = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  // Works until the lock is lost or SIGUSR2 comes, and beats if a lock has that.
  const work = async (signal, hold) => {
    const beats = setInterval(() => hold.beat().catch(() => {}), 100);
    await new Promise((resolve) => {
      process.once("SIGUSR2", resolve);
      signal.addEventListener("abort", resolve);
      print("held");
    });
    clearInterval(beats);
    if (signal.aborted)
      print("aborted", signal.reason.code, hold.valid(), process.hrtime.bigint());
  };
  const report = (using) => using.then(() => print("released"),
    (error) => print("failed", error.code));
`;

const redlock = new Redlock();
const started = [];
let keys = 0;

/** A program that prints lines, which next() gives. */
function start(code) {
  const program = spawn(process.execPath, ["--input-type=module", "-e", PRELUDE + code],
    { stdio: ["ignore", "pipe", "inherit"] });
  started.push(program);
  const lines = createInterface({ input: program.stdout })[Symbol.asyncIterator]();
  program.next = async () => (await lines.next()).value;
  program.ended = once(program, "exit");
  return program;
}

const hold = (key, options) => start(
  `await report(redlock.using("${key}", ${JSON.stringify(options)}, work));`);

const childrenOf = (pid) => readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
  .trim().split(" ").map(Number);

/** When another client has the lock, on the clock of all programs. */
async function waitFor(t, key) {
  const from = process.hrtime.bigint();
  const at = await redlock.using(key, () => process.hrtime.bigint());
  t.diagnostic(`another client had the lock after ${(at - from) / 1000000n} ms`);
  return at;
}

/** The work has stopped before another client has the lock. */
async function checkAbort(program, code, got) {
  const [, why, valid, at] = /^aborted (\w+) (\w+) (\d+)$/.exec(await program.next());
  assert.deepEqual([why, valid], [code, "false"]);
  assert.ok(BigInt(at) < await got);
}

afterEach(() => {
  for (const program of started.splice(0)) program.kill("SIGKILL");
});

test("a lock that is released is free", LIMIT, async (t) => {
  const key = `key-${keys++}`;
  const fence = await redlock.using(key, { fence: true, ttlMs: TTL_MS }, async (signal, held) => {
    await assert.rejects(redlock.using(key, { fence: true, waitMs: 0 }, assert.fail),
      (error) => error.code === "TAKEN" && error.nodes.length === 3);
    await held.extend(TTL_MS * 2);
    await sleep(TTL_MS * 1.5);
    assert.ok(held.valid());
    return held.fence;
  });
  await redlock.using(key, { fence: true }, (signal, held) => assert.ok(held.fence > fence));
  await waitFor(t, key);
});

test("the program is killed", LIMIT, async (t) => {
  const key = `key-${keys++}`;
  const program = hold(key, { ttlMs: FAR_MS });
  assert.equal(await program.next(), "held");
  program.kill("SIGKILL");
  await waitFor(t, key);
});

test("the program is killed, and a child of it lives", LIMIT, async (t) => {
  const key = `key-${keys++}`;
  const program = start(`await redlock.using("${key}", { ttlMs: ${FAR_MS} }, async () => {
    print(spawn("sleep", ["60"], { stdio: "ignore" }).pid);
    await sleep(60_000);
  });`);
  const child = Number(await program.next());
  program.kill("SIGKILL");
  await waitFor(t, key);
  process.kill(child, "SIGKILL"); // throws if it had ended
});

test("the program exits in its work", LIMIT, async (t) => {
  const key = `key-${keys++}`;
  await start(`await redlock.using("${key}", { ttlMs: ${FAR_MS} }, () => process.exit(0));`).ended;
  await waitFor(t, key);
});

test("the pipe is killed", LIMIT, async (t) => {
  const key = `key-${keys++}`;
  const program = hold(key, { ttlMs: TTL_MS });
  assert.equal(await program.next(), "held");
  process.kill(childrenOf(program.pid)[0], "SIGKILL");
  await checkAbort(program, "CLOSED", waitFor(t, key));
  assert.equal(await program.next(), "failed CLOSED");
  assert.deepEqual(await program.ended, [0, null]);
});

test("the pipe is stopped for longer than the TTL", LIMIT, async (t) => {
  const key = `key-${keys++}`;
  const program = start(`
    await report(redlock.using("${key}", { ttlMs: ${TTL_MS} }, work));
    await redlock.using("${key}", () => print("again"));
  `);
  assert.equal(await program.next(), "held");
  const [pipe] = childrenOf(program.pid);
  process.kill(pipe, "SIGSTOP");
  await checkAbort(program, "EXPIRED", waitFor(t, key));
  process.kill(pipe, "SIGCONT");
  assert.match(await program.next(), /^failed /);
  assert.equal(await program.next(), "again");
  assert.deepEqual(await program.ended, [0, null]);
});

test("the program is stopped for longer than the TTL, and keeps its lock", LIMIT, async () => {
  const key = `key-${keys++}`;
  const program = hold(key, { ttlMs: TTL_MS });
  assert.equal(await program.next(), "held");
  program.kill("SIGSTOP");
  await sleep(TTL_MS * 2);
  await assert.rejects(redlock.using(key, { waitMs: 0 }, assert.fail), { code: "TAKEN" });
  program.kill("SIGCONT");
  program.kill("SIGUSR2");
  assert.equal(await program.next(), "released");
});

test("the same with beats, and it loses its lock", LIMIT, async (t) => {
  const key = `key-${keys++}`;
  const program = hold(key, { ttlMs: TTL_MS, beatMs: 500 });
  assert.equal(await program.next(), "held");
  program.kill("SIGSTOP");
  await waitFor(t, key);
  program.kill("SIGCONT");
  assert.match(await program.next(), /^aborted .* false /);
  assert.match(await program.next(), /^failed /);
  assert.deepEqual(await program.ended, [0, null]);
});

test("the program reads so little that the pipe to it is full", LIMIT, async (t) => {
  const key = `key-${keys++}`;
  const program = start(`
    let held = 0;
    const one = async (signal, hold) => {
      if (++held === 100) {
        print("held");
        block(12000); // within which the 100 locks have more notices than the pipe holds
        print(hold.valid());
      }
      await sleep(10_000, null, { signal }).catch(() => {});
    };
    const all = Array.from({ length: 100 }, (_, i) =>
      redlock.using(\`${key}-\${i}\`, { ttlMs: 300 }, one));
    const ends = await Promise.allSettled(all);
    print(ends.filter(({ status }) => status === "rejected").length);
  `);
  assert.equal(await program.next(), "held");
  await waitFor(t, `${key}-0`);
  assert.equal(await program.next(), "false");
  assert.equal(await program.next(), "100");
});

test("100 locks at once", LIMIT, async () => {
  const all = Array.from({ length: 100 }, (_, i) => redlock.using(`many-${i}`, () => sleep(100)));
  await Promise.all(all);
  let within = 0;
  await Promise.all(Array.from({ length: 100 }, () => redlock.using("one", async () => {
    assert.equal(++within, 1);
    await sleep(1);
    within--;
  })));
});

test("a caller gives up waiting", LIMIT, async () => {
  const key = `key-${keys++}`;
  await redlock.using(key, async () => {
    const signal = AbortSignal.timeout(100);
    await assert.rejects(redlock.using(key, { signal }, assert.fail), { name: "TimeoutError" });
  });
  await redlock.using(key, () => {}); // a hold that crossed the cancel would keep it
});
