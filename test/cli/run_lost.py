#!/usr/bin/env python3
"""redlock run when something breaks: the command is dead before another can have the lock.

The command here is three processes that note the time every few milliseconds: itself, a
child, and a descendant in a session of its own. Each case compares their last signs of life
with the time at which the nodes forget the key.
"""
import contextlib
import os
import re
import shlex
import signal
import subprocess

import lab
from lab import case, check, equal, finish, on, redlock
from wrongclock import WrongClock

BEATERS = 3
REPORTS = 350  # more than a socket keeps: 278
AT_ONCE_US = 4000000  # normally a few ms; it was 7 s when redlock left it to the keeper

# Long enough that the rest before the end, 1/16 and 1 %, is longer than a machine stalls.
LONG, LONG_US = "10s", 10000000


class Job:
    """A `redlock run` whose command shows signs of life."""

    def __init__(self, quorum, *words, ttl=LONG, trap='"" TERM', key="k", more=None):
        self.quorum, self.path, self.heard = quorum, lab.temporary("beats"), lab.temporary("heard")
        one = shlex.join(lab.beat(self.path))
        script = f"{one} & setsid {one} >/dev/null 2>&1 & trap {trap}; {one} & while :; do wait; done"
        self.process = lab.start("run", "-t", ttl, *words, key, "sh", "-c", script,
                                 env=on(quorum, heard=self.heard, **(more or {})))
        lab.wait_for_beats(self.path, BEATERS)

    def signal(self, number):
        self.process.send_signal(number)

    @contextlib.contextmanager
    def frozen(self):
        """Redlock is stopped, so that the deadline cannot move in the meantime."""
        self.signal(signal.SIGSTOP)
        lab.wait_for(lambda: lab.state(self.process.pid) == "T", "redlock to stop")
        yield
        self.signal(signal.SIGCONT)

    def last(self):
        found = lab.beats(self.path)
        equal(len(found), BEATERS, "processes that showed signs of life")
        return max(found.values())

    def is_well(self):
        """Waits for another sign of life of each process."""
        before = lab.now_us()
        lab.wait_for(lambda: min(lab.beats(self.path).values()) > before, "signs of life")

    def died_before(self, deadline_us, what):
        late = self.last() - deadline_us
        check(late < 0, f"alive {late} us after {what}")

    def keeper(self):
        [keeper] = lab.named(lab.marked(), "^lock-keeper")
        return keeper

    def command(self):
        """The shell, whose pid is the process group of two of the three."""
        [group] = {os.getpgid(pid) for pid in lab.beats(self.path)} - set(lab.beats(self.path))
        return group

    def end(self, code, **more):
        finish(self.process).expect(code, **more)
        lab.nothing_is_left()

    def end_well(self, code):
        """The script exits by itself when it gets TERM."""
        self.signal(signal.SIGTERM)
        self.end(code)


def sleeps(pid):
    """How often the process has gone to sleep; it does so when it has nothing left to do."""
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", lab.read(f"/proc/{pid}/status"),
                         re.MULTILINE)[1])


def descendants():
    return lab.named(lab.marked(), r"^\S*python\S* .*beat\.py")


def stop(*servers):
    for server in servers:
        server.stop()


def resume(*servers):
    for server in servers:
        server.go_on()


# --- redlock itself ---

@case("redlock is killed: all descendants are dead before the lock is free")
def _(quorum):
    job = Job(quorum, ttl="20m")
    job.process.kill()
    lab.wait_for(lambda: quorum.keys() < 5, "the release")
    released = lab.now_us()
    job.process.communicate()
    lab.nothing_is_left()
    job.died_before(released, "the release")


@case("redlock is stopped for longer than the lock lasts: all descendants are dead before that")
def _(quorum):
    job = Job(quorum)
    job.signal(signal.SIGSTOP)
    lab.wait_for(lambda: lab.state(job.process.pid) == "T", "redlock to stop")
    free = quorum.expires_us("k")
    redlock("run", "-w", "30s", "k", "true", env=on(quorum)).expect(0)
    check(lab.now_us() >= free - 100000, "another client had the lock too early")
    job.died_before(free - 100000, "a tenth of a second before the lock was free")
    lab.wait_for(lambda: not descendants(), "the end of the descendants")
    job.signal(signal.SIGCONT)
    job.end(124, err="the lock is lost")
    equal(quorum.keys(), 0, "keys")


