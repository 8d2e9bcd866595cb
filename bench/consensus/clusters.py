"""Servers that agree on each lock, three of each kind, in a folder of this run."""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import urllib.request

import lab

NODES = 3
ANSWER_S = 5
ZOOKEEPER_JAR = "/usr/share/java/zookeeper.jar"


def free_ports(count):
    found = set()
    while len(found) < count:
        found.add(lab.free_port())
    return list(found)


class Cluster:
    """Servers that elect a leader. They live no longer than this process."""

    def __init__(self):
        self.home = tempfile.mkdtemp(dir=lab.folder)
        self.ports = free_ports(NODES)
        self.processes = []

    def __enter__(self):
        for index in range(NODES):
            with open(os.path.join(self.home, f"{index}.log"), "wb") as log:
                self.processes.append(lab.spawn(
                    self.words(index), env=lab.environment({}), cwd=self.home,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        lab.wait_for(lambda: all(self.is_ready(port) for port in self.ports),
                     f"servers that answer, of {type(self).__name__}")
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def is_ready(self, port):
        for process in self.processes:
            lab.check(process.poll() is None, f"a server has ended: {process.args}")
        try:
            return self.status(port) in ("leader", "follower")
        except OSError:
            return False

    def kill_leader(self):
        """The worst one to lose."""
        [leader] = [index for index, port in enumerate(self.ports)
                    if self.status(port) == "leader"]
        self.processes[leader].kill()

    @property
    def addresses(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)


class Etcd(Cluster):
    """Debian's defaults, but for the ports: each entry is synced to the disk of a majority."""

    def __init__(self):
        super().__init__()
        self.peers = [f"http://127.0.0.1:{port}" for port in free_ports(NODES)]

    def words(self, index):
        client = f"http://127.0.0.1:{self.ports[index]}"
        members = ",".join(f"n{number}={peer}" for number, peer in enumerate(self.peers))
        return ["etcd", "--name", f"n{index}", "--data-dir", os.path.join(self.home, f"{index}"),
                "--listen-client-urls", client, "--advertise-client-urls", client,
                "--listen-peer-urls", self.peers[index],
                "--initial-advertise-peer-urls", self.peers[index],
                "--initial-cluster", members]

    def status(self, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v3/maintenance/status", b"{}",
                                    ANSWER_S) as reply:
            told = json.load(reply)
        if "leader" not in told:
            return "candidate"
        return "leader" if told["leader"] == told["header"]["member_id"] else "follower"


class ZooKeeper(Cluster):
    """The settings of Debian's zoo.cfg, and a log that is synced, which is the default."""

    def __init__(self):
        super().__init__()
        ports = free_ports(2 * NODES)
        self.members = "\n".join(f"server.{index + 1}=127.0.0.1:{ports[index]}:{ports[-1 - index]}"
                                 for index in range(NODES))

    def words(self, index):
        data = os.path.join(self.home, f"{index}")
        os.mkdir(data)
        lab.write(os.path.join(data, "myid"), f"{index + 1}\n")
        config = lab.write(f"{data}.cfg", f"""tickTime=2000
initLimit=10
syncLimit=5
dataDir={data}
clientPort={self.ports[index]}
clientPortAddress=127.0.0.1
admin.enableServer=false
{self.members}
""")
        return ["java", "-Xmx256m", "-cp", ZOOKEEPER_JAR,
                "org.apache.zookeeper.server.quorum.QuorumPeerMain", config]

    def status(self, port):
        with socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection:
            connection.sendall(b"srvr")
            told = connection.makefile().read()
        return told.partition("Mode: ")[2].partition("\n")[0]
