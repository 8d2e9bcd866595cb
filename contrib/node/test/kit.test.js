// The conformance kit, by driver.js.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const path = (name) => fileURLToPath(new URL(name, import.meta.url));

test("the conformance kit", { timeout: 120_000 }, (t, done) => {
  const args = [path("../../pipe/conform.py"), process.execPath, path("driver.js")];
  execFile("python3", args, (error, stdout) => {
    assert.ok(!error, stdout);
    done();
  });
});
