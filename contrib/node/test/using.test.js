// What `using` does beyond the kit's cases, with the kit as `redlock`.
import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Redlock, RedlockError } from "../index.js";

const KIT = fileURLToPath(new URL("../../pipe/kit.py", import.meta.url));
const TTL_MS = 2000; // of the kit's holds
const LIMIT = { timeout: 30_000 };

let folder;
const log = () => readFileSync(process.env.REDLOCK_KIT_LOG, "utf8");

function makeRedlock(scenario, config) {
  process.env.REDLOCK_KIT = scenario;
  return new Redlock({ command: KIT, ...config });
}

function block(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "redlock-node-"));
  process.env.REDLOCK_KIT_LOG = join(folder, "log");
  writeFileSync(process.env.REDLOCK_KIT_LOG, "");
});

afterEach(() => rmSync(folder, { recursive: true }));

test("it resolves to what the function returned", LIMIT, async () => {
  const redlock = makeRedlock("good");
  assert.equal(await redlock.using("a", () => 17), 17);
  assert.equal(await redlock.using(["a", "b"], { ttlMs: 500 }, async () => 18), 18);
  assert.match(log(), /lock a\+b/);
});

test("it rejects with what the function threw, and unlocks", LIMIT, async () => {
  const redlock = makeRedlock("good");
  const error = new Error("of the work");
  await assert.rejects(redlock.using("a", () => { throw error; }), error);
  assert.match(log(), /unlock 1/);
});

test("a function that throws what the loss made of it rejects with the loss", LIMIT, async () => {
  const redlock = makeRedlock("lost");
  writeFileSync(process.env.REDLOCK_KIT_LOG, "a held\n"); // what the kit waits for
  const work = (signal) => sleep(20_000, null, { signal }).catch(() => { throw signal.reason; });
  await assert.rejects(redlock.using("a", work), { code: "GONE", reason: "MISSING" });
});

test("an error has all that the pipe said", LIMIT, async () => {
  const redlock = makeRedlock("taken");
  const error = await redlock.using("a", { waitMs: 0 }, assert.fail).catch((why) => why);
  assert.ok(error instanceof RedlockError);
  const { name, code, reason, holder, nodes, message } = error;
  assert.deepEqual({ name, code, reason, holder, nodes }, {
    name: "RedlockError", code: "TAKEN", reason: "NONE", holder: "db1:4711", nodes: [],
  });
  assert.equal(message, "another owner holds the lock (db1:4711)");
});

test("an option that does not exist is for the pipe to refuse", LIMIT, async () => {
  await makeRedlock("good").using("a", { maxHoldMs: 5000, beatMs: 100 }, () => {});
  assert.doesNotMatch(log(), /bad/);
});

test("what no line can have is refused, and no hold ends by it", LIMIT, async () => {
  const redlock = makeRedlock("good");
  await redlock.using("a", async (signal, hold) => {
    const refused = { code: "BAD_KEY" };
    await assert.rejects(redlock.using("a\0", assert.fail), refused);
    await assert.rejects(redlock.using("\ud800", assert.fail), refused);
    await assert.rejects(redlock.using(["b", "x".repeat(65536)], assert.fail), refused);
    await assert.rejects(redlock.using("b", { waitMs: NaN }, assert.fail),
      { code: "BAD_OPTION", message: "wait_ms is NaN" });
    assert.ok(hold.valid());
  });
  assert.doesNotMatch(log(), /bad/);
});

test("a newer deadline counts after the event loop was blocked", LIMIT, async () => {
  const redlock = makeRedlock("good");
  await redlock.using("a", async (signal, hold) => {
    block(TTL_MS * 1.5);
    assert.ok(!hold.valid()); // nothing newer was read
  });
});

test("also if the work ends while the loop reads from elsewhere", LIMIT, async () => {
  const redlock = makeRedlock("good");
  await redlock.using("a", async () => {
    await readFile(KIT);
    block(TTL_MS * 1.5);
  });
});

test("valid() is false when it was unlocked", LIMIT, async () => {
  let hold;
  await makeRedlock("good").using("a", (signal, it) => (hold = it));
  assert.ok(!hold.valid());
});

test("a caller that has given up before locks nothing", LIMIT, async () => {
  const redlock = makeRedlock("good");
  await assert.rejects(redlock.using("a", { signal: AbortSignal.abort() }, assert.fail),
    { name: "AbortError" });
  assert.equal(log(), "");
});

test("URIs go to the pipe by its environment", LIMIT, async () => {
  const command = join(folder, "redlock");
  const saved = join(folder, "saved");
  writeFileSync(command, `#!/bin/sh\necho "$REDLOCK_NODES $REDLOCK_CONFIG $@" >${saved}\n`);
  chmodSync(command, 0o755);
  const nodes = ["redis://:secret@a", "redis://b"];
  const redlock = new Redlock({ command, nodes, config: "/x.conf", args: ["--timeout", "5s"] });
  await assert.rejects(redlock.using("a", assert.fail), { code: "CLOSED" });
  assert.ok(existsSync(saved));
  assert.equal(readFileSync(saved, "utf8"), "redis://:secret@a,redis://b /x.conf " +
    `--timeout 5s pipe --parent ${process.pid}\n`);
});

test("another system than Linux is refused", LIMIT, () => {
  const real = Object.getOwnPropertyDescriptor(process, "platform");
  Object.defineProperty(process, "platform", { ...real, value: "darwin" });
  try {
    assert.throws(() => new Redlock(), { code: "UNSUPPORTED", message: /needs Linux/ });
  } finally {
    Object.defineProperty(process, "platform", real);
  }
});
