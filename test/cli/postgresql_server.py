"""A private PostgreSQL server, and connections to it."""
import glob
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile

import lab
from checks import STATE_SECONDS, check, equal, wait_for
from processes import is_alive, spawn

PROTOCOL = 3 << 16
PORT = 5432  # without TCP only part of the socket's name
USERS = ("postgres", "nobody")  # the server refuses to run as root


class PostgresqlError(Exception):
    """An error of the server; `code` is its SQLSTATE."""

    def __init__(self, fields):
        super().__init__(f"{fields['C']}: {fields['M']}")
        self.code = fields["C"]


class Connection:
    """One session of the superuser, or of another user. Enough of the protocol for tests."""

    def __init__(self, folder, user="postgres", port=PORT):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(STATE_SECONDS)
        self.socket.connect(os.path.join(folder, f".s.PGSQL.{port}"))
        self.file = self.socket.makefile("rb")
        words = f"user\0{user}\0database\0postgres\0\0".encode()
        self.socket.sendall(struct.pack("!II", len(words) + 8, PROTOCOL) + words)
        self.pid = None
        self.tag = None  # what the last statement did
        self.receive()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, sql):
        """Sends statements; receive() gets the result."""
        text = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!I", len(text) + 4) + text)

    def receive(self):
        """The rows, as texts; or raises the error."""
        rows, error = [], None
        while True:
            kind, text = self.message()
            if kind == b"K":
                [self.pid] = struct.unpack("!I", text[:4])
            elif kind == b"D":
                rows.append(values(text))
            elif kind == b"C":
                self.tag = text[:-1].decode()
            elif kind == b"E":
                fields = text.decode(errors="replace").split("\0")
                error = PostgresqlError({field[0]: field[1:] for field in fields if field})
                if self.pid is None:  # before the session no READY follows
                    raise error
            elif kind == b"Z" and error:
                raise error
            elif kind == b"Z":
                return rows

    def message(self):
        head = self.file.read(5)
        if len(head) < 5:
            raise ConnectionError("the server has closed the connection")
        kind, size = struct.unpack("!cI", head)
        return kind, self.file.read(size - 4)

    def call(self, sql):
        self.send(sql)
        return self.receive()


def values(text):
    """The columns of a DataRow."""
    [count], at, found = struct.unpack("!H", text[:2]), 2, []
    for _ in range(count):
        [size] = struct.unpack("!i", text[at:at + 4])
        at += 4
        found.append(None if size < 0 else text[at:at + size].decode())
        at += max(size, 0)
    return found


def quote(value):
    return "'" + str(value).replace("'", "''") + "'"


class Server:
    """A cluster of its own in a temporary folder, on a unix socket there; TCP if `port` is given."""

    def __init__(self, port=None):
        self.port, self.address = port or PORT, "127.0.0.1" if port else ""
        # Not in lab.folder, which a server for all cases outlives.
        self.folder = os.path.join(tempfile.mkdtemp(prefix="rl-", dir="/tmp"), "postgresql")
        self.data = os.path.join(self.folder, "data")
        self.log = os.path.join(self.folder, "log")
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
        self.options = {"env": env, "cwd": self.folder, "stdin": subprocess.DEVNULL,
                        "start_new_session": True}
        self.process = None
        os.mkdir(self.folder)
        if os.geteuid() == 0:
            self.use_another_user()

    def use_another_user(self):
        user = next((pwd.getpwnam(name) for name in USERS if has_user(name)), None)
        check(user, f"root needs one of the users {USERS} for PostgreSQL")
        self.options.update(user=user.pw_uid, group=user.pw_gid, extra_groups=[])
        os.chmod(os.path.dirname(self.folder), 0o711)  # this user enters, and lists nothing
        os.chown(self.folder, user.pw_uid, user.pw_gid)

    def __enter__(self):
        try:
            self.initialise()
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        finally:
            self.kill()

    def spawn(self, program, *words):
        with open(self.log, "ab") as log:
            return spawn([os.path.join(find_binaries(), program), "-D", self.data, *words],
                         stdout=log, stderr=log, **self.options)

    def initialise(self):
        self.process = self.spawn("initdb", "--username=postgres", "--auth=trust",
                                  "--encoding=UTF8", "--locale=C", "--no-sync")
        equal(self.process.wait(), 0, f"initdb: {self.said()}")

    def start(self):
        self.process = self.spawn(
            "postgres", "-k", self.folder, "-p", str(self.port), "-c",
            f"listen_addresses={self.address}", "-F")
        wait_for(self.is_ready, "a PostgreSQL server that answers")

    def is_ready(self):
        check(self.process.poll() is None, f"PostgreSQL ended: {self.said()}")
        try:
            connection = self.connect()
        except (OSError, PostgresqlError):
            return False
        connection.close()
        # The first line of this file is the server's pid.
        pid = lab.read(os.path.join(self.data, "postmaster.pid")).split("\n")[0]
        equal(int(pid), self.process.pid, "the pid of the server")
        return True

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def connect(self, user="postgres"):
        return Connection(self.folder, user, self.port)

    def stop(self):
        """Ends its sessions and all its processes."""
        children = children_of(self.process.pid)
        check(children, "the server has no processes")
        self.process.send_signal(signal.SIGINT)
        equal(self.process.wait(STATE_SECONDS), 0, f"the end of the server: {self.said()}")
        wait_for(lambda: not any(map(is_alive, children)), "the end of the server's processes")

    def kill(self):
        """Kills what is left; the server's processes see that it is gone, and end."""
        if self.process and self.process.poll() is None:
            children = children_of(self.process.pid)
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            wait_for(lambda: not any(map(is_alive, children)), "the end of its processes")
        shutil.rmtree(os.path.dirname(self.folder), ignore_errors=True)


def children_of(pid):
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        if parent == pid:
            found.append(int(path.split("/")[2]))
    return found


def has_user(name):
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


def find_binaries():
    """The folder of initdb and postgres: that of PATH, or Debian's newest; None if none is."""
    def release(path):
        return [int(number) for number in re.findall(r"\d+", path)]
    found = shutil.which("initdb")
    folders = [os.path.dirname(os.path.realpath(found))] if found else []
    folders += sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=release, reverse=True)
    return next((path for path in folders if all(
        os.access(os.path.join(path, name), os.X_OK) for name in ("initdb", "postgres"))), None)
