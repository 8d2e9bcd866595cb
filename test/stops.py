#!/usr/bin/env python3
"""Stops threads of a process's descendants at random, as a scheduler does that is short of cores.

By ptrace, since a test that stops and continues processes by signals must not see it.
Usage: stops.py PID MS: one thread or process at a time stands still, for up to MS.
"""
import ctypes
import os
import random
import sys
import time

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000  # wait for threads, too
EVENT_STOP = 128

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4


def ptrace(request, thread, data=0):
    return libc.ptrace(request, thread, 0, data) == 0


def parents():
    """{pid: its parent's}"""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                pass  # it has ended meanwhile
    return found


def descendants(root):
    parent = parents()
    found = []
    for pid in parent:
        above = pid
        while above in parent and above != root:
            above = parent[above]
        if above == root and pid not in (root, os.getpid()):
            found.append(pid)
    return found


def threads(pid):
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def stop(thread):
    """How the thread continues: the signal that it was about to get. None: it does not stop."""
    if not ptrace(SEIZE, thread):
        return None
    ptrace(INTERRUPT, thread)
    _, status = os.waitpid(thread, WALL)
    if not os.WIFSTOPPED(status):
        return None  # it has ended
    return 0 if status >> 16 == EVENT_STOP else os.WSTOPSIG(status)


def go_on(thread, number):
    if not ptrace(DETACH, thread, number):
        os.waitpid(thread, WALL)  # it was killed meanwhile


def stand_still(chosen, seconds):
    stopped = [(thread, number) for thread in chosen if (number := stop(thread)) is not None]
    time.sleep(seconds)
    for thread, number in stopped:
        go_on(thread, number)


def main():
    root, longest = int(sys.argv[1]), int(sys.argv[2]) / 1000
    while os.getppid() == root:
        found = [threads(pid) for pid in descendants(root)]
        found = [one for one in found if one]
        if found:
            chosen = random.choice(found)
            if random.random() < 0.5:
                chosen = [random.choice(chosen)]
            stand_still(chosen, random.uniform(0, longest))
        time.sleep(random.uniform(0, 0.005))


if __name__ == "__main__":
    main()
