"""What happens to a program that holds a lock by `redlock pipe`, and what it must do then.

The program is the driver of a wrapper (contrib/pipe/README.md) above the real pipe. Another one,
of the same language, waits for the lock. Both write to one pipe: so their lines have one order.
"""
import json
import os
import pathlib
import random
import re
import signal
import string
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "test/cli"), str(ROOT / "contrib/pipe")]
import conform  # noqa: E402
import lab  # noqa: E402
from lab import check, wait_for  # noqa: E402
from wrongclock import WrongClock  # noqa: E402

TTL_S = 2
FAR = "30s"      # a TTL that no lock waits for: who has it sooner has it by a release
FAR_S = 10       # that is sooner
FOREVER = 60000  # ms
STOPPED_S = 1.5 * TTL_S
SUSPENDED_TTL_S = 6
NOTICED_S = 3    # after a suspension; by a timer alone it would take more than 4 s
OUTLASTS = 2500  # ms of work, which needs an extension
MANY, LINES = 100, 1000
SYS_PIDFD_GETFD = 438
# The order of lines where the lock is kept to the end, and where it is lost.
KEPT = ["k held", "k returned valid", "k held"]
LOST = ["k aborted", "k returned invalid", "k failed"]


class Scene:
    """Servers, the programs of one language, and the lines that they have printed, with times."""

    def __init__(self, words):
        self.words, self.lines, self.programs = words, [], []

    def __enter__(self):
        self.quorum = lab.Quorum(3).__enter__()
        lab.redlock("admit", "--new", "--at-once", env=lab.on(self.quorum)).expect(0)
        read_end, self.out = os.pipe()
        threading.Thread(target=self.listen, args=(open(read_end, encoding="utf-8"),)).start()
        return self

    def __exit__(self, *_):
        os.close(self.out)
        for program in self.programs:
            program.kill()
            program.wait()
        self.quorum.__exit__()

    def listen(self, file):
        with file:
            for line in file:
                self.lines.append((time.monotonic(), line.strip()))

    def start(self, *steps, ttl=f"{TTL_S}s", **more):
        env = lab.environment(lab.on(self.quorum, REDLOCK_COMMAND=lab.program, REDLOCK_TTL=ttl,
                                     **more))
        self.programs.append(lab.spawn([*self.words, *steps], env=env, stdout=self.out,
                                       stdin=subprocess.DEVNULL, start_new_session=True))
        return self.programs[-1]

    def hold(self, ms=FOREVER, verb="hold", **more):
        """The program, which holds the lock, while another one waits for it."""
        program = self.start(f"{verb}:k:{ms}", **more)
        self.wait("k held")
        self.start("hold:k:0", ttl=FAR)
        wait_for(lambda: any(server.call("EXISTS", "k!queue") for server in self.quorum.servers),
                 "a program that waits")
        return program

    def wait(self, pattern, count=1):
        """When so many lines match."""
        def found():
            times = [at for at, line in list(self.lines) if re.match(pattern + r"\b", line)]
            return len(times) >= count and times[count - 1]
        try:
            return wait_for(found, f"{pattern}, {count} times")
        except lab.Failed as failed:
            raise lab.Failed(f"{failed}; {[line for _, line in self.lines]}") from None

    def since(self, begun, *orders):
        """How many ms later the other one had the lock; lines match the patterns of each order."""
        ms = (self.wait("k held", 2) - begun) * 1000
        self.wait("k released", 2 if KEPT in orders else 1)
        if LOST in orders:
            self.wait("k failed")
        lines = [line for _, line in self.lines]
        for order in orders:
            pattern = conform.missing(order, lines)
            check(not pattern, f"missing, or in another order: {pattern}; {lines}")
        is_lost = any(line.startswith("k aborted") for line in lines)
        check(is_lost == (LOST in orders), f"aborted: {is_lost}; {lines}")
        fences = [int(line.split()[2]) for line in lines if line.startswith("k held")]
        check(fences == sorted(set(fences)), f"fences {fences}")
        return ms


def pipe_of(program):
    """The pid of its `redlock pipe`."""
    for path in pathlib.Path(f"/proc/{program.pid}/task").glob("*/children"):
        for pid in map(int, path.read_text().split()):
            if b"--parent" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    raise lab.Failed("there is no pipe")


def stdout_of(pid):
    """Another descriptor of it."""
    fd = lab.libc.syscall(SYS_PIDFD_GETFD, os.pidfd_open(pid), 1, 0)
    check(fd >= 0, "the stdout of the pipe cannot be had: pidfd_getfd(2) fails")
    return fd


def stop(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: all(lab.state(pid) == "T" for pid in pids), "what is stopped")
    return time.monotonic()


