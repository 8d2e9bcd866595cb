#!/usr/bin/env python3
"""redlock run in the command of redlock run: it says at once that it would wait for itself."""
import json

import lab
from lab import PATIENT, case, check, equal, on, redlock

INNER = 'exec "$0" run --json "$@" -- echo inner'


def nested(quorum, outer, inner, script=INNER, **more):
    """redlock run OUTER -- sh: redlock run INNER."""
    return redlock("run", *PATIENT, *outer, "--", "sh", "-c", script, lab.program, *inner,
                   env={**on(quorum), **more})


def cause(done):
    lines = [line for line in done.err.splitlines() if line.startswith("{")]
    return json.loads(lines[-1])["cause"]


@case("the same key: 64 and the reason, and all is released")
def _(quorum):
    done = nested(quorum, ["key"], ["key"]).expect(64, err="key: .*it would wait for itself")
    equal([done.out, cause(done)], ["", "nested"], "output")
    equal(quorum.keys(), 0, "keys that are left")


@case("the same key while one node is down, and while as many are as can be")
def _(quorum):
    for down in ((0,), (1, 3)):
        quorum.kill(*down)
        done = nested(quorum, ["key"], ["-w", "1m", "key"]).expect(64, err="it would wait for itself")
        equal([done.out, cause(done)], ["", "nested"], "output")
        quorum.reset()


@case("two levels further in, and one key of a set")
def _(quorum):
    script = 'exec "$0" run other -- "$0" run --and "$@" third -- echo inner'
    nested(quorum, ["key"], ["key"], script).expect(64, err="it would wait for itself")
    nested(quorum, ["--and", "more", "key"], ["more"]).expect(64, err="it would wait for itself")
    equal(quorum.keys(), 0, "keys that are left")


def is_waited_for(quorum):
    return all(server.call("EXISTS", "key!intent") for server in quorum.servers)


@case("a reader in a reader: it reads, too; but not if a writer waits for the outer one")
def _(quorum):
    shared = ["--shared", "key"]
    equal(nested(quorum, shared, shared).expect(0).out, "inner\n", "without a writer")
    nested(quorum, shared, ["key"]).expect(64, err="it would wait for itself")
    gate = lab.temporary("gate")
    script = f"while test ! -e {gate}; do sleep 0.05; done; {INNER}"
    outer = lab.start("run", *PATIENT, *shared, "--", "sh", "-c", script, lab.program, *shared,
                      env=on(quorum))
    lab.wait_for(lambda: all(server.call("ZCARD", "key") for server in quorum.servers), "a reader")
    writer = lab.start("run", *PATIENT, "key", "--", "echo", "wrote", env=on(quorum))
    lab.wait_for(lambda: is_waited_for(quorum), "a writer that waits")
    elsewhere = lab.start("run", *PATIENT, *shared, "--", "echo", "read",
                          env={**on(quorum), "REDLOCK_HELD": "s" + 32 * "a" + "@ended"})
    lab.write(gate, "")
    done = lab.finish(outer).expect(64, err="it would wait for itself")
    equal([done.out, cause(done)], ["", "nested"], "output")
    equal(lab.finish(writer).expect(0).out, "wrote\n", "the writer")
    equal(lab.finish(elsewhere).expect(0).out, "read\n", "a reader that was no part of it")
    lab.wait_for(lambda: quorum.keys() == 0, "no keys")


@case("acquire and wait inside of a run of the same key: 64 and the reason, and all is released")
def _(quorum):
    for words in (["acquire", "key"], ["acquire", "--json", "key"], ["wait", "key"],
                  ["wait", "--and", "key", "other"], ["elect", "key", "true"]):
        outer = ["--fence", "key"] if words[0] == "elect" else ["key"]
        if words[0] == "elect":
            redlock("admit", *PATIENT, "--new", "--at-once", env=on(quorum)).expect(0)
        nested(quorum, outer, [*words[:1], *PATIENT, *words[1:]], 'exec "$0" "$@"').expect(
            64, err="key: .*it would wait for itself")
    shared = ["--shared", "key"]
    nested(quorum, shared, ["wait", *PATIENT, "key"], 'exec "$0" "$@"').expect(64, err="itself")
    nested(quorum, ["key"], ["wait", *PATIENT, "other"], 'exec "$0" "$@"').expect(0)


@case("a semaphore: a slot that no outer run has may become free")
def _(quorum):
    slots = ["--slots", "2", "pool"]
    redlock("acquire", *PATIENT, "-t", "2s", *slots, env=on(quorum)).expect(0)
    equal(nested(quorum, slots, slots).expect(0).out, "inner\n", "the other slot")
    nested(quorum, ["--slots", "1", "one"], ["--slots", "1", "one"]).expect(64, err="itself")


@case("another key is acquired")
def _(quorum):
    equal(nested(quorum, ["key"], ["other"]).expect(0).out, "inner\n", "output")


@case("in CMD the token of the run counts for its own key only; for another one stdin does")
def _(quorum):
    script = ('token=$("$0" acquire "$@" inner) && echo "$token" | "$0" release "$@" inner && '
              '"$0" extend "$@" key </dev/null')
    nested(quorum, ["key"], PATIENT, script).expect(0, err="key is extended")
    equal(quorum.keys(), 0, "keys that are left")


@case("with -n it is refused as by any other holder")
def _(quorum):
    nested(quorum, ["key"], ["-n", "key"]).expect(75, err="is held by")


@case("an outer run that has ended refuses nobody")
def _(quorum):
    held = redlock("run", *PATIENT, "key", "--", "sh", "-c", "echo $REDLOCK_HELD",
                   env=on(quorum)).expect(0).out.strip()
    check(held.startswith("p") and " " not in held, held)
    quorum.occupy("key", value="other")
    redlock("run", *PATIENT, "-w", "300ms", "key", "--", "true",
            env={**on(quorum), "REDLOCK_HELD": held}).expect(75)
    redlock("run", *PATIENT, "free", "--", "true", env={**on(quorum), "REDLOCK_HELD": held}).expect(0)


@case("more tokens than fit: the outermost are left out")
def _(quorum):
    many = " ".join(f"p{i:031d}" for i in range(1000))
    done = redlock("run", *PATIENT, "key", "--", "sh", "-c",
                   "echo $REDLOCK_HELD; echo $REDLOCK_TOKEN",
                   env={**on(quorum), "REDLOCK_HELD": many}).expect(0)
    held, token = done.out.split("\n")[:2]
    words = held.split()
    equal([words[-1], words[-2], len(held) < 5000], [token, f"p{999:031d}", True], "tokens")


lab.main()
