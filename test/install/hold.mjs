// Takes a lock by the packages of npm, on the nodes of REDLOCK_NODES.
import { Redlock } from "redlock-quorum";

await new Redlock().using("k", async (signal, hold) => {
  if (!hold.valid()) throw new Error("the lock is not valid");
  console.log("held by Node");
});
