// Locks of libredlock by `redlock pipe`. docs/pipe.md has the lines that it reads and writes,
// and the duties of this file. Times in _us are microseconds of CLOCK_BOOTTIME.
import { spawn } from "node:child_process";
import { openSync, readSync } from "node:fs";
import { createRequire } from "node:module";
import { setImmediate as nextImmediate } from "node:timers/promises";

const SCHEMA = "redlock.pipe/1";
const LINE_BYTES = 64 * 1024;
const CLOCK_STEP_US = 10_000;
// Timers stand still in a suspended machine, and the clock does not.
const LONGEST_TIMER_MS = 1000;
// An unlock that failed otherwise says nothing about the time before it.
const LOST_BEFORE = ["GONE", "TAKEN"];

export class RedlockError extends Error {
  constructor({ error, reason = "NONE", text, holder = null, nodes = [] }) {
    super(holder ? `${text} (${holder})` : text);
    this.name = "RedlockError";
    Object.assign(this, { code: error, reason, holder, nodes });
  }
}

let uptime;
const digits = Buffer.alloc(64);

/** The time, rounded down to a step. Node has no other clock that goes on in suspension. */
function steppedNowUs() {
  uptime ??= openSync("/proc/uptime");
  const length = readSync(uptime, digits, 0, digits.length, 0);
  return Math.round(parseFloat(digits.toString("latin1", 0, length)) * 1e6);
}

/** The time, never too early. */
const nowUs = () => steppedNowUs() + CLOCK_STEP_US;

const isText = (value) => !value.includes("\0") && Buffer.from(value).toString() === value;

/** One line, or an error: the pipe would end at a line that it cannot read. */
function toLine(request) {
  const line = JSON.stringify(request, (name, value) => {
    if (typeof value === "string" && !isText(value))
      throw badKey("MALFORMED", "a key has a NUL, or half of a surrogate pair");
    if (typeof value === "number" && !Number.isFinite(value)) // null in JSON: as if not given
      throw new RedlockError({ error: "BAD_OPTION", text: `${name} is ${value}` });
    return value;
  }) + "\n";
  if (Buffer.byteLength(line) > LINE_BYTES)
    throw badKey("TOO_LONG", "a request has above 64 KiB");
  return line;
}

const badKey = (reason, text) => new RedlockError({ error: "BAD_KEY", reason, text });

/** Reads all that is in the pipe now: the second one has a whole turn of the loop before it. */
async function readPipe() {
  await nextImmediate();
  await nextImmediate();
}

/** What is held, until abort() or unlock(). */
class Lease {
  #pipe;
  #number;
  #untilUs;
  #timer;
  #over = false;
  #controller = new AbortController();
  signal = this.#controller.signal;

  constructor(pipe, { hold, until_us, fence, slot }) {
    this.#pipe = pipe;
    this.#number = hold;
    this.fence = fence;
    this.slot = slot;
    pipe.leases.set(hold, this);
    this.until(until_us);
  }

  valid = () => !this.#over && nowUs() < this.#untilUs;

  until(untilUs) {
    if (this.#over) return; // it never comes back
    this.#untilUs = untilUs;
    clearTimeout(this.#timer);
    const leftMs = Math.max(0, (untilUs - nowUs()) / 1000);
    this.#timer = setTimeout(() => this.settle(), Math.min(leftMs, LONGEST_TIMER_MS));
  }

  /** Aborts it if its deadline is over, also after what the pipe has to say. */
  async settle() {
    if (!this.valid()) await readPipe();
    if (this.valid()) this.until(this.#untilUs);
    else this.abort({ error: "EXPIRED", reason: "DEADLINE", text: "the deadline passed" });
  }

  abort(why) {
    if (this.#over) return;
    this.#end();
    this.#controller.abort(new RedlockError(why));
  }

  #end() {
    this.#over = true;
    clearTimeout(this.#timer);
    this.#pipe.leases.delete(this.#number);
  }

  /** Only when nothing works under the lock any more. Throws if it was lost before. */
  async unlock() {
    if (!this.valid()) await this.settle();
    this.#end();
    const unlocked = this.#pipe.request({ op: "unlock", hold: this.#number });
    await unlocked.catch((error) => {
      if (LOST_BEFORE.includes(error.code)) this.#controller.abort(error);
    });
    this.signal.throwIfAborted();
  }

  async extend(ttlMs) {
    this.signal.throwIfAborted();
    const { until_us } = await this.#pipe.request({
      op: "extend", hold: this.#number, ttl_ms: ttlMs,
    });
    this.signal.throwIfAborted();
    this.until(until_us);
  }

  async beat() {
    this.signal.throwIfAborted();
    await this.#pipe.request({ op: "beat", hold: this.#number });
  }
}

/** One child process, from its start to its end. */
class Pipe {
  #child;
  #startedUs = steppedNowUs();
  #requests = new Map();
  #lastId = 0;
  #rest = "";
  #greeted; // resolves #hello
  #hello = new Promise((resolve) => (this.#greeted = resolve));
  #users = 0;
  ended = null; // or why
  leases = new Map();

  constructor(command, args, env) {
    this.#child = spawn(command, [...args, "pipe", "--parent", String(process.pid)],
      { env, stdio: ["pipe", "pipe", "inherit"] });
    this.#child.on("error", (error) => this.#end(`redlock pipe: ${error.message}`));
    this.#child.stdin.on("error", (error) => this.#end(`redlock pipe: ${error.message}`));
    this.#child.stdout.on("close", () => this.#end("redlock pipe has ended"));
    this.#child.stdout.setEncoding("utf8").on("data", (text) => this.#read(text));
    this.#setUsers(0);
  }

  /** Keeps the program alive while something is held or wanted. */
  #setUsers(users) {
    this.#users = users;
    for (const handle of [this.#child, this.#child.stdin, this.#child.stdout])
      if (users > 0) handle.ref();
      else handle.unref();
  }

  enter = () => this.#setUsers(this.#users + 1);
  leave = () => this.#setUsers(this.#users - 1);

  #read(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) {
      if (this.ended) return;
      try {
        this.#take(JSON.parse(line));
      } catch (error) {
        this.#end(`redlock pipe: ${error.message}`);
      }
    }
  }

