"""The faults of the table, and the bounds that docs/safety.md and production.md promise."""
import dataclasses
import time
from collections.abc import Callable

import deployment
import lab
from deployment import QUARANTINE_S

DOWN_S = 0.1, 1      # of a node that is restarted
# In a rolling restart: as `systemctl restart` takes, so that no extension falls into it; and in
# the table of docs/production.md, which also has the times until the next node.
QUICK_S, SLOW_S = 0.1, 3
PLAIN_BETWEEN_S, FENCED_BETWEEN_S = 6, 13
REPAIRED_WAIT = "60s"
HOLDER_SUSPENDED_S = 1.5  # a third of the TTL later it can still be extended
SUSPENDED_S = 3
IDLE_SUSPENDED_S = 11  # longer than an idle client waits until it looks at the nodes again
APART_S = 0.1, 0.6, 3
STOPPED_S = 1, 3
AT_ONCE_S = 1
RECOVERED_S = QUARANTINE_S + 1.5
ALL = ("plain", "fenced", "elect")


@dataclasses.dataclass
class Row:
    name: str
    fault: Callable  # of a deployment; returns the time from which seconds count, or None
    kinds: tuple = ALL
    nodes: int | None = None  # instead of --nodes
    keeps: bool = False       # appendonly yes, appendfsync always; clients have `durable`
    promise: str = ""         # of `admit --new`
    fails_over: str = ""      # node 0 has a replica that has "kept" all, or "lost" it
    on_host: tuple = ()       # holder, waiter, idle, client: behind a relay, and suspended
    clocks: str | None = None  # of that host; see test/support/clockshim.c
    since: str = "last"       # ... of the nodes serves again; or "quorum"
    # The bounds; None or False: none is stated.
    lives: bool = False
    within_s: float | None = None
    same_markers: bool = False

    def bound(self):
        node = "q-th" if self.since == "quorum" else "last"
        words = [f"<= {self.within_s:.1f} s after the {node} node serves"] if self.within_s else []
        words += ["the holder lives"] * self.lives + ["no marker changes"] * self.same_markers
        return ", ".join(words) or "-"

    def missed(self, tried):
        """What is wrong with a result of deployment.play()."""
        seconds = [tried[name] for name in ("fresh_s", "long_s", "led_s") if name in tried]
        if self.lives and not tried["lived"]:
            yield "the holder lost its lock"
        if self.within_s and (None in seconds or max(seconds) > self.within_s):
            yield f"no lock within {self.within_s:.1f} s"
        if self.same_markers and tried["markers_changed"]:
            yield f"{tried['markers_changed']} markers changed"


# --- faults ---

def indexes(tried, how_many):
    count = len(tried.quorum.servers)
    return range({"one": 1, "majority": tried.q, "all": count}[how_many])


def restart(how_many, wiped=None):
    def fault(tried):
        nodes = indexes(tried, how_many)
        tried.kill(*nodes, wiped=indexes(tried, wiped) if wiped else ())
        time.sleep(tried.prng.uniform(*DOWN_S))
        tried.start(*nodes)
    return fault


def knows(*words):
    """The command has this option."""
    verb, option = words
    return option in lab.redlock(verb, "--help").expect(0).out


def rolling(between_s, down_s=QUICK_S):
    """As docs/production.md has it: one node after the other."""
    def fault(tried):
        waits = knows("check", "--until-repaired")
        for index in range(len(tried.quorum.servers)):
            if index and not waits:
                time.sleep(between_s)
            tried.kill(index)
            time.sleep(down_s)
            tried.start(index)
            if waits:
                tried.redlock("check", "--until-repaired", "-w", REPAIRED_WAIT).expect(0)
    return fault


def suspend(seconds, apart_s):
    return lambda tried: tried.host.sleep(seconds, apart_s)


def partition(seconds):
    def fault(tried):
        tried.host.partition(seconds)
        return time.monotonic()
    return fault


def flush(how_many):
    def fault(tried):
        for index in indexes(tried, how_many):
            tried.quorum[index].call("FLUSHALL")
        return time.monotonic()
    return fault


def fail_over(tried):
    tried.fail_over()


def stop_in_turn(tried):
    for server in tried.quorum.servers:
        server.stop()
        time.sleep(tried.prng.uniform(*STOPPED_S))
        server.go_on()
        time.sleep(tried.prng.uniform(0, deployment.EXTENSION_S))
    return time.monotonic()


