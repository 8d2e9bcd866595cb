#!/usr/bin/env python3
"""systemd accepts the units of contrib, and redlock their commands. Speaks TAP."""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "test/cli"))
import lab  # noqa: E402
from lab import case, check, equal, matches  # noqa: E402
from redis_server import find_server  # noqa: E402

COMMAND = re.compile(r"^ExecStart=redlock (.*?)( -- /\S+)?$", re.MULTILINE)
CHILD = ["sh", "-c", "echo ran; kill $PPID"]  # redlock elect runs until it is ended


def add_cases(unit):
    text = unit.read_text()

    @case(f"{unit.name}: its command runs")
    def _(quorum):
        lab.redlock("admit", "--new", "--at-once", env=lab.on(quorum)).expect(0)
        command, has_child = COMMAND.search(text).groups()
        words = command.replace("%H", "host").split()
        if has_child:
            done = lab.redlock(*words, "--", *CHILD, env=lab.on(quorum))
            equal(done.out, "ran\n", f"it prints; {done.err}")
            return
        if words[0] == "admit":
            lab.redlock(*words, env=lab.on(quorum)).expect(0, out="", err="^$")
            return
        if words[0] == "check":
            done = lab.redlock(*words, env=lab.on(quorum)).expect(2)  # a restart of these forgets
            matches(done.out, "a restart loses the node's locks", "what it finds")
            return
        process = lab.start(*words, "--listen", f"unix:{lab.temporary('page')}", env=lab.on(quorum))
        matches(process.stderr.readline().decode(), "the page is at", "it says")
        process.terminate()
        lab.finish(process).expect(0)

    @case(f"{unit.name}: systemd starts it again without a limit")
    def _(_):
        timer = unit.with_suffix(".timer")
        check("OnUnitInactiveSec=" in timer.read_text() if timer.exists() else
              "Restart=always\n" in text and "StartLimitIntervalSec=0\n" in text, text)

    add_verify(unit, text.replace("ExecStart=redlock", f"ExecStart={lab.program}"))


def add_verify(unit, text):
    if shutil.which("systemd-analyze"):
        @case(f"{unit.name}: systemd-analyze verify")
        def _(_):
            copy = pathlib.Path(lab.temporary("units"), unit.name)
            copy.parent.mkdir()
            copy.write_text(text)
            timer = unit.with_suffix(".timer")
            copies = [copy]
            if timer.exists():
                copies.append(shutil.copy(timer, copy.parent))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", *copies], text=True,
                                  capture_output=True, check=False)
            check(unit.stem not in done.stderr and done.returncode == 0, done.stderr)


for path in sorted((ROOT / "contrib/systemd").glob("*.service")):
    add_cases(path)
NODE = ROOT / "contrib/nodes/lock-node.service"
add_verify(NODE, NODE.read_text().replace("=redis-server", f"={find_server()}"))
lab.main()