@case("--max-hold: all descendants are dead before it is over, and the lock is released: 124")
def _(quorum):
    job = Job(quorum, "--max-hold", "4s", "--kill-after", "1ms")
    over = lab.now_us() + 4000000  # it was acquired before the first sign of life
    job.end(124, err="^redlock: k: the lock is lost: the longest time to hold the lock is over; "
                     "the command is stopped\n$")
    job.died_before(over, "4 s of the lock")
    equal(quorum.keys(), 0, "keys")


@case("redlock is stopped for less than that: the command continues, the lock is extended")
def _(quorum):
    job = Job(quorum, trap="'exit 7' TERM")
    with job.frozen():
        first = quorum.expires_us("k")
        job.is_well()
    lab.wait_for(lambda: quorum.expires_us("k") > first + 1000000, "an extension")
    job.is_well()
    job.end_well(7)
    equal(quorum.keys(), 0, "keys")


@case("TERM to redlock and a command that ignores it: the lock stays held; KILL ends all")
def _(quorum):
    job = Job(quorum)
    job.signal(signal.SIGTERM)
    first = quorum.expires_us("k")
    lab.wait_for(lambda: quorum.expires_us("k") > first + 1000000, "extensions")
    os.kill(job.process.pid, signal.SIGKILL)
    job.process.communicate()
    lab.nothing_is_left()


@case("redlock is killed, and the command dies while the keeper looks: its children die, too")
def _(quorum):
    job = Job(quorum, more=lab.keeper_shim(SHIM_LATE_DEATH="1"))
    job.process.kill()
    job.process.communicate()
    lab.nothing_is_left()


@case("the command dies of KILL while the keeper looks for its children: they die, too")
def _(quorum):
    job = Job(quorum, more=lab.keeper_shim(SHIM_LATE_KILL="1"))
    job.process.kill()
    job.process.communicate()
    lab.nothing_is_left()


# From the start to the loss: for replies, reconnects and extensions. They need 120 and 6.
WAKES_MAX = {"redlock": 250, "the keeper": 100}


@case("redlock and the keeper sleep while the lock is held, and until it is lost")
def _(quorum):
    sets = lab.write(lab.temporary("sets"), "")
    job = Job(quorum, ttl="6400ms", more=lab.keeper_shim(SHIM_TIMER=sets))
    slept = [sleeps(job.process.pid)]
    first = quorum.expires_us("k")
    lab.wait_for(lambda: quorum.expires_us("k") > first, "an extension")
    quorum.kill(0, 1, 2)

    def is_over():
        with contextlib.suppress(FileNotFoundError, TypeError):  # TypeError: it is a zombie
            slept.append(sleeps(job.process.pid))
        return job.process.poll() is not None
    lab.wait_for(is_over, "the end of redlock")
    job.end(124)
    for who, wakes in (("redlock", slept[-1]), ("the keeper", os.path.getsize(sets))):
        check(wakes <= WAKES_MAX[who], f"{who} woke up {wakes} times")


# --- the keeper ---

@case("the keeper is killed: all descendants are dead before the lock is released")
def _(quorum):
    job = Job(quorum, ttl="30s")
    os.kill(job.keeper(), signal.SIGKILL)
    lab.wait_for(lambda: quorum.keys() == 0, "the release")
    job.died_before(lab.now_us(), "the release")
    check(not descendants(), "descendants after the release")
    job.end(125)


@case("the keeper is killed: a job that the shell left to redlock by exec lives on")
def _(quorum):
    older, path = lab.temporary("older"), lab.temporary("beats")
    tick = "cut -d' ' -f1 /proc/uptime"  # of the clock by which the births of processes count
    script = (f'sleep 999 & echo $! >{older}; for i in 1 2; do begun=$({tick}); '
              f'until [ "$({tick})" != "$begun" ]; do :; done; done; exec "$0" "$@"')
    process = lab.spawn(["sh", "-c", script, lab.program, "run", "k", *lab.beat(path)],
                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                        stderr=subprocess.PIPE, env=lab.environment(on(quorum)))
    lab.wait_for_beats(path)
    [keeper] = lab.named(lab.marked(), "^lock-keeper")
    os.kill(keeper, signal.SIGKILL)
    process.wait(60)
    check(not descendants(), "the command lives")
    pid = int(lab.read(older))
    check(lab.is_alive(pid), "the older job was killed")
    os.kill(pid, signal.SIGKILL)
    finish(process).expect(125, err="the keeper process was killed")
    lab.nothing_is_left()


