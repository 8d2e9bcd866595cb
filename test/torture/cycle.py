#!/usr/bin/env python3
"""One cycle of the bindings: cycle.py KIND KEY URI..."""
import os
import sys
import time

import redlock_quorum

TIMES = 3
TTL, LONGER, MAX_TTL, TIMEOUT = 10, 20, 20, 2  # those of cycle.h, in seconds


def again(name, step):
    """The step's result. It is made again if it fails."""
    for number in range(1, TIMES + 1):
        try:
            return step()
        except (redlock_quorum.RedlockError, MemoryError, OSError) as why:
            print("failed", name, type(why).__name__, "-", *str(why).splitlines(), flush=True)
            if number == TIMES:
                raise


def tell(what, token):
    print(what, token, flush=True)
    sys.stdin.readline()


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def await_ready():
    while any(reply.verdict != "ready" for reply in client.explain()):
        time.sleep(0.001)


key, uris = sys.argv[2], sys.argv[3:]
options = redlock_quorum.Options(node_timeout=TIMEOUT, connect_timeout=TIMEOUT, max_ttl=MAX_TTL)
before = descriptors()
client = again("new", lambda: redlock_quorum.Client(uris, options))
lock = client.lock(key, ttl=TTL, timeout=0)
hold = again("acquire", lambda: await_ready() or lock.__enter__())
tell("held", hold.token)
again("extend", lambda: hold.extend(LONGER))
tell("extended", hold.token)
try:
    hold.release()
except redlock_quorum.RedlockError as why:
    print("failed release", type(why).__name__, "-", why, flush=True)
tell("released", hold.token)
await_ready()
again("close", client.close)
print("left", descriptors() - before, "descriptors")
print("end")
