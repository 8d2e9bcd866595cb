"""Shared by the tests of redlock monitor: one that runs, and what it answers."""
import http.client
import os
import re
import signal
import socket
import urllib.parse

import lab


def connect(path):
    """A unix socket; with a timeout it would not wait for a full backlog."""
    connected = socket.socket(socket.AF_UNIX)
    connected.connect(path)
    connected.settimeout(lab.STATE_SECONDS)
    return connected


class Connection(http.client.HTTPConnection):
    """HTTP by a unix socket."""

    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = connect(self.path)


class Monitor:
    """`redlock monitor words...` on these nodes; ends with the block, and must do so by TERM."""

    def __init__(self, quorum, *words, **more):
        self.path = lab.temporary("monitor")
        self.process = lab.start("monitor", *lab.PATIENT, "--listen", f"unix:{self.path}", *words,
                                 env=lab.on(quorum, **more))

    def connect(self):
        return connect(self.path)

    def __enter__(self):
        lab.wait_for(self.listens, "the monitor")
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGTERM)
        ended = lab.finish(self.process)
        if not kind:
            ended.expect(0)

    def listens(self):
        """The socket is there a little earlier than it can be connected."""
        with socket.socket(socket.AF_UNIX) as one:
            return one.connect_ex(self.path) == 0

    def get(self, path, **query):
        """The status and the text."""
        connection = Connection(self.path)
        words = f"?{urllib.parse.urlencode(query)}" if query else ""
        connection.request("GET", path + words)
        with connection.getresponse() as answer:
            return answer.status, answer.read().decode()

    def json(self, name, **query):
        status, text = self.get(f"/api/{name}", **query)
        lab.equal(status, 200, f"the status of {name}")
        answer = lab.parsed(text)
        lab.equal(answer["schema"], f"redlock.monitor.{name}/1", "schema")
        return answer

    def metrics(self, name):
        """{labels as they are written: value}"""
        found = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return {labels: float(value) for labels, value in found}

    def memory_kb(self):
        return int(re.search(r"VmRSS:\s+(\d+) kB", lab.read(f"/proc/{self.process.pid}/status"))[1])

    def cpu_s(self):
        words = lab.read(f"/proc/{self.process.pid}/stat").rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))
