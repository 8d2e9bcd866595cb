#!/usr/bin/env python3
"""redlock bench --plot: what the picture shows, and how it fails."""
import itertools
import json
import math
import os
import re
import shutil
import urllib.parse

import lab
from benching import (CONFIG, FAILED, PATIENT, PROGRESS, QUICK, bench, measure, served, texts,
                      Running)
from lab import case, check, equal, redlock


@case("--plot: a well-formed picture that names each node, with a strip for silent nodes")
def _(quorum):
    path = lab.temporary("x.svg")
    bench(quorum, *QUICK, "--plot", path).expect(0, err=PROGRESS)
    names = [uri.removeprefix("unix://") for uri in quorum.uris]
    shown = texts(path)
    check("the lock: 3 of 5" in shown and "p50" in shown and "p99" in shown, f"{shown}")
    for name in names:
        half = (name[:13], name[-13:])
        equal(sum(one.startswith(half[0]) and one.endswith(half[1]) for one in shown), 1, name)
    check("Nodes that did not grant" not in shown, "a strip without need")
    quorum.kill(1)
    bench(quorum, *QUICK, "--plot", path).expect(0)
    shown = texts(path)
    check("Nodes that did not grant" in shown, f"no strip: {shown}")
    equal(sum(one.endswith("/2.sock") for one in shown), 1, "in the strip, and no curve")


def gnuplot_that(*commands):
    """The environment for a gnuplot that runs these commands first when it draws the picture."""
    real = shutil.which("gnuplot")
    fake = lab.write(lab.temporary("gnuplot"), f"""#!/bin/sh
script=$(cat)
draw() {{ printf '%s\\n' "$script" | {real} "$@"; }}
case $script in *multiplot*) {"; ".join(commands)};; esac
draw "$@"
""", 0o700)
    return {"PATH": f"{os.path.dirname(fake)}:{os.environ['PATH']}"}


def recorded(path):
    """One that stores its script there."""
    return gnuplot_that(f"""printf '%s\\n' "$script" >{path}""")


def blocks(script):
    """The data in a script, by their names: lines of words."""
    found = re.findall(r"^\$(\w+) << EOD\n(.*?)^EOD$", script, re.DOTALL | re.MULTILINE)
    return {name: [line.split() for line in text.splitlines()] for name, text in found}


def near(got, wanted, what):
    """With the precision of the script."""
    check(len(got) == len(wanted) and all(
        math.isclose(float(a), b, rel_tol=1e-5) for a, b in zip(got, wanted)),
        f"{what}: {got} instead of {wanted}")


def check_lines(rows, slots, seconds):
    """The line is broken where nothing was held though it was tried, and only there."""
    lines, is_line = [], False
    for index, slot in enumerate(slots):
        if slot["count"] > 0:
            lines += [] if is_line else [[]]
            lines[-1].append(index)
        is_line = slot["count"] > 0 or is_line and slot["failed"] == 0
    drawn = [list(line) for held, line in itertools.groupby(rows, bool) if held]
    equal(len(drawn), len(lines), "lines")
    for line, indexes in zip(drawn, lines):
        equal(len(line), len(indexes) + 2, "points of a line")
        check(float(line[0][0]) <= indexes[0] * seconds * (1 + 1e-5), f"begin: {line}")
        check(float(line[-1][0]) >= (indexes[-1] + 1) * seconds * (1 - 1e-5), f"end: {line}")
        for row, index in zip(line[1:-1], indexes):
            slot = slots[index]
            near(row, [(index + 0.5) * seconds, *(max(slot[name], 1) / 1000 for name in
                                                  ("p50_us", "p99_us", "max_us"))], "point")


