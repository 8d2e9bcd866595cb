"""Shared by the tests of fenced locks: deployments, fences, and the state of a node."""
import os
import traceback

import lab
from lab import check, equal, on, redlock

# The longest TTL whose quarantine is the shortest.
TTL = "10s"
SHORT = ("--max-ttl", TTL)
# Of such a deployment. A client waits a tenth longer on its own clock, which may be fast: it
# counts the time between two reads of both clocks as passed on both.
QUARANTINE_S = 11
LOOK_SECONDS = 0.1  # between two looks at a node in quarantine

# stderr of an admission that succeeds: on a busy machine it reports what it waits for. One that
# promises nothing says what a restart of a majority then needs.
ADMITTED = r"^(redlock: (admit: waiting:|if a majority of these nodes restarts) [^\n]*\n)*$"


def found(quorum, *words):
    """Makes the quorum a deployment that votes at once."""
    return redlock("admit", "--new", "--at-once", *words,
                   env=on(quorum)).expect(0, err=ADMITTED)


def fence(quorum, *words, wait="1m", env=None):
    """The fencing token of a lock that is held for a moment.

    A node refuses one vote if the command was sent before it was read that another member's
    incarnation changed.
    
    """
    return redlock("run", "-w", wait, "-t", TTL, *words, "--fence", "k", "--", "sh", "-c",
                   "echo $REDLOCK_FENCE", env={**on(quorum), **(env or {})})


def marker(server):
    return server.call("GET", "!marker") or ""


def state(server):
    """The state word of the marker, or "" if there is no marker."""
    return (marker(server).split() + ["", ""])[1]


def states(quorum):
    return [state(server) for server in quorum.servers]


def is_without_a_vote(server, vote):
    """The server is in quarantine, and stores nothing of a lock that vote() gets.

    False: it has been lifted meanwhile.
    """
    server.call("DEL", "k", "k!fence")
    vote()
    stored = [server.call("GET", key) for key in ("k", "k!fence")]
    now = state(server)
    if now == "sound":
        return False
    equal(now, "barred", "state")
    equal(stored, [None, None], "what is stored in quarantine")
    return True


def together(*functions):
    """Runs them at the same time, each in its own process; fails if one of them fails."""
    children = {}
    for function in functions:
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            lab.die_with_us()
            with os.fdopen(theirs, "w") as said:
                try:
                    function()
                except BaseException:
                    said.write(f"{function}: {traceback.format_exc()}")
            os._exit(0)
        os.close(theirs)
        children[pid] = ours
    said = []
    for pid, ours in children.items():
        with os.fdopen(ours, errors="replace") as text:
            said.append(text.read())
        os.waitpid(pid, 0)
    check(not any(said), "\n".join(filter(None, said)))