  #take(message) {
    if (message.notice === "hello") this.#checkHello(message);
    else if (message.notice === "error") throw new Error(message.text);
    else if (message.notice === "until") this.leases.get(message.hold)?.until(message.until_us);
    else if (message.notice === "lost") this.leases.get(message.hold)?.abort(message);
    else if (this.#requests.has(message.id)) {
      const { resolve, reject } = this.#requests.get(message.id);
      this.#requests.delete(message.id);
      if (message.error) reject(new RedlockError(message));
      else resolve(message);
    }
  }

  #checkHello({ schema, now_us }) {
    if (schema !== SCHEMA) throw new Error(`it speaks ${schema}, and not ${SCHEMA}`);
    if (!(this.#startedUs <= now_us && now_us <= nowUs()))
      throw new Error("its clock is not /proc/uptime here: a time namespace, or lxcfs");
    this.#greeted();
  }

  #end(text) {
    if (this.ended) return;
    this.ended = { error: "CLOSED", text };
    this.#greeted();
    this.#child.stdin.destroy();
    this.#child.stdout.destroy();
    for (const { reject } of this.#requests.values()) reject(new RedlockError(this.ended));
    for (const lease of this.leases.values()) lease.abort(this.ended);
    this.#requests.clear();
  }

  #write(request) {
    this.#child.stdin.write(toLine(request));
  }

  /** Its reply, or what `take` makes of it before the next line is read. */
  async request(request, take = (reply) => reply, signal) {
    await this.#hello;
    if (this.ended) throw new RedlockError(this.ended);
    signal?.throwIfAborted();
    const id = request.id ?? ++this.#lastId;
    this.#write({ ...request, id });
    return new Promise((resolve, reject) => {
      this.#requests.set(id, { resolve: (reply) => resolve(take(reply)), reject });
    });
  }

  /** A lease, or an error. It is that of `signal` as soon as that aborts. */
  lock(request, signal) {
    const id = ++this.#lastId;
    const granted = this.request({ ...request, id }, (reply) => new Lease(this, reply), signal);
    if (!signal) return granted;
    return new Promise((resolve, reject) => {
      const cancel = () => {
        if (this.#requests.has(id))
          this.#write({ op: "cancel", id: ++this.#lastId, lock: id });
        granted.then((lease) => lease.unlock()).catch(() => {}); // it crossed the `cancel`
        reject(signal.reason);
      };
      signal.addEventListener("abort", cancel, { once: true });
      const stop = () => signal.removeEventListener("abort", cancel);
      granted.finally(stop).then(resolve, reject);
    });
  }
}

/** The binary that comes with this package, or the first on PATH. */
function findCommand() {
  try {
    const { resolve } = createRequire(import.meta.url);
    return resolve(`redlock-quorum-linux-${process.arch}/redlock`);
  } catch {
    return "redlock";
  }
}

export class Redlock {
  #config;
  #pipe;

  constructor(config = {}) {
    if (process.platform !== "linux") {
      const text = "redlock-quorum needs Linux: redlock pipe runs nowhere else";
      throw new RedlockError({ error: "UNSUPPORTED", text });
    }
    this.#config = config;
  }

  #start() {
    const { nodes, config, args = [], command } = this.#config;
    const env = { ...process.env };
    if (nodes) env.REDLOCK_NODES = nodes.join(","); // ps(1) would show passwords in arguments
    if (config) env.REDLOCK_CONFIG = config;
    return new Pipe(command ?? (process.env.REDLOCK_COMMAND || findCommand()), args, env);
  }

  async using(keys, options, work) {
    if (typeof options === "function") [options, work] = [{}, options];
    const { signal, ...members } = options ?? {};
    signal?.throwIfAborted();
    if (!this.#pipe || this.#pipe.ended) this.#pipe = this.#start();
    const pipe = this.#pipe;
    const named = Array.isArray(keys) ? { keys } : { key: keys };
    pipe.enter();
    try {
      const lease = await pipe.lock({ ...inSnakeCase(members), ...named, op: "lock" }, signal);
      return await workUnder(lease, work);
    } finally {
      pipe.leave();
    }
  }
}

const inSnakeCase = (members) => Object.fromEntries(Object.entries(members).map(
  ([name, value]) => [name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase()), value]));

async function workUnder(lease, work) {
  const { signal, fence, slot, valid } = lease;
  const extend = (ttlMs) => lease.extend(ttlMs);
  const beat = () => lease.beat();
  let result;
  try {
    if (!valid()) await lease.settle();
    signal.throwIfAborted();
    result = await work(signal, { fence, slot, valid, extend, beat });
  } catch (error) {
    await lease.unlock().catch(() => {}); // the first error says more
    throw error;
  }
  await lease.unlock(); // an error here: the work may have overlapped with another owner's
  return result;
}
