#!/usr/bin/env python3
"""One allocation or one system call fails, each in turn, in a full cycle of a lock:
torture.py BUILD [--asan BUILD] [--interface I] [--kind K] [--what W] [--at N] [--json FILE]

A program connects to five servers, acquires, extends and releases a lock, and frees all that
it has, while test/support/failshim.c lets the first, the second, ... allocation or system call
of the library fail, until a cycle needs no further one. Every step that failed is made again,
and must succeed then: only one fails. Meanwhile the servers are asked who has the lock.
"""
import argparse
import collections
import concurrent.futures
import errno
import itertools
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/cli"))
import certificates  # noqa: E402
import lab  # noqa: E402

NODES = 5
TTL_MS = 10000    # of cycle.h; an extension makes it longer
MAX_TTL = "20s"   # new nodes wait for so long before they vote on fenced locks
JOBS = 3
SHOWN = 20        # of the runs that are wrong
ENOUGH = 3000     # allocations or calls; a cycle needs far fewer

WHATS = {"memory": 1, "calls": 2}
KINDS = ("exclusive", "shared", "slot", "record", "redisson", "set", "fenced", "fenced-shared",
         "fenced-slot", "fenced-set", "election")
# An exclusive lock on one node, on nodes that have names, by TLS (OpenSSL's own allocations and
# calls do not fail), and after another lease.
WAYS = ("single", "names", "tls", "waiting")
COMMANDS = ("run", "acquire", "extend", "release")
GONE = 1  # the exit code of a second release
CMD = "echo held $REDLOCK_TOKEN; read reply; echo end"  # of run
INTERFACES = {"async": KINDS + WAYS, "sync": ("exclusive", "fenced"), "cpp": ("exclusive",),
              "python": ("exclusive",),
              **dict.fromkeys(COMMANDS, ("exclusive", "fenced"))}
KEYS = {"set": 3, "fenced-set": 3}

# Where an error names what failed by other words than those of its number.
SAID = {"getrandom": ("no random numbers",), "socket": ("no free file descriptor",)}

# What stays of a lock that was released: its fence, its term.
KEPT = re.compile(r"!(fence|term)$")


# --- the shim ---

class Plan:
    """The file of failshim.c: which one fails, and what did."""
    LAYOUT = struct.Struct("=QQQQq32s64sQ")

    def __init__(self, path, what, first):
        self.path = path
        path.write_bytes(self.LAYOUT.pack(WHATS[what], first, 0, 0, 0, b"", b"", 0))

    def read(self):
        _, _, self.counted, self.failed, self.error, name, file, self.offset = \
            self.LAYOUT.unpack(self.path.read_bytes())
        self.name, self.file = (text.rstrip(b"\0").decode() for text in (name, file))
        return self

    def named_in(self, text):
        """Whether the text says what failed."""
        words = [os.strerror(self.error), *SAID.get(self.name, ())]
        if self.error == errno.ENOMEM:
            words += ["memory", "bad_alloc"]
        return any(word in text for word in words)


# --- the servers ---

class Nodes:
    """What the servers store, for one thread of the driver."""

    def __init__(self, servers):
        self.connections = [lab.Redis(server.path) for server in servers]

    def keys(self, name):
        """Of each server: {key: (its content as text, its TTL in ms)}"""
        return [{key: (self.content(redis, key), redis.call("PTTL", key))
                 for key in redis.call("KEYS", f"*{name}*")} for redis in self.connections]

    @staticmethod
    def content(redis, key):
        words = {"string": ("GET", key), "hash": ("HGETALL", key),
                 "zset": ("ZRANGE", key, 0, -1)}
        kind = redis.call("TYPE", key)
        return str(redis.call(*words[kind])) if kind in words else kind

    def forget(self, name):
        for redis in self.connections:
            for key in redis.call("KEYS", f"*{name}*"):
                redis.call("DEL", key)