@case("the keeper is stopped: redlock kills the command at the deadline, and then the rest; "
      "another job, of which three nodes hang for longer than a TTL: 124, and commands that "
      "they execute later leave nothing")
def _(quorum):
    with lab.Quorum() as others:
        job = Job(quorum)
        keeper = job.keeper()
        hung = Job(others)
        with job.frozen(), hung.frozen():
            os.kill(keeper, signal.SIGSTOP)
            lab.wait_for(lambda: lab.state(keeper) == "T", "the keeper to stop")
            free, hung_free = quorum.expires_us("k"), others.expires_us("k")
            quorum.kill(0, 1, 2)
            stop(*others.servers[:3])
        finish(hung.process).expect(124)
        hung.died_before(hung_free, "the lock was free")
        resume(*others.servers[:3])
        lab.wait_for(lambda: others.keys() == 0, "the end of the TTL")
        job.end(124)
    group = sorted(lab.beats(job.path).values())[:BEATERS - 1]
    check(max(group) < free, f"the command's group lived {max(group) - free} us too long")


@case("the keeper is stopped, and all else works: redlock notices, kills all, and releases "
      "the lock: 125")
def _(quorum):
    job = Job(quorum, ttl="2s")
    os.kill(job.keeper(), signal.SIGSTOP)
    lab.wait_for(lambda: quorum.keys() == 0, "the release")
    job.died_before(lab.now_us(), "the release")
    check(not descendants(), "descendants after the release")
    job.end(125, err="the keeper process does not reply")


@case("the keeper is stopped for less than that: the command continues")
def _(quorum):
    job = Job(quorum, ttl="6s", trap="'exit 4' TERM")
    keeper = job.keeper()
    first = quorum.expires_us("k")
    os.kill(keeper, signal.SIGSTOP)
    lab.wait_for(lambda: quorum.expires_us("k") > first + 1000000, "an extension")
    os.kill(keeper, signal.SIGCONT)
    lab.wait_for(lambda: lab.now_us() > first + 1000000, "the end of the first deadline")
    job.is_well()
    job.end_well(4)


@case("keeper and redlock are stopped, and redlock continues too late: it kills all at once")
def _(quorum):
    job = Job(quorum)
    job.signal(signal.SIGSTOP)
    os.kill(job.keeper(), signal.SIGSTOP)
    lab.wait_for(lambda: quorum.keys() == 0, "the end of the lock")
    job.signal(signal.SIGCONT)
    begun = lab.now_us()
    job.end(124, err="the lock is lost")
    late = job.last() - begun
    check(late < AT_ONCE_US, f"alive {late} us after redlock continued")


def send_reports(keeper, shell, until):
    """As many as fill the socket; False: it took too long."""
    for number in (signal.SIGSTOP, signal.SIGCONT) * REPORTS:  # each stop is a report
        before = sleeps(keeper)
        os.kill(shell, number)
        lab.wait_for(lambda: sleeps(keeper) > before or lab.now_us() > until,
                     "the keeper to check the command")
        if lab.now_us() > until:
            return False
    return True


@case("redlock is stopped and reads no reports: at the deadline the keeper kills all the same")
def _(quorum):
    for ttl in ("6s", "20s", "1m"):  # a busy machine takes longer to fill the socket
        job = Job(quorum, ttl=ttl)
        job.signal(signal.SIGSTOP)
        lab.wait_for(lambda: lab.state(job.process.pid) == "T", "redlock to stop")
        free = quorum.expires_us("k")
        keeper, shell = job.keeper(), job.command()
        if send_reports(keeper, shell, free - 1000000):
            break
        lab.wait_for(lambda: not descendants(), "the end of the descendants")
        job.signal(signal.SIGCONT)
        job.end(124)
    else:
        check(False, "the deadline came before the socket was full")
    lab.wait_for(lambda: lab.now_us() > free, "the end of the lock")
    lab.wait_for(lambda: not descendants(), "the end of the descendants")
    job.died_before(free, "the lock was free")
    job.signal(signal.SIGCONT)
    job.end(124)


@case("a time daemon slows the clocks down: the keeper goes by the one that it does not slow")
def _(quorum):
    path, clock = lab.temporary("beats"), WrongClock(lab.temporary("clock"), "slewed")
    process = lab.start("run", "-t", LONG, "k", "env", "-u", "LD_PRELOAD", *lab.beat(path),
                        env=on(quorum, **clock.environment()))
    lab.wait_for_beats(path)
    process.send_signal(signal.SIGSTOP)
    lab.wait_for(lambda: lab.state(process.pid) == "T", "redlock to stop")
    clock.freeze()
    free = quorum.expires_us("k")
    lab.wait_for(lambda: not descendants() or lab.now_us() > free, "the end of the lock")
    [last] = lab.beats(path).values()
    check(last < free and not descendants(), f"alive {last - free} us after the end")
    clock.mend()
    process.send_signal(signal.SIGCONT)
    finish(process).expect(124)


