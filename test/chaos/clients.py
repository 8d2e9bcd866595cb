"""The processes that lock: they are killed, stopped, and started again."""
import contextlib
import os
import pathlib
import signal
import sys
import threading

import history
import lab
import servers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAUSE_US = 100000  # between two turns of a lane, about
INTERFACES = ("async", "sync", "cpp", "python", "command", "pipe")
BY_COMMAND = ("command", "pipe")  # their locks are those of another process


class Client:
    """A process, and those that followed it under another name."""

    def __init__(self, team, index, interface):
        self.team, self.index, self.interface = team, index, interface
        self.uris = team.network.add(index, team.nodes.servers)
        self.clock = lab.WrongClock(lab.temporary("clock"))
        self.lives, self.process = 0, None
        self.lock = threading.Lock()

    def name(self):
        return f"{self.interface}{self.index}.{self.lives}"

    def words(self):
        if self.interface in ("python", *BY_COMMAND):
            return [sys.executable, "-S" if self.interface in BY_COMMAND else "-B",
                    HERE / f"{self.interface}_client.py"]
        return [self.team.programs / f"chaos-{self.interface}"]

    def start(self):
        self.lives += 1
        self.team.started[self.name()] = [servers.now_us()]
        clock = self.clock.environment()
        shims = f"{self.team.names} {clock.pop('LD_PRELOAD')}"
        shim = {"CHAOS_SHIMS": shims} if self.interface in BY_COMMAND else {"LD_PRELOAD": shims}
        env = lab.environment({
            "REDLOCK_NODES": ",".join(self.uris), "CHAOS_NAME": self.name(),
            "CHAOS_FOLDER": str(self.team.folder), "CHAOS_SEED": str(self.team.seed()),
            "CHAOS_KINDS": ",".join(self.team.kinds), "CHAOS_PAUSE_US": str(PAUSE_US),
            "CHAOS_REDLOCK": lab.program,
            "CHAOS_JOB": str(self.team.programs / "chaos-job"),
            "NAMES_FAIL": str(self.team.folder / "names-fail"),
            "NAMES_SILENT": str(self.team.folder / "names-silent"),
            "PYTHONPATH": str(ROOT / "python"), "REDLOCK_LIBRARY": self.team.library, **clock,
            **shim})
        with open(self.team.folder / f"{self.name()}.err", "wb") as err:
            self.process = servers.spawner.submit(lab.spawn, self.words(), env=env,
                                                  stderr=err).result()

    def kill(self):
        """A pipe then releases at once what its application had."""
        with self.lock:
            begin = servers.now_us()
            self.process.kill()
            self.process.wait()
            if self.interface == "pipe":
                history.note_losses(self.team.folder / f"{self.name()}.history", begin)
            self.start()

    def signal_pipe(self, number):
        """To the process that has its locks, if there is one now."""
        pid = self.process.pid
        with contextlib.suppress(OSError):
            for child in lab.read(f"/proc/{pid}/task/{pid}/children").split():
                os.kill(int(child), number)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def last_events(self):
        return history.last_events(self.team.folder / f"{self.name()}.history")

    def size(self):
        """KB of memory, and the number of descriptors."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        memory = next(line for line in text.splitlines() if line.startswith("VmRSS"))
        return int(memory.split()[1]), len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Team:
    def __init__(self, folder, nodes, network, options, prng):
        self.folder, self.nodes, self.network, self.prng = folder, nodes, network, prng
        self.programs = pathlib.Path(options.programs).resolve()
        self.names = str(self.programs / "chaosnames.so")
        self.library = str(self.programs.parents[1] / "src/libredlock.so.1")
        self.kinds = options.kinds
        self.started = {}  # the name of a process: when, and when its pipes, in us
        chosen = [one for one in INTERFACES if one in options.interfaces]
        self.clients = [Client(self, i, chosen[i % len(chosen)])
                        for i in range(options.clients)]

    def seed(self):
        return self.prng.randrange(1 << 24)

    def start(self):
        for client in self.clients:
            client.start()

    def check(self):
        for client in self.clients:
            with client.lock:
                code = client.process.poll()
            lab.check(code is None, f"{client.name()} ended with {code}: "
                                    f"{lab.read(self.folder / (client.name() + '.err'))}")

    def pause(self):
        (self.folder / "pause").touch()

    def go_on(self):
        (self.folder / "pause").unlink()

    def idle(self):
        """All of them, since they last began something."""
        return all(client.last_events()[-1:] == ["idle"] for client in self.clients)

    def has_probed(self):
        """All of them, since they were idle."""
        for client in self.clients:
            _, idle, since = " ".join(client.last_events()).rpartition("idle")
            if idle and "probe" not in since:
                return False
        return True

    def end(self):
        for client in self.clients:
            client.process.terminate()
        for client in self.clients:
            code = client.process.wait(lab.END_SECONDS)
            lab.equal(code, 0, f"exit code of {client.name()}")