def votes(found, token, keys, least_ms=0):
    """How many servers have the token in each of its keys, for at least so long."""
    token = token.removeprefix("r:")  # Redisson's layout has the rest
    return sum(sum(token in content and ms > least_ms for content, ms in node.values()) >= keys
               for node in found)


# --- one run ---

class Run:
    """A cycle in which one fails; `wrong` is what must not be."""

    def __init__(self, case, what, first, nodes, name):
        self.case, self.what, self.first = case, what, first
        self.nodes, self.name = nodes, name
        self.wrong, self.failures, self.token = [], [], ""
        self.keys = KEYS.get(case.kind, 1)
        self.ended = False

    def __str__(self):
        plan = self.plan
        return (f"{self.case.interface} {self.case.kind}, {self.what} {self.first}: {plan.name} "
                f"in {plan.file}+{plan.offset:#x}")

    def play(self, folder):
        self.plan = Plan(folder / self.name, self.what, self.first)
        self.cycle()
        self.plan.read()
        self.judge()
        self.nodes.forget(self.name)
        return self

    def cycle(self):
        self.call(self.case.words(self.name))
        if self.code != 0:
            self.wrong.append(f"exit code {self.code}")
        elif not self.ended:
            self.wrong.append("the program did not end its cycle")

    def call(self, words, fails=True):
        """Runs a program to its end; `fails`: by the plan."""
        with open(f"{self.plan.path}.err", "w+b") as err:
            process = lab.spawn(words, env=self.case.environment(self.plan if fails else None),
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err,
                                text=True)
            timer = threading.Timer(lab.STATE_SECONDS, self.kill, [process])
            timer.start()
            with process:
                self.out = list(map(self.look, self.lines(process)))
            timer.cancel()
            err.seek(0)
            self.err = err.read().decode(errors="replace")
        self.code = process.returncode

    def kill(self, process):
        self.wrong.append(f"it hangs: {lab.STATE_SECONDS} s are not enough")
        process.kill()

    def lines(self, process):
        for line in process.stdout:
            yield line.rstrip("\n")
            if line.split()[0] in ("held", "extended", "released"):
                try:
                    process.stdin.write("\n")
                    process.stdin.flush()
                except BrokenPipeError:
                    pass

    def look(self, line):
        """At what the program reports."""
        word, _, rest = line.partition(" ")
        if word == "held":
            self.expect(rest, "a false grant")
        elif word == "extended":
            self.expect(rest, "a false extension", TTL_MS)
        elif word == "released" and not any(text.startswith(("release", "unlock"))
                                            for text in self.failures):
            self.expect_released(rest)
        elif word == "failed":
            self.failures.append(rest)
        elif word == "left" and rest != "0 descriptors":
            self.wrong.append(line)
        elif word == "not":
            self.wrong.append(line)
        elif word == "end":
            self.ended = True
        return line

    def expect(self, token, what, least_ms=0):
        count = votes(self.nodes.keys(self.name), token, self.keys, least_ms)
        if count < self.case.quorum:
            self.wrong.append(f"{what}: {count} nodes have the token")

    def expect_released(self, token):
        count = votes(self.nodes.keys(self.name), token, self.keys)
        if count > len(self.case.uris) - self.case.quorum:
            self.wrong.append(f"a false release: {count} nodes have the token")

    def is_orphan(self, left):
        return bool(left)

    def judge(self):
        orphans = [f"{key} on node {i}" for i, node in enumerate(self.nodes.keys(self.name))
                   for key in node if not KEPT.search(key)]
        if self.is_orphan(orphans):
            self.wrong.append("orphans: " + ", ".join(orphans))
        if self.failures and not self.plan.failed:
            self.wrong.append("it failed, and nothing did")
        for text in self.failures if self.plan.failed else []:
            if not self.plan.named_in(text):
                self.wrong.append(f"the error does not name it: {text}")