# --- the nodes ---

@case("three nodes die: TERM before the end, KILL at the end, and never later than that; "
      "--kill-after 0: no TERM; more than a quarter of the TTL is cut")
def _(quorum):
    jobs = {words: Job(quorum, "--kill-after", words, ttl=LONG, key=words,
                       trap="'read up idle </proc/uptime; echo $up >$heard' TERM")
            for words in ("2s", "0", "1h")}
    with contextlib.ExitStack() as stack:
        for job in jobs.values():
            stack.enter_context(job.frozen())
        begun = lab.now_us()
        free = {words: quorum.expires_us(words) for words in jobs}
        quorum.kill(0, 1, 2)
    for words, job in jobs.items():
        job.end(124, err="the lock is lost")
        job.died_before(free[words], f"the lock was free, with {words}")
        check(job.last() > begun + (free[words] - begun) / 2,
              f"stopped far too early, with {words}")
        equal(os.path.exists(job.heard), words != "0", f"whether TERM came, with {words}")
    heard, end = float(lab.read(jobs["2s"].heard)) * 1000000, free["2s"]
    check(heard > end - LONG_US * (0.01 + 1 / 16) - 2000000 - 300000,
          f"TERM {end - heard} us before the end")
    check(heard < end, f"TERM {heard - end} us after the end")
    equal(quorum.keys(), 0, "keys on the nodes that live")


@case("a command that ends on TERM ends well before the deadline; still 124")
def _(quorum):
    job = Job(quorum, "--kill-after", "500ms", trap="'exit 0' TERM")
    with job.frozen():
        free = quorum.expires_us("k")
        quorum.kill(0, 1, 2)
    job.end(124)
    job.died_before(free, "the lock was free")


@case("a command that is stopped gets CONT with its TERM: it can end by itself")
def _(quorum):
    heard = lab.temporary("heard")
    script = f"trap 'echo >{heard}; exit' TERM; kill -STOP $$; while :; do sleep 0.02; done"
    process = lab.start("run", "-t", LONG, "--kill-after", "2s", "k", "sh", "-c", script,
                        env=on(quorum))
    [shell] = lab.wait_for(lambda: [pid for pid in lab.named(lab.marked(), "^sh -c trap")
                                    if lab.state(pid) == "T"], "a stopped command")
    quorum.kill(0, 1, 2)
    finish(process).expect(124)
    check(not lab.is_alive(shell) and os.path.exists(heard), "it was killed")


@case("all nodes restart without their data: 124 before the old deadline")
def _(quorum):
    job = Job(quorum)
    with job.frozen():
        free = quorum.expires_us("k")
        quorum.kill(*range(5))
        quorum.start()
    job.end(124)
    job.died_before(free, "the lock was free")
    equal(quorum.keys(), 0, "keys")


# --- other clients ---

@case("break during a run: the command is killed within a TTL, and gets no TERM, 124")
def _(quorum):
    job = Job(quorum, "--kill-after", "1h", trap="'echo >$heard' TERM")
    redlock("break", "--yes", "k", env=on(quorum)).expect(0)
    broken = lab.now_us()
    job.end(124, err="the lock is lost")
    job.died_before(broken + LONG_US, "a TTL after the break")
    check(not os.path.exists(job.heard), "the command got TERM")


@case("another client takes the lock after a break: 124, and its lock stays")
def _(quorum):
    job = Job(quorum)
    redlock("break", "--yes", "k", env=on(quorum)).expect(0)
    for server in quorum.servers:  # an extension under way may have recreated the key
        lab.wait_for(lambda: server.call("SET", "k", "other", "NX", "PX", 600000), "a free key")
    job.end(124)
    equal(quorum.values("k"), ["other"] * 5, "values")


@case("another client's value is on the nodes: 124, and the message names its holder")
def _(quorum):
    job = Job(quorum, trap="'exit 5' TERM")
    for server in quorum.servers:
        server.call("SET", "k", "token@someone", "PX", 600000)
    job.end(124, err="k: the lock is lost: k is held by .*someone; the command is stopped\n")


lab.main()
