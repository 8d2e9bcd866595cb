#!/usr/bin/env python3
"""docs/examples on real servers: their output, and that they leave no lock."""
import os
import re
import subprocess

import lab
from lab import case, equal

HERE = os.environ["EXAMPLES"]
DONE = "This runs while no other client holds the lock.\n"


def run(name, quorum, **environment):
    """Its whole output."""
    done = subprocess.run([os.path.join(HERE, name), *quorum.uris], text=True, timeout=50,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          preexec_fn=lab.die_with_us, env=lab.environment(environment))
    equal(done.returncode, 0, f"exit of {name}")
    lab.wait_for(lambda: quorum.keys() == 0, "the end of its locks")
    return done.stdout


@case("hello: on a loop of its own")
def _(quorum):
    equal(run("hello", quorum), DONE + "it succeeded\n", "the output")


@case("threads: one after the other")
def _(quorum):
    equal(run("threads", quorum), 4 * DONE, "the output")


@case("single_flight: many need it, one makes it")
def _(quorum):
    equal(run("single_flight", quorum), "16 have read it, and it was made 1 time\n",
          "the output")


@case("rendezvous: few keys move")
def _(quorum):
    equal(run("rendezvous", quorum), "amber has 9917, birch 10017, coral 10066\n"
          "delta is added: 7396 keys move\namber is removed: 9917 keys move\n", "the output")


@case("raii: by std::unique_lock and others")
def _(quorum):
    if not os.path.exists(os.path.join(HERE, "raii")):
        raise lab.Skipped("there is no C++ compiler")
    equal(run("raii", quorum), DONE + "record 0\nrecord 1\nrecord 2\nand there is time left\n"
          "both\n", "the output")


@case("tracing: below the span of a request")
def _(quorum):
    if not os.path.exists(os.path.join(HERE, "tracing")):
        raise lab.Skipped("there is no C++ compiler")
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    lines = run("tracing", quorum, TRACEPARENT=f"00-{trace}-{parent}-01").splitlines()
    found = [re.fullmatch(rf"00-{trace}-([0-9a-f]{{16}})-01 parent {parent}: (.*)", line)
             for line in lines]
    equal([match and match[2] for match in found], ["acquire, OK", "hold, OK", "release, OK"],
          "the spans")
    equal(len({match[1] for match in found}), 3, "their ids")


if __name__ == "__main__":
    lab.main(3)