def check_strip(rows, slots, node, seconds):
    """Each interval has the node's state in it, or the one before if no cycle began."""
    colors = {"0xf1f3f5": "granted", "0xd64545": "silent", "0x9aa5b1": "other"}
    states, drawn = [], [None] * len(slots)
    for slot in slots:
        if slot["count"] + slot["failed"] == 0:
            states.append(states[-1] if states else None)
        else:
            states.append("silent" if slot["silent"][node] else
                          "other" if slot["other"][node] else "granted")
    for row in rows:
        left, right = (round(float(row[column]) / seconds) for column in (2, 3))
        drawn[left:right] = [colors[row[6]]] * (right - left)
    equal(drawn, states, f"strip of {node}")


def check_times(script, whole):
    """The picture over time shows the contents of the file."""
    data, slots = blocks(lab.read(script)), whole["timeline"]["slots"]
    seconds = whole["timeline"]["interval_ms"] / 1000
    check_lines(data["times"], slots, seconds)
    near([row[0] for row in data["failed"]],
         [(index + 0.5) * seconds for index, slot in enumerate(slots) if slot["failed"]],
         "intervals with failures")
    for index, node in enumerate(whole["nodes"]):
        equal(f"strip{index}" in data, node["fault"] is not None, f"a strip for {index}")
        if node["fault"]:
            check_strip(data[f"strip{index}"], slots, index, seconds)


@case("--plot: cycles that take longer than an interval are one line; a silent node stays red")
def _(quorum):
    path, script, whole = lab.temporary("x.svg"), lab.temporary("script"), lab.temporary("x")
    running = Running(quorum, "--timeout", "500ms", "-t", "300s", "--plot", path,
                      "--export-json", whole, env=recorded(script))
    quorum[2].stop()
    others = [server for index, server in enumerate(quorum.servers) if index != 2]
    before = served(others)
    lab.wait_for(lambda: served(others) > before + 100, "cycles of the others")
    quorum[2].go_on()
    running.end().expect(130)
    told = json.loads(lab.read(whole))
    slots = told["timeline"]["slots"]
    empty = [slot for slot in slots if slot["count"] + slot["failed"] == 0]
    check(told["nodes"][2]["silent"] > 0 and empty, f"no gap: {told['timeline']}")
    check_times(script, told)
    check("■ refused, lost or not asked" in texts(path), "the key of the strips")


@case("--plot: the line is broken while no lock was held")
def _(quorum):
    path, script, whole = lab.temporary("x.svg"), lab.temporary("script"), lab.temporary("x")
    running = Running(quorum, "--plot", path, "--export-json", whole, env=recorded(script))
    for server in quorum.servers[:3]:
        server.stop()
    while not re.search(rb"cycles, [1-9][\d,]* failed", running.process.stderr.readline()):
        pass
    for server in quorum.servers[:3]:
        server.go_on()
    running.go_on(1000)
    running.end().expect(130)
    check_times(script, json.loads(lab.read(whole)))
    check("● not held" in texts(path), "the key of the dots")


@case("--plot: the curves are at each percentile where the table is, and end at the largest")
def _(quorum):
    script = lab.temporary("script")
    found = measure(quorum, "-n", "10", "--warmup", "0", *PATIENT, "--plot",
                    lab.temporary("x.svg"), env=recorded(script))
    data = blocks(lab.read(script))
    latencies = [*(node["latency"] for node in found["nodes"]), found["acquire"]]
    for index, latency in enumerate(latencies):
        curve = [(float(x), float(y)) for x, y in data[f"curve{index}"]]
        for name, x in (("p50_us", 2), ("p90_us", 10)):
            y = next(y for at, y in curve if at >= x)
            near([y], [max(latency[name], 1) / 1000], f"{name} in {curve}")
        near(curve[-1], [10, max(latency["max_us"], 1) / 1000], f"end of {curve}")


