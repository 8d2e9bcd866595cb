"""Shared by the tests of `redlock pipe`: a pipe, and its application.

Each line that a pipe writes is checked by docs/schema. What a wrapper may rely on is checked for
all lines: the numbers of holds are new, nothing comes of a hold after its end.
"""
import json
import os
import re
import select
import subprocess
import sys
import time

import lab
from lab import STATE_SECONDS, check, equal, on

LARGEST = 2**53 - 1
READ_MAX = 65536
F_SETPIPE_SZ, PAGE = 1031, 4096

# An application whose pipe has the stdin and stdout that the application was given: the test
# speaks with the pipe, and both ends stay open when the application ends.
APPLICATION = """
import os, subprocess, sys
words = [sys.argv[1], *sys.argv[2:], "pipe", "--parent", str(os.getpid())]
pipe = subprocess.Popen(words)
os.close(0)
os.close(1)
pipe.wait()
"""


class Ended(Exception):
    """The pipe has closed its stdout."""


class Pipe:
    """`redlock pipe`, whose parent is the test, or a program of its own (`application`)."""

    def __init__(self, quorum, *words, application=False, **env):
        self.application = application
        streams = {"stdin": subprocess.PIPE, "bufsize": 0}
        if application:
            self.process = lab.spawn(
                [sys.executable, "-c", APPLICATION, lab.program, *words], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, env=lab.environment(on(quorum, **env)), **streams)
        else:
            self.process = lab.start(*words, "pipe", "--parent", str(os.getpid()),
                                     env=on(quorum, **env), **streams)
        self.last_id, self.data = 0, b""
        self.replies, self.until, self.lost, self.granted = {}, {}, {}, set()
        self.hello = self.line()
        equal(self.hello["notice"], "hello", "the first line")
        self.pid = lab.keeper_of(self.process) if application else self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends all of it; what is held is left to the case."""
        self.process.kill()
        self.process.wait()
        if self.application:
            lab.kill_what_is_left()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()

    # --- lines ---

    def write(self, data):
        """Writes it, and reads meanwhile: the pipe takes no request while replies wait."""
        data = memoryview(data.encode() if isinstance(data, str) else data)
        fd = self.process.stdin.fileno()
        os.set_blocking(fd, False)
        while data:
            ready = select.select([self.process.stdout], [fd], [], STATE_SECONDS)
            check(ready[0] or ready[1], "the pipe reads nothing, and writes nothing")
            if ready[1]:
                data = data[os.write(fd, data):]
            elif not self.fill():
                raise Ended()

    def fill(self):
        """Reads what is there; False at the end."""
        more = os.read(self.process.stdout.fileno(), READ_MAX)
        self.data += more
        return bool(more)

    def line(self, seconds=STATE_SECONDS):
        """The next line, as an object; raises Ended at the end of stdout."""
        give_up = time.monotonic() + seconds
        while b"\n" not in self.data:
            left = max(0, give_up - time.monotonic())
            check(select.select([self.process.stdout], [], [], left)[0],
                  f"no line in {seconds} s")
            if not self.fill():
                raise Ended(self.data)
        line, _, self.data = self.data.partition(b"\n")
        found = json.loads(line)
        import json_schema
        wrong = json_schema.faults_of(found, "pipe")
        check(not wrong, f"{wrong}, by docs/schema/redlock.schema.json: {line}")
        return found

    def take(self, **more):
        """Reads a line, and notes what it says."""
        line = self.line(**more)
        hold = line.get("hold")
        if line.get("notice") == "until":
            check(hold in self.granted and hold not in self.lost, f"until of no hold: {line}")
            self.until[hold] = line["until_us"]
        elif line.get("notice") == "lost":
            check(hold in self.granted and hold not in self.lost, f"lost of no hold: {line}")
            self.lost[hold] = line
        else:
            check(line["id"] not in self.replies, f"a second reply: {line}")
            self.replies[line["id"]] = line
            if "fence" in line:
                check(hold not in self.granted, f"a number of a hold is reused: {line}")
                self.granted.add(hold)
            if "until_us" in line:
                self.until[hold] = line["until_us"]
        return line

    def drain(self):
        """Takes all lines that are there."""
        while b"\n" in self.data or select.select([self.process.stdout], [], [], 0)[0]:
            self.take()

    def rest(self):
        """Takes all lines until stdout is closed."""
        try:
            while True:
                self.take()
        except Ended:
            return

    # --- requests ---

    def send(self, op, **members):
        self.last_id += 1
        self.write(json.dumps({"id": self.last_id, "op": op, **members}) + "\n")
        return self.last_id

    def reply(self, number, **more):
        while number not in self.replies:
            self.take(**more)
        return self.replies[number]

    def ask(self, op, **members):
        return self.reply(self.send(op, **members))

    def lock(self, key="k", **members):
        """Locks it at once; returns the number of the hold."""
        more = members if "keys" in members else {"key": key, **members}
        reply = self.ask("lock", **more)
        check("error" not in reply, f"not held: {reply}")
        return reply["hold"]

    def refused(self, error, op, *, text="", **members):
        """Checks that it is refused with this code, and a text that has this part."""
        reply = self.ask(op, **members)
        equal(reply.get("error"), error, f"of {op} {members}: {reply}")
        check(text in reply["text"], f"{text!r} is not in {reply}")
        return reply

    def unlock(self, hold):
        reply = self.ask("unlock", hold=hold)
        check("error" not in reply, f"not unlocked: {reply}")
        equal(reply["hold"], hold, "hold")

    def works(self):
        """It still takes requests."""
        self.refused("GONE", "beat", hold=0)

    def wait_lost(self, hold):
        while hold not in self.lost:
            self.take()
        return self.lost[hold]

    # --- ends ---

    def shrink(self):
        """Makes the pipe behind its stdout small, so that few lines fill it."""
        import fcntl
        fcntl.fcntl(self.process.stdout, F_SETPIPE_SZ, PAGE)

    def fill_stdout(self):
        """Sends requests until a reply finds no room in its stdout, and reads none of them."""
        self.shrink()
        for _ in range(3 * PAGE // 60):
            self.last_id += 1
            data = json.dumps({"id": self.last_id, "op": "beat", "hold": 0}) + "\n"
            os.write(self.process.stdin.fileno(), data.encode())

    def close(self):
        """Ends its stdin."""
        self.process.stdin.close()

    def end(self, code=0):
        """Waits for the end of the pipe, all of whose locks are over."""
        equal(self.process.wait(STATE_SECONDS), code, "exit code")
        if code == 0:
            equal(self.process.stderr.read(), b"", "stderr")


# --- what the nodes store ---

def names(quorum):
    """The keys of locks on the nodes, without what is stored beside a lock, such as its fence."""
    found = {name for server in quorum.servers if server.is_running()
             for name in server.call("KEYS", "*")}
    return sorted(name for name in found if not re.search(r"![a-z]+$", name))


def wait_until_free(quorum, seconds=STATE_SECONDS):
    """Waits until the nodes store no lock: an unlock waits for a quorum, not for all of them."""
    try:
        lab.wait_for(lambda: not names(quorum), "free nodes", seconds)
    except lab.Failed as failed:
        raise lab.Failed(f"{failed}: {names(quorum)}") from None


def wait_expired(quorum, name, until_us):
    """Waits until another client may have it, and checks that this is not sooner than told."""
    lab.wait_for(lambda: left_ms(quorum, name) == 0, f"the end of {name}")
    early = until_us - lab.now_us()
    check(early <= 0, f"{name} is free {early} us too early")


def left_ms(quorum, name):
    """What a majority of the nodes keeps at least; 0: some other client may have it."""
    times = sorted((max(0, server.call("PTTL", name)) if server.is_running() else 0)
                   for server in quorum.servers)
    return times[len(times) // 2]


def check_until(quorum, pipe, hold, name):
    """What was told is no later than what the nodes keep."""
    pipe.drain()
    check(pipe.until[hold] <= quorum.expires_us(name), "until_us is too late")