def go_on(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def released(ms):
    check(ms < FAR_S * 1000, f"free only after {ms:.0f} ms")
    return ms


# --- each returns after how many ms another program had the lock ---

def program_killed(scene):
    program = scene.hold(ttl=FAR)
    program.kill()
    return released(scene.since(time.monotonic()))


def pipe_killed(scene):
    program = scene.hold()
    os.kill(pipe_of(program), signal.SIGKILL)
    return scene.since(time.monotonic(), ["k aborted (PIPE|CLOSED)", "k held"], LOST)


def node_killed(scene):
    scene.hold(OUTLASTS)
    scene.quorum.kill(0)
    return scene.since(scene.wait("k returned"), KEPT)


def group_terminated(scene):
    program = scene.hold(ttl=FAR)
    os.killpg(program.pid, signal.SIGTERM)
    return released(scene.since(time.monotonic()))


def program_stopped(scene):
    """The pipe extends the lock meanwhile, and the newer deadline counts."""
    program = scene.hold(int(STOPPED_S * 1000) + OUTLASTS)
    stop(program.pid)
    time.sleep(STOPPED_S)
    go_on(program.pid)
    return scene.since(scene.wait("k returned"), KEPT)


def pipe_stopped(scene):
    pipe = pipe_of(scene.hold())
    begun = stop(pipe)
    scene.wait("k held", 2)
    go_on(pipe)
    return scene.since(begun, ["k aborted EXPIRED", "k held"], LOST)


def node_stopped(scene):
    scene.hold(int(STOPPED_S * 1000))
    scene.quorum[0].stop()
    ms = scene.since(scene.wait("k returned"), KEPT)
    scene.quorum[0].go_on()
    return ms


def suspended(scene):
    """As the machine of both: their timers have not gone on. The pipe wakes up late, so the
    program must look at the clock by itself."""
    clock = WrongClock(lab.temporary("clock"), "suspended")
    program = scene.hold(ttl=f"{SUSPENDED_TTL_S}s", **clock.environment())
    pipe = pipe_of(program)
    begun = stop(program.pid, pipe)
    scene.wait("k held", 2)
    clock.jump(-int((time.monotonic() - begun) * 1e6))
    awake = time.monotonic()
    go_on(program.pid)
    took = scene.wait("k aborted") - awake
    check(took < NOTICED_S, f"aborted only {took:.1f} s after the suspension")
    go_on(pipe)
    return scene.since(begun, ["k held", "k held", "k aborted EXPIRED"], LOST)


def child_left(scene):
    program = scene.hold(verb="child", ttl=FAR)
    scene.wait("k child")
    child = next(int(line.split()[2]) for _, line in scene.lines if line.startswith("k child"))
    program.kill()
    ms = scene.since(time.monotonic())
    os.kill(child, signal.SIGKILL)  # fails if it has ended
    return released(ms)


def many_keys(scene):
    scene.start("hold:k:0", f"many:m:{MANY}")
    ms = (scene.wait("m many") - scene.wait("k released")) * 1000
    check(scene.lines[-1][1] == f"m many {MANY}", scene.lines[-1][1])
    return ms


def many_want_one(scene):
    scene.start(",".join(["hold:k:0"] * MANY))
    scene.wait("k released", MANY)
    ms = (scene.wait("k held", MANY) - scene.wait("k held")) * 1000
    scene.since(0, ["k held", "k returned valid"] * MANY)
    return ms


def not_read(scene):
    """The pipe extends nothing after a second without a reader; then the lock ends."""
    program = scene.hold()
    out = stdout_of(pipe_of(program))
    begun = stop(program.pid)
    try:
        while True:
            os.write(out, b'{"notice":"full"}\n')
    except BlockingIOError:
        os.close(out)
    scene.wait("k held", 2)
    go_on(program.pid)
    return scene.since(begun, ["k held", "k held", "k aborted"], LOST)


def random_value(prng, depth=0):
    """Any that JSON has."""
    name = "".join(prng.choices(string.printable + "é\u2028\U0001f512", k=prng.randrange(9)))
    more = [[], {}] if depth > 2 else [
        [random_value(prng, depth + 1) for _ in range(prng.randrange(4))],
        {name + str(i): random_value(prng, depth + 1) for i in range(prng.randrange(4))}]
    return prng.choice([None, True, False, name, prng.getrandbits(64), prng.gauss(0, 1e9), *more])


def random_lines(scene):
    """Notices, members, requests and holds that no wrapper knows."""
    prng = random.Random(1)
    out = stdout_of(pipe_of(scene.hold(OUTLASTS)))
    for _ in range(LINES):
        known = prng.choice([{"id": prng.randrange(1000, 2**53)}, {"notice": f"x{prng.random()}"},
                             {"notice": "until", "hold": 0, "until_us": prng.randrange(2**53)},
                             {"notice": "lost", "hold": 0, "error": "GONE", "text": "x"}])
        members = {f"x{i}": random_value(prng) for i in range(prng.randrange(4))}
        line = json.dumps({**members, **known}, ensure_ascii=prng.random() < 0.5).encode() + b"\n"
        wait_for(lambda line=line: write_whole(out, line), "a wrapper that reads")
    os.close(out)
    return scene.since(scene.wait("k returned"), KEPT)


def write_whole(out, line):
    try:
        return os.write(out, line) == len(line)
    except BlockingIOError:
        return False


ROWS = {
    "kill -9 of the program": program_killed,
    "kill -9 of its pipe": pipe_killed,
    "kill -9 of a node": node_killed,
    "SIGTERM to its process group": group_terminated,
    "SIGSTOP of the program": program_stopped,
    "SIGSTOP of its pipe": pipe_stopped,
    "SIGSTOP of a node": node_stopped,
    "suspended machine": suspended,
    "its child lives on": child_left,
    "100 locks at once": many_keys,
    "100 want one lock": many_want_one,
    "stdout of the pipe is full": not_read,
    "1,000 random lines": random_lines,
}


def play(row, words):
    with Scene(words) as scene:
        return ROWS[row](scene)