class CommandRun(Run):
    """A command in which one fails; what failed is called again, and the lock is released."""

    def cycle(self):
        file, command = f"{self.plan.path}.token", self.case.interface
        if command in ("extend", "release"):
            self.step("acquire", file, fails=False)
        if not self.step(command, file):
            self.step(command, file, fails=False)
        if command in ("acquire", "extend"):
            self.step("release", file, fails=False)

    def is_orphan(self, left):
        """It ends before a node that it lost has connected again: that key expires."""
        return len(left) > 1

    def step(self, command, file, fails=True):
        """Whether it has succeeded."""
        self.call(self.case.words(self.name, command, file), fails)
        if self.code == 0:
            self.check(command, file)
        elif fails:
            self.failures.append(f"{self.code} {self.err}")
        elif (command, self.code) == ("release", GONE):  # the first one has released it late
            self.check(command, file)
        else:
            self.wrong.append(f"{command}, when nothing fails, exit code {self.code}: {self.err}")
        return self.code == 0

    def check(self, command, file):
        if command == "run":
            if not self.ended:
                self.wrong.append("the command of run did not end")
            return
        token = json.loads(lab.read(file)).get("token", "none")
        if command == "acquire":
            self.expect(token, "a false grant")
        elif command == "extend":
            self.expect(token, "a false extension", TTL_MS)
        elif command == "release":
            self.expect_released(token)


def reach(kind, quorum):
    """The URIs of the nodes, and the variables that belong to them."""
    if kind == "single":
        return quorum.uris[:1], {}
    if kind == "names":  # resolved by threads of the library
        return [f"redis://localhost:{server.listen()}" for server in quorum.servers], {}
    if kind == "tls":
        variables = certificates.Nodes(quorum).env()
        return variables["REDLOCK_NODES"].split(","), variables
    return quorum.uris, {}


