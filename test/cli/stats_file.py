#!/usr/bin/env python3
"""redlock run --stats-file: what Prometheus' own parser finds in the file."""
import os
import re
import stat
import subprocess
import sys

import lab
from lab import PATIENT, case, check, equal, finish, on, redlock

# Debian's module, also if another python comes first in PATH.
sys.path.append("/usr/lib/python3/dist-packages")
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

EVERY_S = 15
KEY = 'a "key" \\ of\nmine'


class Metrics:
    def __init__(self, text):
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.types = {name: family.type for name, family in self.families.items()}

    def samples(self, name, **labels):
        family = self.families[re.sub(r"_(total|bucket|sum|count)$", "", name)]
        return [sample for sample in family.samples if sample.name == name
                and labels.items() <= sample.labels.items()]

    def value(self, name, **labels):
        [sample] = self.samples(name, **labels)
        return sample.value


def metrics_of(path):
    return Metrics(lab.read(path))


def run(quorum, path, *words, key=KEY, program=("true",), code=0):
    return redlock("run", *PATIENT, "--stats-file", path, *words, key, *program,
                   env=on(quorum)).expect(code)


def folder_of(path):
    return sorted(os.listdir(os.path.dirname(path)))


@case("a run that acquires: each number, and the labels")
def _(quorum):
    path = lab.temporary("job.prom")
    os.umask(0o077)
    run(quorum, path)
    os.umask(0o022)
    equal(folder_of(path), ["job.prom"], "no draft is left")
    equal(stat.S_IMODE(os.stat(path).st_mode), 0o644, "mode")
    found = metrics_of(path)
    for name, family in found.families.items():
        check(name.startswith("redlock_") and family.documentation, name)
        check(family.type in ("counter", "gauge", "histogram"), f"{name}: {family.type}")
        check(family.samples, f"{name} has no sample")
        for sample in family.samples:
            equal(sample.labels["key"], KEY, sample.name)
    equal(found.value("redlock_acquires_total", result="ok"), 1, "acquires")
    equal(found.value("redlock_hold_seconds_count"), 1, "holds")
    equal(found.value("redlock_held"), 0, "held")
    equal(found.value("redlock_quorum"), 3, "quorum")
    equal({sample.labels["node"] for sample in found.samples("redlock_node_votes")},
          set(quorum.uris), "nodes")
    equal({sample.value for sample in found.samples("redlock_node_votes")}, {1}, "votes")


@case("histograms: buckets rise, the last one is the count, and the sum fits")
def _(quorum):
    path = lab.temporary("job.prom")
    run(quorum, path)
    found = metrics_of(path)
    histograms = [name for name, kind in found.types.items() if kind == "histogram"]
    check(len(histograms) == 5, f"{histograms}")
    for name in histograms:
        nodes = quorum.uris if "_node_" in name else [None]
        for node in nodes:
            labels = {"node": node} if node else {}
            buckets = found.samples(f"{name}_bucket", **labels)
            bounds = [float(sample.labels["le"]) for sample in buckets]
            counts = [sample.value for sample in buckets]
            equal(bounds, sorted(bounds), "bounds")
            equal(counts, sorted(counts), "counts")
            equal(counts[-1], found.value(f"{name}_count", **labels), "+Inf")
            check(found.value(f"{name}_sum", **labels) >= 0, "sum")
    held_s = found.value("redlock_hold_seconds_sum")
    check(0 < held_s < 30, f"held for {held_s} s")


@case("a lock that another client holds; and several runs that replace the file")
def _(quorum):
    path = lab.temporary("job.prom")
    for server in quorum.servers:
        server.call("SET", KEY, "another", "PX", "60000")
    run(quorum, path, "-n", code=75)
    found = metrics_of(path)
    equal(found.value("redlock_acquires_total", result="taken"), 1, "taken")
    for server in quorum.servers:
        server.call("DEL", KEY)
    run(quorum, path)
    equal(metrics_of(path).value("redlock_acquires_total", result="ok"), 1, "replaced")


@case("while the command runs, the file is written every 15 s")
def _(quorum):
    path = lab.temporary("job.prom")
    process = lab.start("run", *PATIENT, "--stats-file", path, "k", "sleep", "600", env=on(quorum))
    lab.wait_for(lambda: os.path.exists(path), "the file", 3 * EVERY_S)
    equal(metrics_of(path).value("redlock_held"), 1, "held")
    process.terminate()
    finish(process).expect(143)
    equal(metrics_of(path).value("redlock_held"), 0, "held at the end")


@case("elect writes it, too")
def _(quorum):
    path = lab.temporary("job.prom")
    redlock("admit", "--new", "--at-once", env=on(quorum)).expect(0)
    redlock("elect", "-t", "9s", "--stats-file", path, "leader", "true", env=on(quorum)).expect(0)
    found = metrics_of(path)
    equal(found.value("redlock_acquires_total", result="ok"), 1, "acquires")
    equal(found.value("redlock_voting_nodes_fenced"), 5, "nodes that vote on elections")


@case("a file that cannot be written: one line, and the job is not disturbed")
def _(quorum):
    path = os.path.join(lab.temporary("none"), "job.prom")
    ended = run(quorum, path, program=("sh", "-c", "exit 7"), code=7)
    equal(ended.err, f"redlock: --stats-file: {path}: No such file or directory\n", "stderr")


@case("what is no regular file is refused before the lock is taken")
def _(quorum):
    link = lab.temporary("link")
    os.symlink(lab.temporary("target"), link)
    for path in "/dev/null", "/tmp/", "", link:
        ended = run(quorum, path, code=64)
        check("--stats-file" in ended.err, ended.err)
    equal(quorum.keys(), 0, "keys")


@case("the label shows no password")
def _(_):
    with lab.Quorum(options=("--requirepass", "correct-horse")) as guarded:
        path = lab.temporary("job.prom")
        uris = [uri.replace("unix://", "unix://:correct-horse@") for uri in guarded.uris]
        redlock("run", *PATIENT, "--stats-file", path, "k", "true",
                env={"REDLOCK_NODES": ",".join(uris)}).expect(0)
        check("horse" not in lab.read(path), lab.read(path))
        equal(len(metrics_of(path).samples("redlock_node_connected")), 5, "nodes")


@case("promtool finds nothing to complain about")
def _(quorum):
    path = lab.temporary("job.prom")
    run(quorum, path)
    if not lab.shutil.which("promtool"):
        lab.say("there is no promtool: not checked")
        return
    with open(path, encoding="utf-8") as file:
        done = subprocess.run(["promtool", "check", "metrics"], stdin=file, capture_output=True,
                              text=True)
    equal(done.stdout + done.stderr, "", "promtool check metrics")


lab.main()
