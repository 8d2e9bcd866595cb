"""One Redis server, and connections to it."""
import os
import re
import shutil
import signal
import socket
import subprocess

from checks import STATE_SECONDS, Skipped, check, wait_for
from processes import spawn, state


class RedisError(Exception):
    pass


class Redis:
    """One connection to one server. Enough of RESP for tests. `password`: or (user, password)"""

    def __init__(self, path, password=None, timeout=STATE_SECONDS):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")
        if password is not None:
            self.call("AUTH", *([password] if isinstance(password, str) else password))

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
        """It has its data and replies, and not another server at the same path."""
        check(self.process.poll() is None, f"a server ended: see {self.log}")
        try:
            with Redis(self.path, self.password) as redis:
                told = redis.call("INFO")
        except (OSError, RedisError):
            return False
        found = re.search(r"process_id:(\d+)", told)
        check(int(found[1]) == self.process.pid, "another server replies at the socket")
        return "\nloading:0\r" in told

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


def need_tls():
    """Skips the case if the server was built without TLS; Valkey 9.1 then dies of CONFIG SET."""
    done = subprocess.run([find_server(), "--port", "0", "--tls-port", "1", "--tls-cert-file",
                           "/none"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=STATE_SECONDS, check=False)
    if "Failed to configure TLS" not in done.stdout:
        raise Skipped("the server is built without TLS")
