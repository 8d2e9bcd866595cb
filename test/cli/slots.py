#!/usr/bin/env python3
"""A semaphore by run --slots: at most N hold it, each with a slot of its own."""
import json

import lab
from lab import PATIENT, case, check, equal, on, redlock


def start(quorum, path, *words):
    """Writes its slot to `path`, and runs until the path is gone."""
    script = f"echo $REDLOCK_SLOT > {path}.new && mv {path}.new {path}; " \
             f"while test -e {path}; do sleep 0.05; done"
    return lab.start("run", *PATIENT, "--slots", "2", *words, "k", "--", "sh", "-c", script,
                     env=on(quorum))


@case("two of two run at a time, with different slots; a third is refused, or waits for one")
def _(quorum):
    paths = [lab.temporary("slot") for _ in range(3)]
    running = [start(quorum, path) for path in paths[:2]]
    for path in paths[:2]:
        lab.wait_for(lambda: lab.os.path.exists(path), "a slot")
    slots = sorted(lab.read(path).strip() for path in paths[:2])
    equal(slots, ["1", "2"], "slots")
    redlock("run", "-n", *PATIENT, "--slots", "2", "k", "--", "true",
            env=on(quorum)).expect(75, err="held by")
    third = start(quorum, paths[2], "-w", "600s")
    lab.wait_for(lambda: all(server.call("EXISTS", "k!queue") for server in quorum.servers),
                 "its place in the queue")
    freed = lab.read(paths[1]).strip()
    lab.os.unlink(paths[1])
    equal(lab.finish(running[1]).code, 0, "exit code")
    lab.wait_for(lambda: lab.os.path.exists(paths[2]), "the freed slot")
    equal(lab.read(paths[2]).strip(), freed, "the slot of the third")
    for path in (paths[0], paths[2]):
        lab.os.unlink(path)
    for process in (running[0], third):
        equal(lab.finish(process).code, 0, "exit code")
    equal(quorum.keys(), 0, "keys that are left")


@case("the kind is in JSON; a run inside does not inherit the slot; what does not go together is refused")
def _(quorum):
    done = redlock("run", "-n", *PATIENT, "--json", "--slots", "3", "k", "--", "true",
                   env=on(quorum)).expect(0)
    equal(json.loads(done.err)["kind"], "slot", "kind")
    inner = f"{lab.program} run -n --timeout 5s other -- sh -c 'echo \"<$REDLOCK_SLOT>\"'"
    done = redlock("run", "-n", *PATIENT, "--slots", "3", "k", "--", "sh", "-c", inner,
                   env=on(quorum)).expect(0)
    check("<>" in done.out, done.out)
    for words in (("--shared",), ("--redisson",), ("--and", "other")):
        redlock("run", *PATIENT, "--slots", "2", *words, "k", "--", "true",
                env=on(quorum)).expect(64, err="slot")
    for number in ("0", "129"):
        redlock("run", *PATIENT, "--slots", number, "k", "--", "true",
                env=on(quorum)).expect(64, err="from 1 to 128")
    equal(quorum.keys(), 0, "keys")


def held(quorum, *words):
    """The exit code of status, and how many slots are held."""
    found = redlock("status", "--json", *PATIENT, "--slots", "2", "k", env=on(quorum))
    return found.code, found.json()["held"]


@case("status without --slots says that slots are held")
def _(quorum):
    def status(*words):
        done = redlock("status", *PATIENT, *words, "k", env=on(quorum))
        return done.code, done.out.splitlines()[-1]
    equal(status(), (1, "k: free on 3 of 3 nodes"), "none")
    for number in (1, 2):
        redlock("acquire", "-n", *PATIENT, "-t", "60s", "--slots", "2", "k", env=on(quorum)).expect(0)
        equal(status(), (1, f"k: free on 3 of 3 nodes; but it is a semaphore with {number} "
                         f"slot{'s' if number > 1 else ''} held: redlock status --slots N"), "slots")
        equal(json.loads(status("--json")[1])["slots_held"], number, "JSON")
    equal(status("--slots", "2"), (0, "k: 2 of 2 slots are held"), "with --slots")
    quorum.occupy("k", indexes=range(3), value="p" + "a" * 32 + "@h")
    equal(json.loads(status("--json")[1])["slots_held"], 0, "a lock of that name")
    long = "k" * 510
    check(redlock("status", *PATIENT, long, env=on(quorum)).expect(1).out.endswith("free on 3 of 3 nodes\n"), "long")


@case("acquired with a token file: the file has the slot, for extend and release")
def _(quorum):
    path, env = lab.temporary("token"), on(quorum)
    redlock("acquire", "-n", *PATIENT, "-t", "60s", "--slots", "2", "--token-file", path, "k",
            env=env).expect(0)
    file = json.loads(lab.read(path))
    equal(file["slots"], 2, "slots")
    equal(file["key"], "k", "key")
    equal(quorum.values(f"k!{file['slot']}"), [file["token"]] * 3, "the slot's values")
    equal(held(quorum), (1, 1), "one is held, so it is free")
    redlock("extend", *PATIENT, "-t", "100s", "--token-file", path, "k", env=env).expect(0)
    equal(json.loads(lab.read(path))["slots"], 2, "slots after an extension")
    check(quorum[0].call("PTTL", f"k!{file['slot']}") > 60000, "it is not extended")
    redlock("release", *PATIENT, "--slot", "1", "--token-file", path, "k",
            env=env).expect(64, err="--token-file")
    redlock("release", *PATIENT, "--token-file", path, "k", env=env).expect(0)
    redlock("release", *PATIENT, "--token-file", path, "k", env=env).expect(1)
    equal(quorum.keys(), 0, "keys")


@case("a bare token: its slot is named; status tells of each slot")
def _(quorum):
    env = on(quorum)
    one, other = (redlock("acquire", "-n", *PATIENT, "--json", "--slots", "2", "k",
                          env=env).expect(0).json() for _ in range(2))
    equal({one["slot"], other["slot"]}, {1, 2}, "slots")
    equal(held(quorum), (0, 2), "both are held")
    redlock("acquire", "-n", *PATIENT, "--slots", "2", "k", env=env).expect(75, err="held by")
    said = redlock("status", *PATIENT, "--slots", "2", "k", env=env).expect(0).out
    check("k!1: held by" in said and "k: 2 of 2 slots are held" in said, said)
    env["REDLOCK_TOKEN"] = one["token"]
    redlock("extend", *PATIENT, "--slot", str(other["slot"]), "k", env=env).expect(2)
    redlock("extend", *PATIENT, "--slot", str(one["slot"]), "k", env=env).expect(0)
    redlock("release", *PATIENT, "--slot", str(one["slot"]), "k", env=env).expect(0)
    equal(held(quorum), (1, 1), "one is free")
    env["REDLOCK_TOKEN"] = other["token"]
    for verb in ("extend", "release"):
        redlock(verb, *PATIENT, "k", env=env).expect(
            64, err="^redlock: k: the token is that of a slot: --slot says of which one")
    redlock("extend", *PATIENT, f"k!{other['slot']}", env=env).expect(0)
    for number in ("0", "129"):
        redlock("release", *PATIENT, "--slot", number, "k", env=env).expect(64, err="from 1 to 128")
    redlock("break", *PATIENT, "--yes", f"k!{other['slot']}", env=env).expect(0)
    equal(quorum.keys(), 0, "keys")


lab.main(servers=3)
