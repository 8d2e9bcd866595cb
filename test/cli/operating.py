"""Shared by the tests of docs/production.md: its lines are typed in, under a holder."""
import os
import pathlib
import re
import subprocess
import threading
import traceback

import lab
from lab import beat, beats, check, on, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
TTL_S = int(os.environ.get("PROCEDURES_TTL_S", 5))
TTL = f"{TTL_S}s"
LOST = 124


def commands(section, word):
    """The lines to type of the section, from the block that has the word."""
    text = (ROOT / "docs/production.md").read_text()
    text = re.split(rf"^##+ {section}$", text, flags=re.MULTILINE)[1].split("\n##")[0]
    blocks = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    [block] = [block for block in blocks if word in block]
    return re.sub("^    ", "", block, flags=re.MULTILINE)


def type_in(quorum, section, word, env=None, programs=None, change=()):
    """Runs them as an operator does, in the folder `programs`, which has some of its own.

    `change`: {text: what it is here}, as the nodes' names.
    """
    script = commands(section, word)
    for text, here in dict(change).items():
        check(text in script, script)
        script = script.replace(text, here)
    path = ":".join([*([programs] if programs else []), os.path.dirname(lab.program),
                     os.environ["PATH"]])
    process = lab.spawn(["sh", "-c", script], cwd=programs,
                        env=lab.environment({**(env or on(quorum)), "PATH": path}),
                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return lab.finish(process)


class Holder:
    """A job that runs under a fenced lock."""

    def __init__(self, quorum, env=None, prefix=""):
        self.path = lab.temporary("beats")
        self.quorum = quorum
        self.key = f"{prefix}job"
        self.process = lab.start("run", "--fence", "-t", TTL, "-w", "1m", "--prefix", prefix, "job",
                                 "--", *beat(self.path), env=env or on(quorum))
        lab.wait_for_beats(self.path)
        wait_for(lambda: None not in quorum.values(self.key), "the lock on all nodes")

    def expiry(self):
        """Of its lock, on the node that has it for the q-th longest time."""
        times = [server.call("PEXPIRETIME", self.key) for server in self.quorum.servers
                 if server.is_running()]
        return sorted(times)[-(len(self.quorum.servers) // 2 + 1)]

    def keeps(self):
        """It extends the lock on a quorum twice from now on, and its job goes on."""
        for _ in "12":
            before = self.expiry()
            wait_for(lambda: self.process.poll() is not None or self.expiry() > before,
                     "an extension")
        now = lab.now_us()
        wait_for(lambda: self.process.poll() is not None or
                 max(beats(self.path).values()) > now, "a sign of life")
        return self.process.poll() is None

    def end(self):
        self.process.terminate()
        lab.finish(self.process).expect(143)

    def loses(self):
        """Its job has ended, too."""
        lab.finish(self.process).expect(LOST)


class Hosts:
    """Programs of these names, in the folder `home`: each call is one of handle(name, *words).

    A server that it starts lives until end(), because it lives no longer than its thread.
    """

    def __init__(self, handle, *names):
        self.handle = handle
        self.home = os.path.dirname(lab.temporary("hosts"))
        self.asked, self.done = (os.path.join(self.home, name) for name in ("asked", "done"))
        os.mkfifo(self.asked)
        os.mkfifo(self.done)
        for name in names:
            lab.write(os.path.join(self.home, name), f'#!/bin/sh\necho "{name} $*" > {self.asked}\n'
                      f'read -r code < {self.done}\nexit $code\n', 0o700)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while words := lab.read(self.asked).split():
            try:
                self.handle(*words)
                code = 0
            except Exception:  # the script ends, and with it the case
                traceback.print_exc()
                code = 1
            lab.write(self.done, f"{code}\n")

    def end(self):
        lab.write(self.asked, "\n")
        self.thread.join()
