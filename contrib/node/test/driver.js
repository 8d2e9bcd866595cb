// The driver of ../../pipe/conform.py: steps one after the other, those with a comma at once.
import { spawn } from "node:child_process";
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Redlock } from "../index.js";

const LINGERS_MS = 300; // the work goes on after an abort
const redlock = new Redlock();
const print = (...words) => writeSync(1, words.join(" ") + "\n");

const fail = (key) => (error) => print(key, "failed", error.code ?? error.name, error.message);

function work(verb, key, ms) {
  return async (signal, hold) => {
    print(key, "held", hold.fence);
    if (verb === "child") print(key, "child", spawn("sleep", ["40"], { stdio: "ignore" }).pid);
    if (verb === "extend") {
      await hold.extend(6000).then(() => print(key, "extended"),
        (error) => print(key, "not-extended", error.code));
    }
    await sleep(ms, null, { signal }).catch(async () => {
      print(key, "aborted", signal.reason.code);
      await sleep(LINGERS_MS);
    });
    print(key, "returned", hold.valid() ? "valid" : "invalid");
  };
}

async function run(step) {
  const [verb, key, number] = step.split(":");
  if (verb === "many") {
    const all = Array.from({ length: number }, (_, i) => redlock.using(key + i, () => {}));
    const held = (await Promise.allSettled(all)).filter(({ status }) => status === "fulfilled");
    return print(key, "many", held.length);
  }
  const signal = verb === "cancel" ? AbortSignal.timeout(Number(number)) : undefined;
  await redlock.using(key, { signal, fence: true }, work(verb, key, Number(number)))
    .then(() => print(key, "released"), fail(key));
}

for (const step of process.argv.slice(2)) await Promise.all(step.split(",").map(run));
