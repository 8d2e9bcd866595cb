"""What a run has shown: its figures, and what both checkers say."""
import collections
import json
import pathlib
import subprocess

import history

PROBE_US = 3000000
LARGER, MORE = 1.5, 5  # of a client's memory, and its descriptors: what is still no leak
OPERATIONS = ("acquire", "probe", "extend", "downgrade", "release", "write", "read")
CHECK_S = 900


def porcupine(program, folder):
    """{promise: [keys]}, and the seconds; prints what it refuses."""
    done = subprocess.run([program, str(folder)], capture_output=True, text=True,
                          timeout=CHECK_S, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"porcupine failed: {done.stderr}")
    return json.loads(done.stdout)


def is_explained(wrong, losses):
    """A plain lock does not exclude if a node forgets while it is held."""
    return wrong.key.startswith("p") and any(begin <= wrong.at and end >= wrong.since
                                             for begin, end in losses)


def late_probes(lines):
    return [line for line in lines if line.what == "probe" and
            (line.result != "OK" or line.end - line.begin > PROBE_US)]


def by_us(wrong):
    """{promise: keys}"""
    return {promise: sorted({one.key for one in found}) for promise, found in wrong.items()}


def figures(run, lines, wrong):
    counts = collections.Counter(line.what for line in lines)
    explained = [is_explained(one, run.schedule.losses()) for one in wrong["exclusion"]]
    return {
        "operations": sum(counts[what] for what in OPERATIONS),
        "acquisitions": sum(line.what == "acquire" and line.result == "OK" for line in lines),
        "faults": run.schedule.counts.total(),
        "overlaps": explained.count(False),
        "plain_overlaps": explained.count(True),
        "stale_writes_accepted": len(wrong["resource"]),
        "order_violations": len(wrong["order"]),
        "orphans": len(run.orphans),
        "rests": len(run.sizes),
        "probes": counts["probe"],
        "liveness_ok": not late_probes(lines) and not run.troubles and counts["probe"] > 0,
        "longest_lived": growth(run.sizes),
        "acquired": acquired(lines),
        "each_fault": dict(sorted(run.schedule.counts.items())),
    }


def acquired(lines):
    """{interface: {kind: how often}}"""
    counts = collections.defaultdict(collections.Counter)
    for line in lines:
        if line.what == "acquire" and line.result == "OK":
            counts[line.holder.rstrip("0123456789.:")][line.kind.partition("=")[0]] += 1
    return {name: dict(sorted(kinds.items())) for name, kinds in sorted(counts.items())}


def growth(sizes):
    """Of the longest-lived clients, from the first rest to the last one."""
    return {name: {"kb": [rest[name][0] for rest in ends],
                   "descriptors": [rest[name][1] for rest in ends]}
            for ends in [(sizes[0], sizes[-1])] for name in sizes[0]} if sizes else {}


def has_leak(longest_lived):
    return any(one["kb"][1] > one["kb"][0] * LARGER or
               one["descriptors"][1] > one["descriptors"][0] + MORE
               for one in longest_lived.values())


def tell(run, options, failure):
    lines = history.read(run.folder)
    wrong = history.Found(lines).wrong
    found = figures(run, lines, wrong)
    found["seed"], found["checked_by"] = options.seed, ["judge.py"]
    ours, agree = by_us(wrong), True
    if options.porcupine:
        theirs = porcupine(options.porcupine, run.folder)
        found["checked_by"].append("porcupine")
        found["porcupine_s"], found["porcupine_parts"] = theirs["seconds"], theirs["parts"]
        found["porcupine_unknown"] = theirs["unknown"]
        agree = {promise: sorted(keys) for promise, keys in theirs["refused"].items()} == ours
        print(theirs["text"], end="")
    found["checkers_agree"] = agree
    sentences = [one.text for all_of_promise in wrong.values() for one in all_of_promise]
    text = "\n".join([*sentences, *run.orphans, *run.troubles, *map(str, late_probes(lines)),
                      *([failure] if failure else [])])
    (run.folder / "wrong").write_text(text + "\n")
    (run.folder / "faults").write_text("\n".join(map(str, run.schedule.log)) + "\n")
    (run.folder / "seed").write_text(f"{options.seed}\n")
    for name, value in found.items():
        print(f"{name:<24}{value}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1) + "\n")
    if failure:
        print(f"failed: {failure}")
    must_be_0 = ("overlaps", "stale_writes_accepted", "order_violations", "orphans")
    clean = not any(found[name] for name in must_be_0) and found["liveness_ok"] and agree
    grows = has_leak(found["longest_lived"])
    if grows:
        print("missed: the longest-lived clients grow")
    return int(bool(failure) or not clean or grows or found.get("porcupine_unknown", 0) > 0)