# --- rows ---

DURABLE = {"keeps": True, "promise": "durable"}
BOTH = {"keeps": True, "promise": "durable,sole"}
IN_TIME = {"within_s": RECOVERED_S}
SOLE = {"promise": "sole", **IN_TIME}
KEPT = {"since": "quorum", "within_s": AT_ONCE_S, "lives": True}
LIVES = {"lives": True}
SUSPENDED = {"clocks": "suspended", "same_markers": True}

ROWS = [
    Row("restart of one, memory", restart("one"), **LIVES),
    Row("restart of a majority, memory", restart("majority")),
    Row("restart of all, memory", restart("all")),
    Row("restart of a majority, memory, sole", restart("majority"), **SOLE),
    Row("restart of all, memory, sole", restart("all"), **SOLE),
    Row("restart of one, AOF", restart("one"), keeps=True, **LIVES),
    Row("restart of all, AOF", restart("all"), keeps=True),
    Row("restart of one, durable", restart("one"), **DURABLE, **KEPT),
    Row("restart of a majority, durable", restart("majority"), **DURABLE, **KEPT),
    Row("restart of all, durable", restart("all"), **DURABLE, **KEPT),
    Row("restart of all, one wiped, durable", restart("all", "one"), kinds=("fenced", "elect"),
        **DURABLE, **KEPT),
    Row("restart of all, a majority wiped, durable", restart("all", "majority"),
        kinds=("fenced", "elect"), **DURABLE),
    Row("restart of all, durable+sole", restart("all"), **BOTH, **KEPT),
    Row("restart of all, one wiped, durable+sole", restart("all", "one"),
        kinds=("fenced", "elect"), **BOTH, **KEPT),
    Row("restart of all, a majority wiped, durable+sole", restart("all", "majority"),
        kinds=("fenced", "elect"), **BOTH, **IN_TIME),
    Row("rolling restart, plain", rolling(PLAIN_BETWEEN_S), kinds=("plain",), **LIVES),
    Row("rolling restart, fenced", rolling(FENCED_BETWEEN_S), kinds=("fenced", "elect"), **LIVES),
    Row("rolling restart, 3 s each, plain", rolling(PLAIN_BETWEEN_S, SLOW_S), kinds=("plain",),
        **LIVES),
    Row("rolling restart, 3 s each, fenced", rolling(FENCED_BETWEEN_S, SLOW_S),
        kinds=("fenced", "elect"), **LIVES),
    Row("rolling restart, AOF, plain", rolling(0), kinds=("plain",), keeps=True, **LIVES),
    Row("rolling restart, durable", rolling(0), **DURABLE, **LIVES),
    *(Row(f"suspend of {whose} host, replies {apart_s} s apart",
          suspend(seconds, apart_s), kinds=("fenced", "elect"), on_host=(who,), **SUSPENDED)
      for whose, who, seconds in (("a holder's", "holder", HOLDER_SUSPENDED_S),
                                  ("a waiter's", "waiter", SUSPENDED_S),
                                  ("an idle client's", "idle", IDLE_SUSPENDED_S))
      for apart_s in APART_S),
    *(Row(f"paused VM, replies {apart_s} s apart", suspend(SUSPENDED_S, apart_s),
          kinds=("fenced", "elect"), on_host=("holder", "waiter", "idle"), clocks="all",
          same_markers=True)
      for apart_s in APART_S),
    Row("FLUSHALL of one", flush("one"), **LIVES),
    Row("FLUSHALL of all", flush("all")),
    Row("FLUSHALL of all, sole", flush("all"), **SOLE),
    *(Row(f"failover of {what}, data {data}{', sole' * bool(promise)}", fail_over, nodes=nodes,
          fails_over=data, promise=promise, **bounds)
      for what, nodes, promise, bounds in (("one endpoint (N = 1)", 1, "", {}),
                                           ("one endpoint (N = 1)", 1, "sole", IN_TIME),
                                           ("one node", None, "", LIVES))
      for data in ("kept", "lost")),
    Row("SIGSTOP of each in turn, 1 to 3 s", stop_in_turn, **LIVES),
    *(Row(f"partition of the clients for {seconds} s", partition(seconds),
          on_host=("holder", "client"), **bounds)
      for seconds, bounds in ((1, LIVES), (5, {}), (20, {}), (60, {}))),
]
