#!/usr/bin/env python3
"""Redisson and `redlock run --redisson` on one key of five servers: alternate.py REDLOCK
[--alternations N] [--json FILE]

Both lock the key again and again. In the lock each makes one and the same directory, so an
overlap cannot stay unseen. Prints how often the lock went from one to the other, how many
overlaps there were, and how soon Redisson had the lock after a command had ended. Then it tries
what docs/kinds.md says of Redisson's other locks. It takes Java and Maven; without them it is
skipped.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/cli"))
import combine  # noqa: E402
import lab  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parent
BUILT = ROOT / "build/redisson"
INSTALL_SECONDS = 600
WAKE_MS = 100  # within which Redisson's waiters are to be woken, in the median
SECTION = """mkdir {0}/section || exit 3
echo "redlock $(date +%s%3N)" > {0}/last
rmdir {0}/section"""


def install():
    """Redisson can be used."""
    if not shutil.which("mvn") or not shutil.which("java"):
        print("redisson is skipped: it takes java and mvn")
        return False
    shutil.copytree(SOURCE, BUILT, dirs_exist_ok=True)
    done = subprocess.run(["./install"], cwd=BUILT, text=True, timeout=INSTALL_SECONDS,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        print("redisson is skipped, as it cannot be installed:", done.stdout.strip()[-200:])
    return done.returncode == 0


def listening(quorum):
    """The environment; Redisson has no unix sockets."""
    ports = [server.listen() for server in quorum.servers]
    return {"REDLOCK_NODES": ",".join(f"redis://127.0.0.1:{port}" for port in ports)}


def java_words(*words):
    return ["java", "-cp", f"{BUILT}/target/classes:{BUILT}/lib/*", *words]


class Java:
    """Redisson's side; a thread counts what it prints."""

    def __init__(self, folder, env):
        self.changes = self.overlaps = self.locks = 0
        self.wakes = []
        self.process = lab.spawn(
            java_words("Alternate", folder, "job"),
            env=lab.environment(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        lab.equal(self.process.stdout.readline().strip(), "ready", "what Redisson's side says")
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            before, since_ms, overlaps = line.split()
            self.locks += 1
            self.overlaps += int(overlaps)
            if before == "redlock":
                self.changes += 1
                self.wakes.append(int(since_ms))

    def end(self):
        self.process.stdin.write("\n")
        self.process.stdin.close()
        lab.equal(self.process.wait(lab.END_SECONDS), 0, "exit code of Redisson's side")
        self.reader.join()


def play(quorum, alternations):
    folder = tempfile.mkdtemp(dir=lab.folder)
    env = listening(quorum)
    java = Java(folder, env)
    ours = overlaps = 0
    while java.changes < alternations:
        lab.check(java.process.poll() is None, "Redisson's side has ended")
        done = lab.redlock("run", "-q", "--timeout", "5s", "--redisson", "job", "--", "sh", "-c",
                           SECTION.format(folder), env=env)
        ours += 1
        overlaps += done.code == 3
        lab.check(done.code in (0, 3), f"redlock run ends with {done.code}: {done.err}")
    java.end()
    return {"redlock": ours, "redisson": java.locks, "alternations": java.changes,
            "overlaps": overlaps + java.overlaps,
            "wake_p50_ms": statistics.median(java.wakes)}


def try_others(quorum):
    """How many cases are not as docs/kinds.md says."""
    env, wrong = listening(quorum), 0
    java = combine.Java(java_words("Combine"), env)
    for name, is_so in combine.combine(quorum, java, env):
        print("ok" if is_so else "not ok", "-", name, flush=True)
        wrong += not is_so
    java.end()
    return wrong


def main():
    words = argparse.ArgumentParser(prog="./dev try redisson")
    words.add_argument("redlock")
    words.add_argument("--alternations", type=int, default=1000,
                       help="from redlock to Redisson (%(default)s)")
    words.add_argument("--json", metavar="FILE")
    options = words.parse_args()
    if not install():
        return 0
    lab.program = os.path.abspath(options.redlock)
    with lab.Quorum(5) as quorum:
        seen = play(quorum, options.alternations)
    with lab.Quorum(5) as quorum:
        seen["wrong_cases"] = try_others(quorum)
    for name, value in seen.items():
        print(f"{name:13}{value}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(seen, indent=1) + "\n")
    is_slow = seen["wake_p50_ms"] > WAKE_MS
    if is_slow:
        print(f"wake_p50_ms: missed, at most {WAKE_MS}")
    return int(seen["overlaps"] > 0 or seen["wrong_cases"] > 0 or is_slow)


if __name__ == "__main__":
    lab.run(main)
