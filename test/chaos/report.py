"""What a run has shown: its figures, and what both checkers say."""
import collections
import json
import pathlib
import subprocess

import faults
import history

LARGER, MORE = 1.5, 5  # of a client's memory, and its descriptors: what is still no leak
OPERATIONS = ("acquire", "probe", "extend", "downgrade", "release", "write", "read")
CHECK_S = 900


def porcupine(program, folder):
    """Its verdict."""
    done = subprocess.run([program, str(folder)], capture_output=True, text=True,
                          timeout=CHECK_S, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"porcupine failed: {done.stderr}")
    return json.loads(done.stdout)


def excuses(run):
    """What is_explained() asks; a run leaves it beside its histories."""
    return {"losses": [[loss.begin, loss.end, loss.fault in faults.SEEN]
                       for loss in run.schedule.losses()],
            "started": run.team.started}


def is_explained(wrong, losses, started):
    """A node forgot a plain lock, and the later holder could not see that.

    A client that has seen the earlier run_id does not count the node; the command has seen none,
    and a pipe none of before its start.
    """
    process = wrong.holder.partition(":")[0]

    def saw_it(begin, is_seen):
        return (is_seen and not process.startswith("command") and
                not any(begin < start <= wrong.at for start in started[process]))
    return wrong.key.startswith("p") and any(
        begin <= wrong.at and end >= wrong.since and not saw_it(begin, is_seen)
        for begin, end, is_seen in losses)


def failed_probes(lines):
    return [line for line in lines if line.what == "probe" and line.result != "OK"]


def by_us(wrong):
    """{promise: keys}"""
    return {promise: sorted({one.key for one in found}) for promise, found in wrong.items()}


def again(folder, program):
    """Judges what a run has left."""
    wrong, theirs = history.Found(history.read(folder)).wrong, porcupine(program, folder)
    known = json.loads((folder / "excuses").read_text())
    left = [one.text for found in wrong.values() for one in found
            if not is_explained(one, **known)]
    for name, refused in (("judge.py", by_us(wrong)), ("porcupine", theirs["refused"])):
        print(f"{name:<12}", *(f"{promise} {len(keys)}" for promise, keys in refused.items()))
    print(f"unexplained  {len(left)}", *left, sep="\n")
    return int(bool(left) or by_us(wrong) != theirs["refused"])


def figures(run, lines, wrong):
    counts = collections.Counter(line.what for line in lines)
    explained = [is_explained(one, **excuses(run)) for one in wrong["exclusion"]]
    return {
        "operations": sum(counts[what] for what in OPERATIONS),
        "acquisitions": sum(line.what == "acquire" and line.result == "OK" for line in lines),
        "faults": len(run.schedule.log),
        "overlaps": explained.count(False),
        "plain_overlaps": explained.count(True),
        "stale_writes_accepted": len(wrong["resource"]),
        "order_violations": len(wrong["order"]),
        "orphans": len(run.orphans),
        "rests": len(run.sizes),
        "probes": counts["probe"],
        "liveness_ok": not failed_probes(lines) and not run.troubles and counts["probe"] > 0,
        "longest_lived": growth(run.sizes),
        "acquired": acquired(lines),
        "each_fault": dict(sorted(collections.Counter(
            told.fault.__name__ for told in run.schedule.log).items())),
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


def found(run, options, failure):
    """The figures, and whether each that has a target meets it."""
    lines = history.read(run.folder)
    wrong = history.Found(lines).wrong
    seen = figures(run, lines, wrong)
    seen["seed"], seen["checked_by"] = options.seed, ["judge.py"]
    ours, agree = by_us(wrong), True
    if options.porcupine:
        theirs = porcupine(options.porcupine, run.folder)
        seen["checked_by"].append("porcupine")
        seen["porcupine_s"], seen["porcupine_parts"] = theirs["seconds"], theirs["parts"]
        seen["porcupine_unknown"] = theirs["unknown"]
        agree = {promise: sorted(keys) for promise, keys in theirs["refused"].items()} == ours
        print(theirs["text"], end="")
    seen["checkers_agree"], seen["failure"] = agree, failure
    sentences = [one.text for all_of_promise in wrong.values() for one in all_of_promise]
    text = "\n".join([*sentences, *run.orphans, *run.troubles, *map(str, failed_probes(lines)),
                      *([failure] if failure else [])])
    (run.folder / "wrong").write_text(text + "\n")
    (run.folder / "faults").write_text("\n".join(map(str, run.schedule.log)) + "\n")
    (run.folder / "excuses").write_text(json.dumps(excuses(run)) + "\n")
    (run.folder / "seed").write_text(f"{options.seed}\n")
    must_be_0 = ("overlaps", "stale_writes_accepted", "order_violations", "orphans",
                 *(["porcupine_unknown"] if options.porcupine else []))
    return seen, {**{name: seen[name] == 0 for name in must_be_0},
                  "liveness_ok": seen["liveness_ok"], "checkers_agree": agree,
                  "longest_lived": not has_leak(seen["longest_lived"]),
                  "failure": failure is None}
