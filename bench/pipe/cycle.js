// A contender of the races (../lap.h): the wrapper of redlock pipe for Node, with one lane.
import { createInterface } from "node:readline";
import { Redlock } from "../../contrib/node/index.js";

const redlock = new Redlock({ args: process.argv.slice(2) });
const options = { ttlMs: 10_000 };
const key = `bench:${String(process.pid).padStart(15, "0")}`;
const now = () => Number(process.hrtime.bigint()) / 1000; // us

async function lap(seconds) {
  const times = [], grants = [];
  const cpu = process.cpuUsage();
  const began = now();
  for (let from = began, end = began + seconds * 1e6; from < end;) {
    await redlock.using(key, options, () => grants.push(now() - from));
    const to = now();
    times.push(to - from);
    from = to;
  }
  const took = now() - began;
  const { user, system } = process.cpuUsage(cpu);
  const at = (all, share) => all.sort((a, b) => a - b)[Math.floor(all.length * share)];
  console.log(JSON.stringify({
    cycles: times.length, seconds: took / 1e6, cpu_s: (user + system) / 1e6,
    p50_us: at(times, 0.5), p99_us: at(times, 0.99), grant_us: at(grants, 0.5),
  }));
}

await redlock.using(key, options, () => {});
console.log("ready");
for await (const line of createInterface({ input: process.stdin }))
  await lap(Number(line.split(" ")[1]));
