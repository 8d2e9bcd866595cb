#!/usr/bin/env python3
"""Locks with distant nodes, simulated: wan.py WAN [--json F] [--plot F] [--check PAGE]

Prints the tables of docs/scale.md, from the figures that the program bench/wan computes in
virtual time, the same each time. --plot makes the plot (gnuplot), --check checks that a
page has these tables and that the plot beside it was made of these figures. It is an error if
the simulation does not agree with the binomial formula.
"""
import argparse
import hashlib
import json
import math
import pathlib
import subprocess
import sys

INTERVAL = 2.58  # standard errors, for 99 %
GOOD = 0.99      # how much a better node votes, of which the plot has the formula only


# --- tables ---

def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def span(times, ends=("p50", "p99"), form="{:.0f}"):
    return " / ".join(form.format(times[end]) for end in ends) if times else "none"


def milliseconds(times, ends=("p50", "p99")):
    small = times and max(times[end] for end in ends) < 10
    return span(times, ends, "{:.1f}" if small else "{:.0f}")


def by_placement(figures):
    """{placement: {who is gone: figures}}"""
    found = {}
    for one in figures["latency"]:
        found.setdefault(one["placement"], {})[one["gone"]] = one
    return found


def healthy_table(figures):
    rows = []
    for placement, gone in by_placement(figures).items():
        one = gone["nothing"]
        rows.append([placement, milliseconds(one["acquire_ms"]),
                     milliseconds(one["release_ms"]),
                     milliseconds(one["left_ms"], ("p50", "least"))])
    return table(["all up:", "acquire p50 / p99 ms", "release p50 / p99 ms",
                  "validity left p50 / least ms"], rows)


def loss_table(figures):
    rows, names = [], [name for name in MARKS if name != "nothing"]
    for placement, gone in by_placement(figures).items():
        held = [one["held"] for one in gone.values() if one["held"] > 0]
        rows.append([placement, *(milliseconds(gone[name]["acquire_ms"]) for name in names),
                     "%.2f %%" % (100 * (1 - min(held)))])
    return table(["gone:", *names, "attempts lost"], rows)


def ttl_table(figures):
    found = {}
    for one in figures["ttl"]:
        found.setdefault(one["placement"], {})[one["ttl_ms"]] = one["held"]
    ttls = sorted(next(iter(found.values())))
    return table(["TTL:", *(f"{ttl} ms" for ttl in ttls)],
                 [[placement, *("%.1f %%" % (100 * held[ttl]) for ttl in ttls)]
                  for placement, held in found.items()])


def availability_table(figures):
    rows = []
    for one in figures["availability"]:
        rows.append([
            str(one["nodes"]), "%.0f s" % one["quarantine_s"], "%.1f %%" % (100 * one["node"]),
            "%.2f %%" % (100 * one["formula"]),
            "%.2f ± %.2f %%" % (100 * one["held"], 100 * INTERVAL * one["error"])])
    return table(["N", "quarantine", "a node votes", "binomial", "simulated"], rows)


def tables(figures):
    return [healthy_table(figures), loss_table(figures), ttl_table(figures),
            availability_table(figures)]


# --- checks ---

def disagreements(figures):
    for one in figures["availability"]:
        if abs(one["held"] - one["formula"]) > INTERVAL * one["error"]:
            yield (f"with {one['nodes']} nodes and a quarantine of {one['quarantine_s']} s "
                   f"{one['held']} is not {one['formula']}")


def mark(figures):
    """The figures of the plot."""
    text = json.dumps(figures, sort_keys=True)
    return f"<!-- figures {hashlib.sha256(text.encode()).hexdigest()[:16]} -->"


def untruths(figures, page):
    text = page.read_text().splitlines()
    for lines in tables(figures):
        for line in lines:
            if line not in text:
                yield f"{page} has no line {line}"
    picture = page.with_name("wan.svg")
    if mark(figures) not in picture.read_text():
        yield f"{picture} was made of other figures: ./dev bench wan --plot {picture}"


# --- the plot ---

INK, SOFT, FAINT = "#24292f", "#6e7781", "#d8dee4"
MARKS = {  # of who is gone: colour, words, where those stand
    "nothing": ("#0550ae", "all nodes up", 0),
    "a node of A": ("#54aeff", "a node of A gone", 0.215),
    "A": ("#cf222e", "A gone", 0.51),
    "B": ("#bf8700", "B gone", 0.665),
    "C": ("#1a7f37", "C gone", 0.82),
}
STEP = 0.15  # between the marks of one row

STYLE = f"""
set terminal svg size 1040,600 font "Helvetica,Arial,sans-serif,13" background "white"
set border 1 lc rgb "{FAINT}"
set tics nomirror scale 0.4
unset key
set multiplot
set tmargin at screen 0.83
set bmargin at screen 0.11
"""


def label(text, x, y, colour=INK, more=""):
    return f'set label "{text}" at {x}, {y} textcolor rgb "{colour}" {more}'


