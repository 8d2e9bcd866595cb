"""A client by the command: acquire, extend and release with a token file, or run with a job."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import turns  # noqa: E402
from processes import spawn  # noqa: E402
from turns import now_us  # noqa: E402

COMMAND = os.environ["CHAOS_REDLOCK"]
JOB = os.environ["CHAOS_JOB"]
SHIM = {"LD_PRELOAD": os.environ["CHAOS_SHIMS"]}
CODES = {0: "OK", 1: "GONE", 2: "TAKEN", 69: "NO_QUORUM", 75: "TIMEOUT", 77: "DENIED"}
BY_WORD = {"shared": ["--shared"], "redisson": ["--redisson"], "slot": ["--slots", turns.SLOTS]}

ends = False


def end(*_):
    global ends
    ends = True


def command(verb, *words, **more):
    """What it printed, and its result as a code."""
    process = spawn([COMMAND, "-vv", "--max-ttl", f"{turns.MAX_S}s", *map(str, (verb, *words))],
                    env={**os.environ, **SHIM, **more}, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE)
    out = process.communicate()[0]
    return out, CODES.get(process.returncode, f"EXIT_{process.returncode}")


def others(turn):
    return [word for key in turn.keys[1:] for word in ("--and", key)]


def options(turn):
    return ["-t", f"{round(turn.ttl * 1000)}ms", "-w", f"{round(turn.wait * 1000)}ms",
            *(["--fence"] if turn.fenced else []), *BY_WORD.get(turn.kind, []), *others(turn)]


class Taken:
    """What the token file says."""

    def __init__(self, turn, path):
        self.turn, self.path = turn, path
        self.read()

    def read(self):
        found = json.loads(pathlib.Path(self.path).read_text())
        boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000 - now_us()
        self.until = found["deadline_us"] - boot - 1000  # the clocks are read one after the other
        self.turn.fence, self.turn.token = found["fence"] or 0, found["token"]
        self.turn.slot = found.get("slot") or 0

    def deadline(self):
        return self.until if self.until > now_us() else 0


def take(turn, what):
    path = f"{turns.FOLDER}/{turns.NAME}.token"
    pathlib.Path(path).unlink(missing_ok=True)
    code = command("acquire", *options(turn), "--token-file", path, turn.keys[0])[1]
    end_us = now_us()
    if code != "OK":
        turn.note(what, turn.begin, end_us, code)
        return
    taken = Taken(turn, path)
    turn.note(what, turn.begin, end_us, "OK", taken.until)
    use(turn, taken)
    begin = now_us()
    code = command("release", "--token-file", path, *others(turn), turn.keys[0])[1]
    turn.note("release", begin, now_us(), code)


def use(turn, taken):
    turn.use(taken.deadline)
    time.sleep(turn.hold)
    if turn.way in ("extend", "long"):
        begin = now_us()
        code = command("extend", "--token-file", taken.path, *others(turn), turn.keys[0])[1]
        if code == "OK":
            taken.read()
        turn.note("extend", begin, now_us(), code, taken.until if code == "OK" else 0)
    turn.use(taken.deadline)


def run(turn):
    """The job writes the history itself."""
    words = (["elect", "-t", f"{round(turn.ttl * 1000)}ms"] if turn.kind == "election" else
             ["run", *options(turn)])
    command(*words, turn.keys[0], "--", JOB, "fenced-" * turn.fenced + turn.kind, *turn.keys,
            CHAOS_BEGIN=str(turn.begin))


def main():
    signal.signal(signal.SIGTERM, end)
    while not ends:
        if turns.pauses():
            take(turns.probe(False), "probe")
            turns.note_idle(0)
            while turns.pauses() and not ends:
                time.sleep(0.02)
            take(turns.probe(True), "probe")
        turn = turns.choose()
        may_run = turn.kind in ("exclusive", "set", "shared") and turns.prng.random() < 0.4
        if may_run or turn.kind == "election":
            run(turn)
        else:
            take(turn, "acquire")
        time.sleep(turns.pause_s())


main()
