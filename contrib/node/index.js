// Locks of libredlock by `redlock pipe`: ../../docs/pipe.md has its lines, and the duties of this
// file. Times in _us are microseconds of CLOCK_BOOTTIME.
import { spawn } from "node:child_process";
import { openSync, readSync } from "node:fs";
import { createRequire } from "node:module";
import { setImmediate as pollOnce } from "node:timers/promises";

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

/** One line, or an error: the pipe would end at a line that it cannot read. */
function toLine(request) {
  const line = JSON.stringify(request, (_, value) => {
    if (typeof value === "string" && (value.includes("\0") || Buffer.from(value).toString() !== value))
      throw new RedlockError({ error: "BAD_KEY", reason: "MALFORMED", text: "it is no UTF-8 without NUL" });
    return value;
  }) + "\n";
  if (Buffer.byteLength(line) > LINE_BYTES)
    throw new RedlockError({ error: "BAD_KEY", reason: "TOO_LONG", text: "a request has above 64 KiB" });
  return line;
}

/** What is held. It ends once: by abort(), or when `using` is done with it. */
class Lease {
  #untilUs;
  #timer;
  #controller = new AbortController();
  signal = this.#controller.signal;

  constructor(pipe, { hold, until_us, fence, slot }) {
    Object.assign(this, { pipe, number: hold, fence, slot });
    this.until(until_us);
  }

  valid = () => !this.signal.aborted && nowUs() < this.#untilUs;

  until(untilUs) {
    if (this.signal.aborted) return; // it never comes back
    this.#untilUs = untilUs;
    clearTimeout(this.#timer);
    const leftMs = Math.max(0, (untilUs - nowUs()) / 1000);
    this.#timer = setTimeout(() => this.settle(), Math.min(leftMs, LONGEST_TIMER_MS));
  }

  /** Aborts it at its deadline, but not before a newer one in the pipe was read. */
  async settle() {
    if (!this.valid()) await pollOnce();
    if (this.valid()) this.until(this.#untilUs);
    else this.abort({ error: "EXPIRED", reason: "DEADLINE", text: "the deadline of the lock passed" });
  }

  abort(why) {
    clearTimeout(this.#timer);
    this.#controller.abort(new RedlockError(why));
  }

  /** Only now, when nothing works under the lock any more. */
  async unlock() {
    await this.settle();
    const { signal } = this;
    clearTimeout(this.#timer);
    try {
      await this.pipe.request({ op: "unlock", hold: this.number });
    } catch (error) {
      if (!signal.aborted && LOST_BEFORE.includes(error.code)) throw error;
    } finally {
      this.pipe.leases.delete(this.number);
    }
    signal.throwIfAborted();
  }

  async extend(ttlMs) {
    this.signal.throwIfAborted();
    this.until((await this.pipe.request({ op: "extend", hold: this.number, ttl_ms: ttlMs })).until_us);
  }

  async beat() {
    this.signal.throwIfAborted();
    await this.pipe.request({ op: "beat", hold: this.number });
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
      throw new Error("its clock is not that of /proc/uptime here (a time namespace, or lxcfs)");
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

  /** Its reply. `onReply` gets it at once: the next line may be about the same hold. */
  async request(request, onReply = (reply) => reply, onSent = () => {}) {
    await this.#hello;
    if (this.ended) throw new RedlockError(this.ended);
    const id = ++this.#lastId;
    const line = toLine({ ...request, id });
    return new Promise((resolve, reject) => {
      this.#requests.set(id, { resolve: (reply) => resolve(onReply(reply)), reject });
      this.#child.stdin.write(line);
      onSent(id);
    });
  }

  /** A lease, or an error; also if `signal` aborts first. */
  async lock(request, signal) {
    let id;
    const granted = this.request(request, (reply) => {
      const lease = new Lease(this, reply);
      this.leases.set(lease.number, lease);
      return lease;
    }, (sent) => (id = sent));
    if (!signal) return granted;
    return new Promise((resolve, reject) => {
      const cancel = () => {
        if (id && !this.ended) this.#child.stdin.write(toLine({ op: "cancel", id: ++this.#lastId, lock: id }));
        granted.then((lease) => lease.unlock()).catch(() => {}); // it was on its way
        reject(signal.reason);
      };
      signal.addEventListener("abort", cancel, { once: true });
      granted.then(resolve, reject).finally(() => signal.removeEventListener("abort", cancel));
    });
  }
}

/** The binary that comes with this package, or the first on PATH. */
function findCommand() {
  try {
    return createRequire(import.meta.url).resolve(`redlock-quorum-linux-${process.arch}/redlock`);
  } catch {
    return "redlock";
  }
}

export class Redlock {
  #start;
  #pipe;

  constructor({ nodes, config, args = [], command } = {}) {
    if (process.platform !== "linux")
      throw new RedlockError({ error: "UNSUPPORTED", text: "redlock-quorum needs Linux: redlock pipe runs nowhere else." });
    this.#start = () => {
      const env = { ...process.env };
      if (nodes) env.REDLOCK_NODES = nodes.join(" "); // not as arguments: ps(1) shows them
      if (config) env.REDLOCK_CONFIG = config;
      return new Pipe(command ?? (process.env.REDLOCK_COMMAND || findCommand()), args, env);
    };
  }

  async using(keys, options, work) {
    if (typeof options === "function") [options, work] = [{}, options];
    const { signal, ...members } = options;
    signal?.throwIfAborted();
    if (!this.#pipe || this.#pipe.ended) this.#pipe = this.#start();
    const pipe = this.#pipe;
    pipe.enter();
    try {
      return await this.#hold(await pipe.lock({ ...inSnakeCase(members), ...named(keys), op: "lock" }, signal), work);
    } finally {
      pipe.leave();
    }
  }

  async #hold(lease, work) {
    let result;
    try {
      if (!lease.valid()) await lease.settle();
      lease.signal.throwIfAborted();
      const { signal, fence, slot, valid } = lease;
      result = await work(signal, { fence, slot, valid, extend: (ttlMs) => lease.extend(ttlMs), beat: () => lease.beat() });
    } catch (error) {
      await lease.unlock().catch(() => {}); // the first error says more
      throw error;
    }
    await lease.unlock(); // an error here: what `work` did may have overlapped
    return result;
  }
}

const named = (keys) => (Array.isArray(keys) ? { keys } : { key: keys });

const inSnakeCase = (members) => Object.fromEntries(Object.entries(members).map(
  ([name, value]) => [name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase()), value]));
