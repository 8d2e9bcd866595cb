"""Shared by the tests of the command: their own Redis masters, the command, and TAP.

A test file names its cases by @case and ends in main(). Each case gets a quorum of running,
empty servers, and fails also if it leaves a process behind: every process that the command
starts, wherever it runs, has a mark in its environment by which it is found in /proc.
"""
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

from wrongclock import WrongClock

PATIENCE = "2s"
PATIENT = ("--timeout", "5s")  # longer than a reply of any node takes
# Longer than any condition takes on a loaded machine: a test that waits this long has failed.
CASE_SECONDS = 240
STATE_SECONDS = 60
END_SECONDS = 120
MARK = f"LOCK_TEST_MARK={os.getpid()}-{time.time_ns()}"
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)
program = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "redlock"
cases = []


# --- checks ---

class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


def equal(got, wanted, what):
    check(got == wanted, f"{what}: {got!r} instead of {wanted!r}")


def matches(text, pattern, what):
    check(re.search(pattern, text, re.DOTALL), f"{what}: {text!r} does not match {pattern!r}")


def check_numbers(value, where):
    """Checks that every _ms and _us is an integer, or unknown."""
    if isinstance(value, list):
        for one in value:
            check_numbers(one, where)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name.endswith(("_ms", "_us")):
                check(one is None or type(one) is int, f"{name} is {one!r} in {where}")
            check_numbers(one, where)


def wait_for(condition, what, seconds=STATE_SECONDS):
    """Waits until condition() is true, and returns its result."""
    give_up = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        check(time.monotonic() < give_up, f"waited {seconds} s in vain for: {what}")
        time.sleep(0.005)


# --- clocks ---

def now_us():
    """CLOCK_BOOTTIME, by which the command counts deadlines."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


# --- processes ---

def die_with_us():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def spawn(words, **more):
    """Options of a process that does not outlive this one, and has default signal actions."""
    return subprocess.Popen(words, preexec_fn=die_with_us, **more)


def environment(changes):
    """Our environment without variables that configure the command, with the mark and the changes."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("REDLOCK_") and name not in ("NO_COLOR", "TMPDIR")}
    name, value = MARK.split("=")
    kept[name] = value
    kept["TMPDIR"] = folder
    kept.update(changes)
    return {name: value for name, value in kept.items() if value is not None}


def state(pid):
    """The state in /proc: R, S, T, Z ...; "" if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_alive(pid):
    return state(pid) not in ("", "Z", "X")


def naps(pid):
    """Its state, and its numbers of voluntary and involuntary context switches."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return re.findall(r"^(?:State|\w+_ctxt_switches):\s+(\w+)", file.read(), re.MULTILINE)


def are_asleep(pids):
    """Whether all of them have slept at one time: nothing is under way between them."""
    before = [naps(pid) for pid in pids]
    return all(one[0] == "S" for one in before) and before == [naps(pid) for pid in pids]


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


# --- Redis ---

class RedisError(Exception):
    pass


class Redis:
    """One connection to one server. Enough of RESP for tests."""

    def __init__(self, path, password=None, timeout=STATE_SECONDS):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")
        if password is not None:
            self.call("AUTH", password)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def call(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) +
                            b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.read()

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode(
                errors="surrogateescape")
        return None if rest == b"-1" else [self.read() for _ in range(int(rest))]


def free_port():
    """A port that the kernel chose; another process may take it before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One Redis master on a unix socket. Lives no longer than this process.

    `clock` is its time of day, if that is to be wrong: a WrongClock, else None.
    """

    def __init__(self, home, index, options=(), clock=None):
        self.path = os.path.join(home, f"{index + 1}.sock")
        self.log = os.path.join(home, f"{index + 1}.log")
        self.uri = "unix://" + self.path
        self.words = [find_server(), "--port", "0", "--unixsocket", self.path, "--dir", home,
                      "--logfile", self.log, "--save", "", "--appendonly", "no", *options]
        self.password = dict(zip(options[::2], options[1::2])).get("--requirepass")
        self.clock = clock
        self.process = None
        self.connection = None

    def begin(self):
        plain = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
        if self.clock:
            plain.update(self.clock.environment())
        self.process = spawn(self.words, env=plain, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_ready(self):
        """Whether it replies, and not another server at the same path."""
        check(self.process.poll() is None, f"a server ended: see {self.log}")
        try:
            with Redis(self.path, self.password) as redis:
                found = re.search(r"process_id:(\d+)", redis.call("INFO", "server"))
        except (OSError, RedisError):
            return False
        check(int(found[1]) == self.process.pid, "another server replies at the socket")
        return True

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        """Stops it by SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: state(self.process.pid) == "T", "a server that stands still")

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def start(self):
        self.begin()
        wait_for(self.is_ready, "a server that answers")

    def kill(self):
        if self.connection:
            self.connection.__exit__()
            self.connection = None
        if self.process:
            self.process.kill()
            self.process.wait()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def listen(self):
        """Opens a TCP port of 127.0.0.1 and returns its number; port 0 closes it."""
        def try_one():
            port = free_port()
            try:
                self.call("CONFIG", "SET", "port", port)
            except RedisError:  # another process has it by now
                return 0
            return port
        return wait_for(try_one, "a free port")

    def call(self, *words):
        if not self.connection:
            self.connection = Redis(self.path, self.password)
        return self.connection.call(*words)


def find_server():
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    check(found, "neither redis-server nor valkey-server is installed")
    return found


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
    return Outcome(process.args[1:], process.returncode,
                   *((stream or b"").decode(errors="surrogateescape") for stream in (out, err)),
                   time.monotonic() - begun)


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

def keeper_shim(**more):
    """The environment of a `run` under test/support/keepershim.c, with its settings."""
    found = os.environ.get("KEEPER_SHIM")
    check(found, "KEEPER_SHIM is not set: it names what meson makes of keepershim.c")
    return {"LD_PRELOAD": found, **more}



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
    """Returns whether the case passed; if not, prints why."""
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
        return True
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
    return False


def run_cases(quorum):
    failed = 0
    wanted = [one for one in cases if not sys.argv[2:] or any(w in one[0] for w in sys.argv[2:])]
    print(f"1..{len(wanted)}", flush=True)
    for number, (text, function) in enumerate(wanted, 1):
        begun = time.monotonic()
        passed = run_case(text, function, quorum)
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} - {text}", flush=True)
        if os.environ.get("LAB_TIMES"):
            say(f"{time.monotonic() - begun:.2f} s")
    return failed


def main(servers=5, wrong=()):
    """Runs the cases, or those whose text contains a word of the command line."""
    global folder
    signal.signal(signal.SIGALRM, overdue)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as folder:
        try:
            if servers == 0:
                sys.exit(run_cases(None) > 0)
            with Quorum(servers, wrong=wrong) as quorum:
                sys.exit(run_cases(quorum) > 0)
        finally:
            kill_what_is_left()


folder = None
