"""Processes that do not outlive this one, and the states of processes."""
import ctypes
import re
import signal
import subprocess

PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def die_with_us():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def spawn(words, **more):
    """Options of a process that does not outlive this one, and has default signal actions."""
    return subprocess.Popen(words, preexec_fn=die_with_us, **more)


def state_and_parent(pid):
    """The state in /proc: R, S, T, Z ..., and the parent's pid; ("", 0) if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            name, parent = file.read().rpartition(b")")[2].split()[:2]
            return name.decode(), int(parent)
    except (FileNotFoundError, ProcessLookupError):
        return "", 0


def state(pid):
    return state_and_parent(pid)[0]


def is_alive(pid):
    return state(pid) not in ("", "Z", "X")


def naps(pid):
    """Its state, and its numbers of voluntary and involuntary context switches."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return re.findall(r"^(?:State|\w+_ctxt_switches):\s+(\w+)", file.read(), re.MULTILINE)


def are_asleep(pids):
    """All of them have slept at one time: nothing is under way between them."""
    before = [naps(pid) for pid in pids]
    return all(one[0] == "S" for one in before) and before == [naps(pid) for pid in pids]
