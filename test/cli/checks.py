"""Checks of the tests of the command; a check that fails ends its case."""
import re
import time

# Longer than any condition takes on a loaded machine: a test that waits this long has failed.
STATE_SECONDS = 60
PAUSES = 0.005, 0.05  # between two looks: the first ones, and the last ones


class Failed(Exception):
    pass


class Skipped(Exception):
    """The case needs what this server or machine does not have."""


def check(condition, text):
    if not condition:
        raise Failed(text)


def equal(got, wanted, what):
    check(got == wanted, f"{what}: {got!r} instead of {wanted!r}")


def matches(text, pattern, what):
    check(re.search(pattern, text, re.DOTALL), f"{what}: {text!r} does not match {pattern!r}")


def check_numbers(value, where):
    """Checks that every _ms and _us is an integer, or unknown."""
    if isinstance(value, list):
        for one in value:
            check_numbers(one, where)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name.endswith(("_ms", "_us")):
                check(one is None or type(one) is int, f"{name} is {one!r} in {where}")
            check_numbers(one, where)


def wait_for(condition, what, seconds=STATE_SECONDS):
    """Waits until condition() is true, and returns its result."""
    give_up, pause = time.monotonic() + seconds, PAUSES[0]
    while True:
        found = condition()
        if found:
            return found
        check(time.monotonic() < give_up, f"waited {seconds} s in vain for: {what}")
        time.sleep(pause)
        pause = min(1.1 * pause, PAUSES[1])
