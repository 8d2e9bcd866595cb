/*
 * node-redlock on ioredis; a lane is an async function.
 *
 * A cycle: acquire() and release() return at the majority, as early as the answers allow it.
 *
 * default: as in its README.
 * best: with many in flight ioredis sends together what came up in one turn of its loop
 * (enableAutoPipelining); with one in flight it does not, for that would cost a turn.
 */
import { createInterface } from "node:readline";
import Redis from "ioredis";
import Redlock from "redlock";

const TTL_MS = 10000;
const LANES_MAX = 64;

const uris = process.env.REDLOCK_NODES.split(",");

function connect(options) {
  const clients = uris.map((uri) => new Redis(uri, options));
  return { clients, redlock: new Redlock(clients) };
}

const now = () => Number(process.hrtime.bigint()) / 1000; // us

async function cycle({ redlock }, key) {
  const lock = await redlock.acquire([key], TTL_MS);
  await lock.release();
}

async function run(from, lane, end) {
  lane.times = [];
  lane.failed = 0;
  const name = `bench:${String(lane.number).padStart(4, "0")}:`;
  for (let began = now(); began < end; began = now()) {
    const key = name + String(++lane.count).padStart(10, "0");
    try {
      await cycle(from, key);
      lane.times.push(now() - began);
    } catch {
      lane.failed++;
    }
  }
}

async function lap(from, lanes, seconds) {
  const cpu = process.cpuUsage();
  const began = now();
  await Promise.all(lanes.map((lane) => run(from, lane, began + seconds * 1e6)));
  const took = now() - began;
  const { user, system } = process.cpuUsage(cpu);

  const times = lanes.flatMap((lane) => lane.times).sort((a, b) => a - b);
  const at = (share) => times[Math.floor(times.length * share)] ?? 0;
  console.log(JSON.stringify({
    cycles: times.length,
    failed: lanes.reduce((sum, lane) => sum + lane.failed, 0),
    seconds: took / 1e6,
    p50_us: at(0.5),
    p99_us: at(0.99),
    cpu_s: (user + system) / 1e6,
  }));
}

const alone = connect({});
const crowded = process.argv[2] === "best" ? connect({ enableAutoPipelining: true }) : alone;
for (const from of new Set([alone, crowded]))
  await cycle(from, "bench:first");
const lanes = Array.from({ length: LANES_MAX }, (_, number) => ({ number, count: 0 }));
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [count, seconds] = line.split(" ").map(Number);
  await lap(count === 1 ? alone : crowded, lanes.slice(0, count), seconds);
}
process.exit(0);
