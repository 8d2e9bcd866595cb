#!/usr/bin/env python3
"""Each alert of contrib/prometheus fires by its real fault, and ends when that is mended.

The metrics are recorded from real clients before, during and after the fault; promtool plays
them, slower than they were: what a counter gained between two looks, or in one job, it gains in
each minute. Without promtool: skipped; ./dev check alerts installs it.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import certificates
import lab
from fencing import found
from lab import Quorum, Skipped, case, check, equal, on, redlock, wait_for
from monitoring import Monitor
from operating import LOST

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "contrib/prometheus/redlock.rules.yml"
NAMES = set(re.findall(r"redlock_\w+", RULES.read_text()))
PHASE = 60  # minutes: longer than each alert takes to fire or to end
EVERY = ("--every", "100ms")
MAX_TTL = "30s"  # of the canary, which is the quarantine of a node that restarted


# --- what is recorded ---

def parse(text):
    """{series: value} of the metrics that the rules use."""
    rows = re.findall(r"^(\w+)(?:{(.*)})? (\S+)$", text, re.MULTILINE)
    return {f'{name}{{{labels}{"," if labels else ""}instance="i",job="redlock"}}': float(value)
            for name, labels, value in rows if name in NAMES}


def look(monitor):
    return {**parse(monitor.get("/metrics")[1]), 'up{instance="i",job="redlock"}': 1}


def record(monitor, cycles=3):
    """Two looks, with some cycles of the canary in between."""
    def count():
        return sum(monitor.metrics("redlock_canary_cycles_total").values())
    first, begin = look(monitor), count()
    wait_for(lambda: count() >= begin + cycles, "cycles of the canary")
    return first, look(monitor)


def job(quorum, *words, code, **more):
    """What one run of the command leaves: all that its counters have is gained in it."""
    path = lab.temporary("job.prom")
    redlock("run", *words[:-1], "--stats-file", path, "k", words[-1],
            env={**on(quorum), **more}).expect(code)
    return {}, parse(lab.read(path))


# --- what promtool plays ---

def values(series, phases):
    total, shown = 0, []
    for first, second in phases:
        for _ in range(PHASE):
            if series not in second:
                shown.append("stale")
            elif re.search(r"_(total|count){", series):
                total += second[series] - first.get(series, 0)
                shown.append(f"{total:g}")
            else:
                shown.append(f"{second[series]:g}")
    return " ".join(shown)


def play(phases, alerts):
    """The alerts fire at the end of the second of three phases only."""
    series = sorted({name for phase in phases for look in phase for name in look})
    expected = [{"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > bool 0',
                 "eval_time": f"{(number + 1) * PHASE - 1}m",
                 "exp_samples": [{"labels": "{}", "value": 1}] if number == 1 else []}
                for alert in alerts for number in range(len(phases))]
    test = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [
        {"interval": "1m", "promql_expr_test": expected,
         "input_series": [{"series": name, "values": values(name, phases)} for name in series]}]}
    path = lab.write(lab.temporary("alarms.yml"), json.dumps(test))  # which is YAML, too
    done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True,
                          check=False)
    check(done.returncode == 0, f"{alerts}: {done.stdout}{done.stderr}")


def need_promtool():
    if not shutil.which("promtool"):
        raise Skipped("there is no promtool (Debian's package prometheus)")


class Drill:
    """A monitor of healthy nodes, and faults that are mended."""

    def __init__(self, quorum, monitor):
        self.quorum, self.monitor = quorum, monitor
        self.await_health()
        self.before = record(monitor)

    def await_health(self):
        wait_for(lambda: self.monitor.get("/healthz")[0] == 200 and not self.findings("defect") and
                 sum(self.monitor.metrics("redlock_node_votes").values()) == 3, "health")

    def findings(self, word):
        return [row for row in self.monitor.metrics("redlock_node_finding") if word in row]

    def sum(self, name):
        return sum(self.monitor.metrics(name).values())

    def fault(self, alerts, begin, is_seen, mend):
        begin()
        wait_for(is_seen, f"what fires {alerts}")
        during = record(self.monitor)
        mend()
        wait_for(lambda: not is_seen(), f"what ends {alerts}")
        self.await_health()
        play([self.before, during, record(self.monitor)], alerts)


# --- the faults ---

def cut(server):
    """Ends all connections but this one."""
    server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def hide(server):
    """Nobody else can connect any more, and the server goes on."""
    cut(server)
    os.rename(server.path, server.path + ".hidden")
    cut(server)


def show(server):
    os.rename(server.path + ".hidden", server.path)


@case("each alert has its fault here")
def _():
    here = set(re.findall(r'"(Redlock\w+)"', pathlib.Path(__file__).read_text()))
    equal(here, set(re.findall(r"- alert: (\w+)", RULES.read_text())), "alerts with a fault")


@case("nodes that fail, forget, hang, are full, unfit or cut off, and wrong clocks")
def _():
    need_promtool()
    with Quorum(3, wrong=(2,)) as quorum, Monitor(quorum, *EVERY, "--max-ttl", MAX_TTL) as monitor:
        one = quorum[0]
        drill = Drill(quorum, monitor)
        drill.fault(["RedlockNodeDown", "RedlockNoMargin"], lambda: hide(one),
                    lambda: drill.sum("redlock_node_connected") == 2, lambda: show(one))
        drill.fault(["RedlockNoQuorum", "RedlockCanaryFails"],
                    lambda: [hide(server) for server in quorum.servers[:2]],
                    lambda: drill.sum("redlock_voting_nodes") == 1,
                    lambda: [show(server) for server in quorum.servers[:2]])

        def restart():
            quorum.kill(0)
            quorum.start()
        drill.fault(["RedlockNodeDoesNotVote"], restart,
                    lambda: drill.sum("redlock_node_connected") == 3 and
                    drill.sum("redlock_node_votes") == 2, lambda: None)
        drill.fault(["RedlockNodeUnfit", "RedlockNodeRefuses"],
                    lambda: one.call("CONFIG", "SET", "maxmemory", 1),
                    lambda: drill.findings("over_memory"),
                    lambda: one.call("CONFIG", "SET", "maxmemory", 0))
        drill.fault(["RedlockClockOff"], lambda: quorum[2].clock.jump(5000000),
                    lambda: drill.findings("clock_off"), quorum[2].clock.mend)

        # These two have no state to wait for: the counters have to rise between the looks.
        first = look(monitor)
        for _ in range(3):
            connected = drill.sum("redlock_node_disconnects_total")
            cut(one)
            wait_for(lambda: drill.sum("redlock_node_disconnects_total") > connected, "its end")
            drill.await_health()
        play([drill.before, (first, look(monitor)), record(monitor)], ["RedlockNodeFlaps"])
        first, late = look(monitor), drill.sum("redlock_node_timeouts_total")
        one.stop()
        wait_for(lambda: drill.sum("redlock_node_timeouts_total") > late, "a late reply")
        one.go_on()
        during = first, look(monitor)
        drill.await_health()
        play([drill.before, during, record(monitor)], ["RedlockNodeSlow"])


@case("fenced nodes that lost their markers, until an operator readmits them")
def _():
    need_promtool()
    with Quorum(3) as quorum:
        found(quorum, "--max-ttl", "1s")
        with Monitor(quorum, *EVERY) as monitor:
            drill = Drill(quorum, monitor)
            drill.fault(["RedlockNoFencedQuorum"],
                        lambda: [server.call("FLUSHALL") for server in quorum.servers[:2]],
                        lambda: drill.sum("redlock_voting_nodes_fenced") == 1,
                        lambda: redlock("admit", "--readmit", env=on(quorum)).expect(0))


@case("a monitor that is down, and one that tries no lock")
def _():
    need_promtool()
    down = ({}, {'up{instance="i",job="redlock"}': 0})
    with Quorum(3) as quorum:
        with Monitor(quorum, *EVERY) as monitor:
            before = Drill(quorum, monitor).before
            with Monitor(quorum, "--every", "1h") as idle:
                wait_for(lambda: sum(idle.metrics("redlock_canary_cycles_total").values()) == 1,
                         "its only cycle")
                play([before, (look(idle), look(idle)), record(monitor)], ["RedlockCanaryOverdue"])
        with Monitor(quorum, *EVERY) as monitor:
            play([before, down, record(monitor)], ["RedlockMonitorDown"])


@case("a certificate that ends, until the node has a new one")
def _():
    need_promtool()
    with Quorum(3) as quorum:
        authority = certificates.Authority("CA")
        pairs = [authority.sign(days, dates=("-days", days)) for days in ("30", "5")]
        uris = [f"rediss://localhost:{certificates.serve(server, authority, pairs[0], 'no')}"
                for server in quorum.servers]

        def give(pair):
            cert, key = pair
            quorum[0].call("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key)
            cut(quorum[0])
        with Monitor(quorum, *EVERY, REDLOCK_NODES=",".join(uris),
                     REDLOCK_CACERT=authority.cert) as monitor:
            drill = Drill(quorum, monitor)
            drill.fault(["RedlockCertificateEnds"], lambda: give(pairs[1]),
                        lambda: drill.findings("certificate_ends"), lambda: give(pairs[0]))


@case("jobs that are refused, find the lock taken, get no quorum, or lose the lock")
def _():
    need_promtool()
    with Quorum(3) as quorum:
        well = job(quorum, "-n", "true", code=0)
        play([well, job(quorum, "-n", "true", code=77, REDLOCK_PASSWORD="wrong"), well],
             ["RedlockDenied"])
        quorum.occupy("k", range(3))
        taken = job(quorum, "-n", "true", code=75)
        for server in quorum.servers:
            server.call("DEL", "k")
        play([well, taken, well], ["RedlockContention"])
        path = lab.temporary("lost.prom")
        process = lab.start("run", "-t", "3s", "--stats-file", path, "k", "sleep", "1000",
                            env={"REDLOCK_NODES": quorum.nodes})  # by default, extensions fail soon
        wait_for(lambda: None not in quorum.values("k"), "the lock on all nodes")
        for server in quorum.servers[:2]:
            server.process.send_signal(signal.SIGSTOP)
        lab.finish(process).expect(LOST)
        for server in quorum.servers[:2]:
            server.go_on()
        play([well, ({}, parse(lab.read(path))), well], ["RedlockLockLost", "RedlockRenewalsFail"])
        quorum.kill(0, 1)
        play([well, job(quorum, "-n", "true", code=69), well], ["RedlockAcquiresFail"])


class Holder:
    """A program that holds many locks by this many clients; ends with the block."""
    LOCKS = 6000  # more losses than one client queues for `log`; four clients queue them all

    def __init__(self, quorum, clients):
        self.quorum = quorum
        self.process = lab.spawn(
            [sys.executable, "-B", ROOT / "test/cli/holder.py", str(self.LOCKS), str(clients)],
            env=lab.environment(on(quorum, PYTHONPATH=str(ROOT / "python"),
                                   REDLOCK_LIBRARY=os.environ["REDLOCK_LIBRARY"])),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def look(self):
        print(file=self.process.stdin, flush=True)
        return parse(json.loads(self.process.stdout.readline()))

    def suspend(self):
        """Two looks, and in between the host is suspended: then all locks are lost at once."""
        first = self.look()
        self.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: self.quorum.keys() == 0, "the end of all keys")
        self.process.send_signal(signal.SIGCONT)
        wait_for(lambda: self.lost() == self.LOCKS, "the loss of all locks")
        return first, self.look()

    def lost(self):
        return sum(value for name, value in self.look().items()
                   if name.startswith("redlock_losses_total"))


@case("a client that loses thousands of locks at once, until several clients hold them")
def _():
    need_promtool()
    with Quorum(3) as quorum:
        with Holder(quorum, 1) as holder:
            before = holder.look(), holder.look()
            during = holder.suspend()
        with Holder(quorum, 4) as holder:
            play([before, during, holder.suspend()], ["RedlockEventsDropped"])


lab.main(servers=0)
