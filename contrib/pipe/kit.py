#!/usr/bin/env python3
"""Plays `redlock pipe`, well or badly, for the test of a wrapper: see README.md.

As REDLOCK_COMMAND it gets `pipe --parent PID`. REDLOCK_KIT names one of the scenarios at the
end of this file. What it gets and does goes to the file REDLOCK_KIT_LOG, which is the stdout of
the wrapper's driver, too: so their lines have one order.
"""
import heapq
import itertools
import json
import os
import re
import select
import signal
import sys
import time

SECOND = 1_000_000
TTL_US = 2 * SECOND
GRACE_US = 3 * SECOND  # a wrapper that has done nothing so long after a deadline never will
LONGEST_S = 30         # no kit outlives its test
LARGEST = 2**53 - 1
LINE = 64 * 1024
MEMBERS = {
    "lock": {"key", "keys", "kind", "slots", "fence", "ttl_ms", "wait_ms", "max_hold_ms",
             "beat_ms"},
    "cancel": {"lock"}, "unlock": {"hold"}, "extend": {"hold", "ttl_ms"}, "beat": {"hold"},
}


def now_us():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class Pipe:
    """A good pipe, on which nobody else wants a lock."""
    once = False  # True: from the second start on it is good
    schema = "redlock.pipe/1"
    clock_error_us = 0
    extends = True
    first_hold = 1
    fence = 7

    def __init__(self, log, starts):
        self.log_fd, self.name = log, f"pipe{starts}"
        self.timers, self.numbers, self.input, self.reads = [], itertools.count(), b"", True
        self.open, self.holds, self.ended, self.granted_number = {}, {}, set(), 0

    # --- the driver's log, time, lines ---

    def log(self, *words):
        os.write(self.log_fd, (" ".join(map(str, (self.name, *words))) + "\n").encode())

    def wait_log(self, pattern):
        """Until the driver or a kit has written such a line."""
        while not re.search(pattern, read_log(), re.MULTILINE):
            time.sleep(0.005)

    def at(self, time_us, function, *args):
        heapq.heappush(self.timers, (time_us, next(self.numbers), function, args))

    def write(self, data):
        try:
            while data:
                data = data[os.write(1, data):]
        except BrokenPipeError:
            self.exit()

    def send(self, **members):
        self.write((json.dumps(members, ensure_ascii=False) + "\n").encode())

    def exit(self, code=0):
        self.log("exit")
        os._exit(code)

    def run(self, args):
        parent = os.getppid()
        right = args[-3:] == ["pipe", "--parent", str(parent)]
        self.log("start" if right else "bad arguments", *args)
        self.start()
        while True:
            now = now_us()
            while self.timers and self.timers[0][0] <= now:
                _, _, function, arguments = heapq.heappop(self.timers)
                function(*arguments)
            wait = max(0, self.timers[0][0] - now_us()) / SECOND if self.timers else 1
            if select.select([0] if self.reads else [], [], [], min(wait, 1))[0]:
                self.read()
            elif os.getppid() != parent:
                self.exit()  # its driver was killed

    def read(self):
        data = os.read(0, 4096)
        if not data:
            self.log("eof")
            self.exit()
        *lines, self.input = (self.input + data).split(b"\n")
        for line in lines:
            if self.reads:
                self.take(line)

    # --- requests ---

    def bad(self, line, why):
        self.log("bad", why + ":", line.decode(errors="replace"))

    def take(self, line):
        try:
            request = json.loads(line)
            op, number = request["op"], request["id"]
            members = {name: value for name, value in request.items() if name not in ("op", "id")}
        except (ValueError, TypeError, KeyError):
            return self.bad(line, "no request")
        if op not in MEMBERS or not members.keys() <= MEMBERS[op]:
            return self.bad(line, "unknown op or member")
        if any(type(value) not in (str, int, bool, list) for value in members.values()):
            return self.bad(line, "a member of a wrong type")
        if len(line) > LINE or "\\u0000" in line.decode(errors="replace"):
            return self.bad(line[:200], "too long, or with NUL")
        if type(number) is not int or not 0 <= number <= LARGEST or number in self.open:
            return self.bad(line, "id")
        if op in ("unlock", "extend", "beat"):
            hold = request.get("hold")
            if hold not in self.holds or hold in self.ended:
                return self.bad(line, "no such hold, or unlocked before")
            self.log(op, hold)
        if "keys" in request:
            request["key"] = "+".join(request["keys"])
        self.open[number] = request
        if op == "unlock":
            self.ended.add(request["hold"])
        getattr(self, op)(request)

    def reply(self, request, **members):
        del self.open[request["id"]]
        self.send(id=request["id"], **members)

    def fail(self, request, error, text, reason="NONE", holder=None):
        self.reply(request, error=error, reason=reason, text=text, holder=holder, nodes=[])

    def start(self):
        self.send(notice="hello", schema=self.schema, version="kit", boot_id="kit",
                  now_us=now_us() + self.clock_error_us)

    def lock(self, request):
        self.log("lock", request["key"])
        self.grant(request)

    def cancel(self, request):
        """The `lock` may have got its reply just before."""
        self.reply(request)
        self.log("cancel", request["lock"])
        if waiting := self.open.get(request["lock"]):
            self.fail(waiting, "CANCELLED", "the operation was cancelled", "BY_CALLER")

    def unlock(self, request):
        self.reply(request, hold=request["hold"])

    def extend(self, request):
        self.reply(request, hold=request["hold"], until_us=self.later(request["hold"], 3 * TTL_US))

    def beat(self, request):
        self.reply(request, hold=request["hold"])

    # --- holds ---

    def grant(self, request, ttl_us=TTL_US):
        hold = self.first_hold - self.granted_number  # downwards: the first may be the largest
        if self.first_hold < LARGEST:
            hold = self.first_hold + self.granted_number
        self.granted_number += 1
        self.holds[hold] = request["key"]
        self.log("granted", hold)
        until_us = self.later(hold, ttl_us)
        self.reply(request, hold=hold, until_us=until_us, fence=self.fence, slot=None)
        if self.extends:
            self.at(now_us() + TTL_US // 3, self.watchdog, hold)
        self.granted(hold)

    def granted(self, hold):
        """What the scenario does next."""

    def later(self, hold, ttl_us):
        return now_us() + ttl_us

    def until(self, hold, ttl_us):
        self.log("until", hold)
        self.send(notice="until", hold=hold, until_us=self.later(hold, ttl_us))

    def watchdog(self, hold):
        if hold not in self.ended:
            self.send(notice="until", hold=hold, until_us=self.later(hold, TTL_US))
            self.at(now_us() + TTL_US // 3, self.watchdog, hold)

    def lost(self, hold):
        self.log("lost", hold)
        self.send(notice="lost", hold=hold, error="GONE", reason="MISSING", text="it was lost",
                  holder=None, nodes=[])


class Good(Pipe):
    pass


class Late(Pipe):
    extends = False

    def lock(self, request):
        self.at(now_us() + SECOND, self.grant, request, -SECOND // 2)


class Silent(Pipe):
    """No `until`, no replies; in the end it exits, so that nobody waits for ever."""
    extends = False

    def granted(self, hold):
        self.at(now_us() + TTL_US // 2, self.log, "near")
        self.at(now_us() + TTL_US + GRACE_US, self.exit)

    def unlock(self, request):
        pass


class Revive(Pipe):
    extends = False

    def granted(self, hold):
        self.at(now_us() + TTL_US, self.late_until, hold)

    def late_until(self, hold):
        self.wait_log("^a aborted")
        self.until(hold, TTL_US)


class Lost(Pipe):
    extends = False

    def granted(self, hold):
        if self.holds[hold] == "a":
            self.at(now_us(), self.lose, hold)

    def lose(self, hold):
        self.wait_log("^a held")
        self.lost(hold)

    def unlock(self, request):
        if self.holds[request["hold"]] == "a":
            return self.fail(request, "GONE", "the nodes no longer store the token of this lock")
        super().unlock(request)


class LostOther(Lost):
    def granted(self, hold):
        if len(self.holds) == 2:
            a, b = sorted(self.holds, key=self.holds.get)
            self.at(now_us(), self.lose, a)
            self.at(now_us() + 1, self.until, b, 3 * TTL_US)


class Cut(Pipe):
    def start(self):
        self.send(notice="hello", schema=self.schema, version="kit", boot_id="kit",
                  now_us=now_us(), place="hôte")

    def lock(self, request):
        self.log("lock", request["key"])
        if request["key"] == "b":
            return self.fail(request, "TAKEN", "hôte:1 holds the lock", holder="hôte:1")
        self.grant(request)

    def write(self, data):
        middle = data.find("ô".encode()) + 1 or len(data) // 2  # within the character
        super().write(data[:middle])
        time.sleep(0.03)
        super().write(data[middle:])


class Dead(Pipe):
    def start(self):
        self.exit(1)


class DeadHeld(Pipe):
    """Its deadline is far: only the end of the pipe aborts it."""
    once = True
    extends = False

    def lock(self, request):
        self.log("lock", request["key"])
        self.grant(request, LONGEST_S * SECOND)

    def granted(self, hold):
        self.at(now_us(), self.die)

    def die(self):
        self.wait_log("^a held")
        self.exit(1)


class HalfLine(DeadHeld):
    def die(self):
        self.wait_log("^a held")
        self.write(b'{"notice":"until","hold":1,"until_us":8123')
        self.exit(1)


class BadLine(DeadHeld):
    """It stays, and its stdout is open."""
    def die(self):
        self.wait_log("^a held")
        self.write(b"redlock: no line of JSON\n")


class Full(Silent):
    """It reads no more after the lock of `a`."""
    def lock(self, request):
        if request["key"] == "a":
            self.reads = False
            super().lock(request)


class Deaf(Silent):
    """Writes to its stdin fail after the lock of `a`, and its stdout is open."""
    def granted(self, hold):
        self.reads = False
        os.close(0)
        super().granted(hold)


class Unknown(Pipe):
    def start(self):
        super().start()
        self.send(notice="weather", hold=1, rain=[True, None, {"mm": 1.5}])

    def granted(self, hold):
        self.send(id=LARGEST, hold=LARGEST)
        self.send(notice="until", hold=LARGEST, until_us=0)
        self.send(notice="lost", hold=LARGEST, error="EXPIRED", reason="LATE", text="", nodes=[])
        self.send(notice="weather", hold=hold)
        self.send(news="no id, no notice")

    def reply(self, request, **members):
        super().reply(request, **members, later={"release": [1, 2]})


class Schema(Pipe):
    schema = "redlock.pipe/2"


class Error(Pipe):
    def start(self):
        self.send(notice="error", exit=78, text="no nodes: set --nodes or REDLOCK_NODES")
        self.exit(78)


class ClockAhead(Pipe):
    clock_error_us = 3600 * SECOND


class ClockBehind(Pipe):
    clock_error_us = -3600 * SECOND


class Burst(Pipe):
    extends = False

    def granted(self, hold):
        self.log("until", hold)
        times = range(now_us() + TTL_US, now_us() + 3 * TTL_US, TTL_US // 250)
        self.write(b"".join(b'{"notice":"until","hold":%d,"until_us":%d}\n' % (hold, time_us)
                            for time_us in times))


class Stopped(Pipe):
    """Stops the driver until the first deadlines are over; only `a` has a newer one by then."""
    extends = False

    def granted(self, hold):
        if len(self.holds) == 2:
            self.at(now_us(), self.stop)

    def stop(self):
        self.wait_log("^a held")
        self.wait_log("^b held")
        deadline_us = now_us() + TTL_US
        os.kill(os.getppid(), signal.SIGSTOP)
        while not is_stopped(os.getppid()):  # otherwise it may still read what comes now
            time.sleep(0.001)
        a, _ = sorted(self.holds, key=self.holds.get)
        self.until(a, 3 * TTL_US)
        time.sleep((deadline_us - now_us()) / SECOND)
        self.log("continue")
        os.kill(os.getppid(), signal.SIGCONT)


class Taken(Pipe):
    def lock(self, request):
        self.log("lock", request["key"])
        self.fail(request, "TAKEN", "another owner holds the lock", holder="db1:4711")


class Cancel(Pipe):
    def lock(self, request):
        self.log("lock", request["key"])
        if request["key"] != "a":
            self.grant(request)


class Cross(Cancel):
    def cancel(self, request):
        self.reply(request)
        self.log("cancel", request["lock"])
        self.grant(self.open[request["lock"]])


class Large(Pipe):
    first_hold = fence = LARGEST


class Extend(Pipe):
    extends = False


class NotExtended(Extend):
    def extend(self, request):
        self.fail(request, "NO_QUORUM", "too few nodes gave a usable reply", "SILENT")


class Gone(Pipe):
    def unlock(self, request):
        self.fail(request, "GONE", "the nodes no longer store the token of this lock")


class Unconfirmed(Pipe):
    def unlock(self, request):
        self.fail(request, "UNCONFIRMED", "too few nodes confirmed the release", "SILENT")


SCENARIOS = {re.sub("(?<!^)(?=[A-Z])", "-", kind.__name__).lower(): kind for kind in (
    Good, Late, Silent, Revive, Lost, LostOther, Cut, Dead, DeadHeld, HalfLine, BadLine, Full, Deaf,
    Unknown, Schema, Error, ClockAhead, ClockBehind, Burst, Stopped, Taken, Cancel, Cross, Large,
    Extend, NotExtended, Gone, Unconfirmed)}


def is_stopped(pid):
    """Each of its threads is."""
    states = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii", errors="replace") as file:
            states.append(file.read().rpartition(")")[2].split()[0])
    return set(states) == {"T"}


def read_log():
    with open(os.environ["REDLOCK_KIT_LOG"], encoding="utf-8", errors="replace") as file:
        return file.read()


def main():
    signal.alarm(LONGEST_S)
    # As the real one: a signal to the whole group would release locks too early.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    starts = 1 + len(re.findall(r"^pipe\d+ start", read_log(), re.MULTILINE))
    kind = SCENARIOS[os.environ["REDLOCK_KIT"]]
    log = os.open(os.environ["REDLOCK_KIT_LOG"], os.O_WRONLY | os.O_APPEND)
    (Pipe if kind.once and starts > 1 else kind)(log, starts).run(sys.argv[1:])


if __name__ == "__main__":
    main()