@case("--plot of one cycle: axes with several ticks; more nodes than colours look different")
def _(quorum):
    del quorum
    path, script = lab.temporary("x.svg"), lab.temporary("script")
    with lab.Quorum(9) as nine:
        bench(nine, "-n", "1", "--warmup", "0", *PATIENT, "--plot", path,
              env=recorded(script)).expect(0, err=PROGRESS)
    check("the lock: 5 of 9" in texts(path), f"{texts(path)}")
    ticks = [re.findall(r'"[\d.e+-]+ ms" ', axis)
             for axis in lab.read(script).split("set ytics ()")[1:]]
    looks = re.findall(r"\$curve\d+ with .*?(lc rgb '.*?' dt \S+?)(?=, \$|\n)",
                       lab.read(script))
    equal([len(looks), len(set(looks))], [10, 10], f"curves: {looks}")
    check(len(ticks) == 2 and min(map(len, ticks)) >= 2, f"ticks: {ticks}")


@case("--plot of nodes with odd names: cut between characters; invalid UTF-8 becomes ?")
def _(quorum):
    path = lab.temporary("x.svg")
    names = {"a_@c$&e'f.sock": "_@c$&e'f.sock",
             "ü" * 20 + "x.sock": "…" + "ü" * 7 + "x.sock",
             "€" * 12 + "xy.sock": "…" + "€" * 6 + "xy.sock",
             os.fsdecode(b"\xc0\xaf\xf0\x9f\x98\x80\xed\xa0\x80.sock"): "/??😀???.sock",
             os.fsdecode(b'\xf4\x90\x80\x80\xef\xbf\xbf\xe2\x82"`\\\n'): "…" + "?" * 13}
    nodes = []
    for server, name in zip(quorum.servers, names):
        link = lab.temporary(name)
        os.symlink(server.path, link)
        nodes.append("unix://" + urllib.parse.quote(os.fsencode(link)))
    redlock("bench", "-n", "1", "--warmup", "0", *PATIENT, "--plot", path, "-N",
            ",".join(nodes)).expect(0, err=PROGRESS)
    for name in names.values():
        check(any(one.endswith(name) for one in texts(path)), f"{name} in {texts(path)}")


@case("no gnuplot, or one that fails: 78 before the run; at the end 125, with the numbers")
def _(quorum):
    path, before = lab.temporary("x.svg"), quorum.attempts()
    bench(quorum, "--plot", path, env={"PATH": "/nowhere"}).expect(
        CONFIG, err="--plot needs gnuplot", out="")
    for does in ("exit 1", "exit 0"):
        fake = lab.write(lab.temporary("gnuplot"), f"#!/bin/sh\n{does}\n", 0o700)
        env = {"PATH": f"{os.path.dirname(fake)}:{os.environ['PATH']}"}
        bench(quorum, "--plot", path, env=env).expect(CONFIG, err="cannot draw", out="")
    check(not os.path.exists(path), "a file")
    equal(quorum.attempts(), before, "SETs")
    lab.write(path, "as it was")
    for does in ("exit 1", 'draw "$@" | head -c 9999', 'draw "$@"; exit 1'):
        outcome = bench(quorum, *QUICK, "--json", "--plot", path,
                        env=gnuplot_that(does, "exit 0"))
        equal(outcome.expect(FAILED, err="gnuplot failed").json()["cycles"], 200, "cycles")
        equal(lab.read(path), "as it was", "the old file")
    new = lab.temporary("x.svg")
    bench(quorum, *QUICK, "--plot", new, env=gnuplot_that("exit 1")).expect(FAILED)
    check(not os.path.exists(new), "an empty file")


@case("--plot: the user's gnuplot settings do not matter")
def _(quorum):
    path, other = lab.temporary("x.svg"), lab.temporary("other")
    settings = lab.write(lab.temporary(".gnuplot"), f"set output '{other}'\n")
    home = {"HOME": os.path.dirname(settings)}
    bench(quorum, *QUICK, "--plot", path, env=home).expect(0, err=PROGRESS)
    check("the lock: 3 of 5" in texts(path), f"{texts(path)}")
    check(not os.path.exists(other), "another file")


lab.main()
