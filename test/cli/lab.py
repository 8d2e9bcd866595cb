"""Shared by the tests of the command: their own Redis masters, the command, and TAP.

A test file names its cases by @case and ends in main(). Each case gets a quorum of running,
empty servers, and fails also if it leaves a process behind: every process that the command
starts, wherever it runs, has a mark in its environment by which it is found in /proc.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

from checks import (  # noqa: F401
    STATE_SECONDS, Failed, Skipped, check, check_numbers, equal, matches, wait_for)
from processes import are_asleep, die_with_us, is_alive, libc, spawn, state  # noqa: F401
from redis_server import Redis, RedisError, Server, free_port  # noqa: F401
from wrongclock import WrongClock

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))


PATIENCE = "2s"
PATIENT = ("--timeout", "5s")  # longer than a reply of any node takes
# See STATE_SECONDS.
CASE_SECONDS = 240
END_SECONDS = 120
MARK = f"LOCK_TEST_MARK={os.getpid()}-{time.time_ns()}"

program = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "redlock"
cases = []


# --- clocks ---

def now_us():
    """CLOCK_BOOTTIME, by which the command counts deadlines."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


# --- processes ---

def environment(changes):
    """Our environment without variables that configure the command, with the mark and the changes."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("REDLOCK_") and name not in ("NO_COLOR", "TMPDIR")}
    name, value = MARK.split("=")
    kept[name] = value
    kept["TMPDIR"] = folder
    kept["REDLOCK_CONFIG"] = "/dev/null"  # not /etc/redlock.conf
    kept.update(changes)
    return {name: value for name, value in kept.items() if value is not None}


def marked():
    """The living processes that the command started: {pid: its words}.

    A Redis server writes its title over its environment, so it is found by its socket.
    
    """
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                has_mark = MARK.encode() in file.read().split(b"\0")
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().replace(b"\0", b" ").decode(errors="replace")
            if (has_mark or f"{folder}/redlock-" in words) and is_alive(name):
                found[int(name)] = words
        except OSError:
            pass  # it has ended meanwhile
    return found


def named(words, pattern):
    """The pids of those in marked() that match."""
    return [pid for pid, line in words.items() if re.search(pattern, line)]


def nothing_is_left(seconds=STATE_SECONDS):
    try:
        wait_for(lambda: not marked(), "the end of all processes that the command started",
                 seconds)
    except Failed as failed:
        left = {pid: (words, state(pid), read(f"/proc/{pid}/wchan"))
                for pid, words in marked().items()}
        raise Failed(f"{failed}: {left}") from None


def kill_what_is_left():
    give_up = time.monotonic() + STATE_SECONDS
    while marked() and time.monotonic() < give_up:
        for pid in marked():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
    for name in os.listdir(folder):
        if name.startswith("redlock-"):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


# --- servers ---

class Quorum:
    """Several servers, and the keys that they store.

    The servers with the indexes `wrong` have a clock that a case may change: quorum[0].clock.
    
    """

    def __init__(self, count=5, options=(), wrong=()):
        self.home = tempfile.mkdtemp(dir=folder)
        clocks = {index: WrongClock(os.path.join(self.home, f"{index + 1}.clock"))
                  for index in wrong}
        self.servers = [Server(self.home, index, options, clocks.get(index))
                        for index in range(count)]
        self.uris = [server.uri for server in self.servers]
        self.nodes = ",".join(self.uris)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def __getitem__(self, index):
        return self.servers[index]

    def start(self):
        """Starts those that do not run, all at once."""
        started = [server for server in self.servers if not server.is_running()]
        for server in started:
            server.begin()
        for server in started:
            wait_for(server.is_ready, "a server that answers")

    def reset(self):
        for server in self.servers:
            if server.clock:
                server.clock.mend()
        self.start()
        for server in self.servers:
            server.call("FLUSHALL")

    def kill(self, *indexes):
        for index in indexes:
            self.servers[index].kill()

    def values(self, key):
        """The value on each running server; None if there is none."""
        return [server.call("GET", key) if server.is_running() else None
                for server in self.servers]

    def keys(self):
        return sum(server.call("DBSIZE") for server in self.servers if server.is_running())

    def attempts(self):
        """How many SETs the running servers have executed."""
        stats = [server.call("INFO", "commandstats") for server in self.servers
                 if server.is_running()]
        return sum(int(found[1]) for text in stats
                   if (found := re.search(r"cmdstat_set:calls=(\d+)", text)))

    def occupy(self, key, indexes=range(5), value="foreign", ms=600000):
        for index in indexes:
            equal(self.servers[index].call("SET", key, value, "NX", "PX", ms), "OK",
                  "a foreign SET NX")

    def expires_us(self, key):
        """When enough servers will have expired the key that another client may have the lock.

        Only of servers whose clocks are correct.
        
        """
        offset = now_us() - time.time_ns() // 1000
        times = sorted(server.call("PEXPIRETIME", key) * 1000
                       for server in self.servers if server.is_running())
        needed = len(self.servers) // 2  # with this many free another client has no majority
        check(len(times) > needed and times[needed] > 0, f"no majority stores {key}")
        return times[needed] + offset


def durable(count=3, wrong=()):
    """Servers for which `redlock check` has no finding."""
    quorum = Quorum(count, wrong=wrong)
    for index, server in enumerate(quorum.servers):
        server.words += ["--appendonly", "yes", "--appendfsync", "always",
                         "--appenddirname", f"aof{index}"]
    return quorum


# --- the command ---

LINES_MAX = 100  # of JSON that one call printed, to be validated


def parsed(text):
    """The object that the command printed; fails unless docs/schema says so, too."""
    import json_schema  # which few tests need, and which takes long
    found = json.loads(text)
    wrong = json_schema.faults_of(found)
    check(not wrong, f"{wrong}, by docs/schema/redlock.schema.json: {text[:2000]}")
    return found


class Outcome:
    def __init__(self, words, code, out, err, seconds):
        self.words = [os.fsdecode(word) for word in words]
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def expect(self, code, err=None, out=None):
        """Fails unless it is as expected; `err` is a pattern, `out` the whole text."""
        check(self.code == code, f"exit {self.code} instead of {code}: {self}")
        if err is not None:
            matches(self.err, err, f"stderr of {self}")
        if out is not None:
            equal(self.out, out, f"stdout of {self}")
        return self

    def json(self):
        """The one object on stdout."""
        equal(self.out.count("\n"), 1, f"lines on stdout of {self}")
        return json.loads(self.out)

    def __str__(self):
        return f"{' '.join(self.words)}\nstdout: {self.out}\nstderr: {self.err}"


def start(*words, env=None, **more):
    """Starts `redlock words...` and returns its process."""
    more.setdefault("stdin", subprocess.DEVNULL)
    more.setdefault("stdout", subprocess.PIPE)
    more.setdefault("stderr", subprocess.PIPE)
    return spawn([program, *words], env=environment(env or {}), **more)


def finish(process, text=None, seconds=END_SECONDS):
    """Waits for a process of start(); returns its Outcome."""
    begun = time.monotonic()
    try:
        out, err = process.communicate(text.encode() if text is not None else None, seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Failed(f"{' '.join(process.args[1:])} does not end") from None
    seconds = time.monotonic() - begun
    texts = [(stream or b"").decode(errors="surrogateescape") for stream in (out, err)]
    for line in re.findall(r'^{"schema":"redlock\..*}\n', "".join(texts), re.MULTILINE)[:LINES_MAX]:
        parsed(line)
    return Outcome(process.args[1:], process.returncode, *texts, seconds)


def redlock(*words, text=None, env=None, **more):
    """Runs `redlock words...` to its end; `text` is its stdin."""
    if text is not None:
        more["stdin"] = subprocess.PIPE
    return finish(start(*words, env=env, **more), text)


def on(quorum, **more):
    """The environment that names these nodes, with PATIENCE as the timeout of each.

    Otherwise a node that replied within a millisecond has 50 ms from then on.
    
    """
    path = os.path.join(folder, "patience")
    if not os.path.exists(path):
        write(path, f"timeout = {PATIENCE}\n")
    return {"REDLOCK_NODES": quorum.nodes, "REDLOCK_CONFIG": path, **more}


# --- commands for `run` ---

def lose(quorum, *words, ttl):
    """A `redlock run` of "k" until three of five nodes are killed: the token, and its stderr."""
    path = temporary("beats")
    process = start(*words, "run", "-t", ttl, "k", *beat(path), env=on(quorum))
    wait_for_beats(path)
    [token] = {value for value in quorum.values("k") if value}
    quorum.kill(0, 1, 2)
    return token, finish(process).expect(124, err="the lock is lost").err



def keeper_shim(**more):
    """The environment of a `run` under test/support/keepershim.c, with its settings."""
    found = os.environ.get("KEEPER_SHIM")
    check(found, "KEEPER_SHIM is not set: it names what meson makes of keepershim.c")
    return {"LD_PRELOAD": found, **more}


def keeper_of(process):
    """The pid of the keeper of a `run` or `elect`."""
    [keeper] = read(f"/proc/{process.pid}/task/{process.pid}/children").split()
    return int(keeper)


def die(process):
    """Ends a `run` or `elect` as the end of its host does: nobody releases the lock."""
    keeper = keeper_of(process)
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: state(process.pid) == "T", "redlock to stop")
    os.kill(keeper, signal.SIGKILL)
    process.kill()


def beat(path):
    """A command that writes its pid and the time to the file, for as long as it lives."""
    return [sys.executable, "-S", "-E", os.path.join(os.path.dirname(__file__), "beat.py"), path]


def beats(path):
    """{pid: the time of its last sign of life, in us}"""
    last = {}
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            for line in file:
                words = line.split()
                if line.endswith("\n") and len(words) == 2:
                    last[int(words[0])] = int(words[1])
    return last


def wait_for_beats(path, count=1):
    return wait_for(lambda: len(beats(path)) >= count and beats(path), "signs of life")


def temporary(name):
    """A path that is not used yet."""
    return os.path.join(tempfile.mkdtemp(dir=folder), name)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text, mode=0o600):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


# --- TAP ---

def case(text):
    def add(function):
        cases.append((text, function))
        return function
    return add


def say(text):
    """On stderr, which meson shows for a failed test; it does not show the text between the TAP."""
    for line in str(text).splitlines():
        print("#", line, file=sys.stderr, flush=True)


def overdue(*_):
    raise Failed(f"the case takes longer than {CASE_SECONDS} s")


def run_case(text, function, quorum):
    """Returns whether the case passed, and why it was skipped; if it failed, prints why."""
    try:
        signal.alarm(CASE_SECONDS)
        if quorum:
            quorum.reset()
            function(quorum)
        else:
            function()
        signal.alarm(0)
        left = marked()
        check(not left, f"left behind: {left}")
        return True, ""
    except Skipped as why:
        return True, f" # SKIP {why}"
    except Failed as failure:
        say(f"failed: {text}")
        where = traceback.extract_tb(failure.__traceback__)
        say(" < ".join(f"{os.path.basename(frame.filename)}:{frame.lineno}"
                       for frame in reversed(where)))
        say(failure)
    except Exception:
        say(f"failed: {text}")
        say(traceback.format_exc())
    finally:
        signal.alarm(0)
        kill_what_is_left()
    if quorum:
        quorum.kill(*range(len(quorum.servers)))  # the next case gets servers in their first state
    return False, ""


def run_cases(quorum):
    failed = 0
    wanted = [one for one in cases if not sys.argv[2:] or any(w in one[0] for w in sys.argv[2:])]
    print(f"1..{len(wanted)}", flush=True)
    for number, (text, function) in enumerate(wanted, 1):
        begun = time.monotonic()
        passed, skipped = run_case(text, function, quorum)
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} - {text}{skipped}", flush=True)
        if os.environ.get("LAB_TIMES"):
            say(f"{time.monotonic() - begun:.2f} s")
    return failed


def main(servers=5, wrong=()):
    """Runs the cases, or those whose text contains a word of the command line."""
    def play():
        signal.signal(signal.SIGALRM, overdue)
        if servers == 0:
            return run_cases(None) > 0
        with Quorum(servers, wrong=wrong) as quorum:
            return run_cases(quorum) > 0
    run(play)


def run(play):
    """Ends with the code of play(), and leaves no process and no file."""
    global folder
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as folder:
        try:
            code = play()
        finally:
            kill_what_is_left()
    sys.exit(code)


folder = None