def latency_plot(figures):
    placements = by_placement(figures)
    lines, data = [], []
    for row, (placement, gone) in enumerate(placements.items()):
        y = len(placements) - row
        lines.append(label(placement, "graph -0.02", f"first {y}", more="right"))
        lines.append(f'set arrow from graph 0, first {y - 0.5} to graph 1, first {y - 0.5} '
                     f'nohead lw 0.7 lc rgb "{FAINT}" back')
        for number, (name, one) in enumerate(gone.items()):
            at, times, colour = y + STEP * (2 - number), one["acquire_ms"], MARKS[name][0]
            if times:
                data.append("%s %s %s %s %d" % (times["p50"], at, times["p50"], times["p99"],
                                                int(colour[1:], 16)))
            else:
                lines.append(label(MARKS[name][1] + ": no lock", 2.2, at, colour))
    for colour, words, at in MARKS.values():
        lines.append(label(words, f"graph {at}", "screen 0.86", colour))
    return "\n".join([
        "$latency << END", *data, "END",
        "set lmargin at screen 0.19; set rmargin at screen 0.64", *lines,
        label("How long an acquire takes", "screen 0.02", "screen 0.955", more='font ",17"'),
        label("nodes in data centres A + B + C; A is 1 ms from the client, B 30, C 100",
              "screen 0.02", "screen 0.91", SOFT),
        label("ms: a dot at the median, a line to the 99th percentile", "graph 0.5",
              "screen 0.03", more="center"),
        f'set logscale x; set xrange [0.8:200]; set xtics (1, 3, 10, 30, 100) '
        f'textcolor rgb "{INK}"',
        f"set yrange [0.5:{len(placements) + 0.5}]; unset ytics",
        f'set grid xtics lc rgb "{FAINT}" lw 1',
        "plot $latency using 1:2:3:4:5 with xerrorbars pt 7 ps 0.75 lw 2.5 lc rgb variable",
        "unset label; unset arrow; unset logscale"])


def binomial(n, votes):
    """The probability that no majority of n nodes votes."""
    return sum(math.comb(n, k) * votes ** k * (1 - votes) ** (n - k)
               for k in range(n // 2 + 1))


def availability_plot(figures):
    found = {}
    for one in figures["availability"]:
        found.setdefault(one["quarantine_s"], []).append(one)
    sizes = [one["nodes"] for one in next(iter(found.values()))]
    good = [f"{n} {binomial(n, GOOD)}" for n in sizes]
    blocks = ["$good << END", *good, "END"]
    plots = [f'$good using 1:2 with lines lw 1.5 dt 2 lc rgb "{SOFT}"']
    labels = [label(f"a node votes {100 * GOOD:.0f} %", 3.2, 3e-4, SOFT)]
    for number, (quarantine, rows) in enumerate(found.items()):
        colour = MARKS["A" if quarantine else "nothing"][0]
        blocks += [f"$bad{number} << END", *("%d %g %g %g" % (
            one["nodes"], 1 - one["formula"], 1 - one["held"], INTERVAL * one["error"])
            for one in rows), "END"]
        plots.append(f'$bad{number} using 1:2 with lines lw 1.5 lc rgb "{colour}"')
        plots.append(f'$bad{number} using 1:3:4 with yerrorbars pt 7 ps 0.75 lw 2 '
                     f'lc rgb "{colour}"')
        words = " (quarantine)" if quarantine else ""
        x, y = (1.7, 0.38) if quarantine else (3.5, 0.035)
        votes = f"a node votes {100 * rows[0]['node']:.0f} %{words}"
        labels.append(label(votes, x, y, colour))
    return "\n".join([
        *blocks, *labels,
        "set lmargin at screen 0.74; set rmargin at screen 0.975",
        label("How often there is none", "screen 0.68", "screen 0.955", more='font ",17"'),
        label("dots: simulated, lines: binomial", "screen 0.68", "screen 0.91", SOFT),
        label("number of nodes", "graph 0.5", "screen 0.03", more="center"),
        "set logscale y; set xrange [0.6:7.4]; set xtics (1, 3, 5, 7)",
        'set yrange [2e-7:0.8]; set ytics ("10 %%" 0.1, "1 %%" 0.01, "0.1 %%" 1e-3, '
        f'"0.01 %%" 1e-4, "0.001 %%" 1e-5, "0.0001 %%" 1e-6) textcolor rgb "{INK}"',
        f'unset grid; set grid ytics lc rgb "{FAINT}" lw 1',
        "plot " + ", ".join(plots)])


def plot(figures, path):
    script = "\n".join([STYLE, latency_plot(figures), availability_plot(figures), ""])
    try:
        done = subprocess.run(["gnuplot"], input=script, text=True, stdout=subprocess.PIPE,
                              check=False)
    except FileNotFoundError:
        sys.exit("wan: the picture takes gnuplot")
    if done.returncode:
        sys.exit(f"wan: gnuplot ended with {done.returncode}")
    path.write_text(done.stdout + mark(figures) + "\n")


def main():
    words = argparse.ArgumentParser(prog="./dev bench wan")
    words.add_argument("wan")
    words.add_argument("--json", type=pathlib.Path, help="all figures, into this file")
    words.add_argument("--plot", type=pathlib.Path, help="the picture, into this file")
    words.add_argument("--check", type=pathlib.Path, help="has this page the same figures?")
    options = words.parse_args()
    done = subprocess.run([options.wan], stdout=subprocess.PIPE, check=True)
    figures = json.loads(done.stdout)
    wrong = list(disagreements(figures))
    if options.check:
        wrong += untruths(figures, options.check)
    else:
        print("\n\n".join("\n".join(lines) for lines in tables(figures)))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    if options.plot:
        plot(figures, options.plot)
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