class Case:
    run = Run

    def __init__(self, interface, kind, quorum):
        self.interface, self.kind, self.servers = interface, kind, quorum.servers
        self.uris, self.variables = reach(kind, quorum)
        self.quorum = len(self.uris) // 2 + 1

    def words(self, name):
        program = f"{options.asan or options.build}/test/torture/torture-{self.interface}"
        return [program, self.kind, name, *self.uris]

    def preloaded(self):
        return [f"{options.build}/test/failshim.so"]

    def environment(self, plan):
        more = {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=1", **self.variables}
        if plan:
            more |= {"FAIL_FILE": str(plan.path), "LD_PRELOAD": ":".join(self.preloaded())}
        if options.at:
            more["FAIL_STACK"] = "1"
        return lab.environment(more)


class Python(Case):
    """Its interpreter does not count, and the library that it loads does if it is preloaded."""

    def words(self, name):
        return ["/usr/bin/python3", "-B", str(ROOT / "test/torture/cycle.py"), self.kind, name,
                *self.uris]

    def preloaded(self):
        return [*super().preloaded(), f"{options.build}/src/libredlock.so.1"]

    def environment(self, plan):
        return super().environment(plan) | {
            "PYTHONPATH": str(ROOT / "python"),
            "REDLOCK_LIBRARY": f"{options.build}/src/libredlock.so.1"}


class Command(Case):
    run = CommandRun

    def words(self, name, command, file):
        fence = ["--fence"] if self.kind == "fenced" else []
        more = {"run": ["-n", "-t", "10s", *fence, name, "--", "sh", "-c", CMD],
                "acquire": ["-n", "-t", "10s", "--token-file", file, *fence, name],
                "extend": ["-t", "20s", "--token-file", file, name],
                "release": ["--token-file", file, name]}[command]
        return [lab.program, command, "--timeout", "2s", "--max-ttl", "20s", *more]

    def environment(self, plan):
        return super().environment(plan) | {"REDLOCK_NODES": ",".join(self.uris)}


def make_case(interface, kind, quorum):
    known = {"python": Python, **dict.fromkeys(COMMANDS, Command)}
    return known.get(interface, Case)(interface, kind, quorum)


# --- all of them ---

numbers = itertools.count()
local = threading.local()


def play(case, what, first, folder):
    if getattr(local, "servers", None) is not case.servers:
        local.servers, local.nodes = case.servers, Nodes(case.servers)
    return case.run(case, what, first, local.nodes, f"key{next(numbers):06}").play(folder)


def runs_of(case, what, pool, folder):
    """From the first one on, until nothing fails."""
    if options.at:
        yield play(case, what, options.at, folder)
        return
    waiting = collections.deque()
    for first in itertools.count(1):
        waiting.append(pool.submit(play, case, what, first, folder))
        if len(waiting) < JOBS:
            continue
        run = waiting.popleft().result()
        yield run
        if not run.plan.failed:
            break
        lab.check(first <= ENOUGH, f"more than {ENOUGH} calls in a cycle")
    for run in waiting:
        yield run.result()


def torture(interface, kind, what, quorum, pool, folder):
    runs = list(runs_of(make_case(interface, kind, quorum), what, pool, folder))
    failed = [run for run in runs if run.plan.failed]
    lab.check(failed or options.at, f"{interface} {kind} {what}: no call failed")
    wrong = [run for run in runs if run.wrong]
    for run in wrong[:SHOWN]:
        print(f"{run}\n  " + "\n  ".join(run.wrong))
        if options.verbose:
            print("\n".join(run.out), run.err, sep="\n")
    if options.texts:
        for text, count in collections.Counter(
                (run.plan.name, run.plan.file, text) for run in failed
                for text in run.failures or [""]).items():
            print(count, *text)
    reported = sum(bool(run.failures) for run in failed)
    print(f"{interface:<8}{kind:<15}{what:<8}{len(failed):>5} failed, {reported:>5} reported, "
          f"{len(wrong):>5} wrong", flush=True)
    return {"interface": interface, "kind": kind, "what": what, "failed": len(failed),
            "reported": reported, "wrong": len(wrong),
            "names": dict(collections.Counter(run.plan.name for run in failed))}


def is_fenced(kind):
    return "fenced" in kind or kind == "election"


def cases():
    for interface, kinds in INTERFACES.items():
        for kind in kinds:
            for what in WHATS:
                if (interface in options.interface and options.kind in (None, kind) and
                        options.what in (None, what)):
                    yield interface, kind, what


def main():
    folder = pathlib.Path(tempfile.mkdtemp(dir=lab.folder))
    rows = []
    with lab.Quorum(NODES) as plain, lab.Quorum(NODES) as fenced, \
            concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        admission = lab.start("admit", "--new", "--max-ttl", MAX_TTL, env=lab.on(fenced))
        for interface, kind, what in sorted(cases(), key=lambda case: is_fenced(case[1])):
            if is_fenced(kind) and admission:
                lab.finish(admission).expect(0)
                admission = None
            quorum = fenced if is_fenced(kind) else plain
            rows.append(torture(interface, kind, what, quorum, pool, folder))
    print(f"{'all':<31}" + ", ".join(f"{sum(row[name] for row in rows):>5} {name}"
                                     for name in ("failed", "reported", "wrong")))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["wrong"] for row in rows))


def arguments():
    words = argparse.ArgumentParser(prog="./dev try torture")
    words.add_argument("build")
    words.add_argument("--asan", metavar="BUILD")
    words.add_argument("--interface", choices=INTERFACES, nargs="+", default=INTERFACES)
    words.add_argument("--kind", choices=KINDS + WAYS)
    words.add_argument("--what", choices=WHATS)
    words.add_argument("--at", type=int, metavar="N", help="only the N-th, and show its callers")
    words.add_argument("--verbose", action="store_true", help="all that a run printed which is wrong")
    words.add_argument("--texts", action="store_true", help="each error that was reported")
    words.add_argument("--json", metavar="FILE")
    return words.parse_args()


options = arguments()
lab.program = os.path.join(os.path.abspath(options.build), "src/cli/redlock")
lab.run(main)
