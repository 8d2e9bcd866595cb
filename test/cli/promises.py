#!/usr/bin/env python3
"""The operator's promises: what they bring back, what refutes them, and what breaks without them."""
import os
import shutil

import lab
from fencing import ADMITTED, SHORT, fence, found, marker, states, together
from lab import Quorum, beat, beats, case, check, durable, equal, on, redlock, wait_for, wait_for_beats

NOT_YET, CONFIG, USAGE = 75, 78, 64
PROMISES = 5  # which word of a marker


def promises(quorum):
    return [(marker(server).split() + ["-"] * 6)[PROMISES] for server in quorum.servers]


def admit(quorum, *words):
    return redlock("admit", *words, env=on(quorum))


def restart(quorum):
    quorum.kill(*range(len(quorum.servers)))
    quorum.start()


@case("--new without a promise says what a power cut then needs, and --promise LIST is checked")
def _(quorum):
    admit(quorum, "--new", "--at-once").expect(0, err="if a majority .* need redlock admit --readmit")
    equal(promises(quorum), ["-"] * 3, "promises")
    for words in (["--readmit", "--promise", "safe"], ["--readmit", "--promise", "none,sole"],
                  ["--readmit", "--promise", ""], ["--replace", "a=b", "--promise", "sole"],
                  ["--new", "--forget", quorum.uris[0]]):
        admit(quorum, *words).expect(USAGE, err="admit: --(promise|forget)")
    admit(quorum, "--readmit", "--forget", "redis://a").expect(CONFIG, err="not one of the nodes: a$")


@case("--readmit --promise sets promises and takes them back while all vote; else 75 and no change")
def _(quorum):
    found(quorum)
    for words, expected in (("sole", "s"), ("sole,durable", "ds"), ("none", "-")):
        admit(quorum, "--readmit", "--promise", words).expect(0, err=ADMITTED)
        equal(promises(quorum), [expected] * 3, "promises")
        fence(quorum).expect(0)
    quorum[1].call("DEL", "!marker")
    admit(quorum, "--readmit", "--promise", "sole").expect(
        NOT_YET, err=r"2\.sock: .*nothing was changed; promise it when all nodes vote")
    equal(promises(quorum), ["-"] * 3, "promises")


@case("durable: all nodes are killed at once; a holder keeps its lock, and others get theirs")
def _(_):
    with durable() as quorum:
        found(quorum, *SHORT, "--promise", "durable")
        path = lab.temporary("beats")
        holder = lab.start("run", "--fence", "-t", "10s", "job", "--", *beat(path),
                           env=on(quorum))
        wait_for_beats(path)
        before = [marker(server) for server in quorum.servers]
        restart(quorum)
        fence(quorum).expect(0)
        equal([marker(server) for server in quorum.servers], before, "markers")
        last = max(beats(path).values())
        wait_for(lambda: max(beats(path).values()) > last, "a holder that lives")
        redlock("status", "job", env=on(quorum)).expect(0)
        holder.terminate()
        lab.finish(holder).expect(143)


def out_of_vote(quorum, index, finding):
    said = redlock("check", "--fence", "--json", env=on(quorum)).json()
    codes = [one["code"] for one in said["nodes"][index]["findings"]]
    check(finding in codes, f"{finding} in {codes}")


@case("durable: a promoted replica has no vote; after a restart of its own that is not seen")
def _(_):
    with durable() as quorum:
        found(quorum, *SHORT, "--promise", "durable")
        quorum[2].call("REPLICAOF", "127.0.0.1", "1")
        quorum[2].call("REPLICAOF", "NO", "ONE")
        out_of_vote(quorum, 2, "other_process")
        quorum.kill(2)
        quorum.start()
        redlock("check", "--fence", env=on(quorum)).expect(0)


def older_files(quorum, promise):
    """Two of three nodes get back what was on their disks before the lock was acquired."""
    found(quorum, *SHORT, *promise)
    fence(quorum).expect(0)
    copies = []
    for index in (0, 1):
        folder = os.path.join(quorum.home, f"aof{index}")
        copies.append((folder, shutil.copytree(folder, folder + ".old")))
    token = lab.temporary("token")
    redlock("acquire", "--fence", "-t", "10s", "--token-file", token, "job",
            env=on(quorum)).expect(0)
    quorum.kill(0, 1)
    for folder, copy in copies:
        shutil.rmtree(folder)
        os.rename(copy, folder)
    quorum.start()
    return redlock("acquire", "--fence", "-t", "5s", "-n", "job", env=on(quorum))


@case("an older append-only file on two of three: durable breaks exclusion, without it none votes")
def _(_):
    with durable() as quorum:
        older_files(quorum, ["--promise", "durable"]).expect(0)
    with durable() as quorum:
        older_files(quorum, []).expect(69, err="redlock admit --readmit")


@case("durable: an empty server becomes a member only by --forget")
def _(_):
    with durable() as quorum:
        found(quorum, *SHORT, "--promise", "durable")
        quorum.kill(0, 1)
        for index in (0, 1):
            shutil.rmtree(os.path.join(quorum.home, f"aof{index}"))
        quorum.start()
        refusal = r"1\.sock: it lost its data.*nothing was changed; .*--forget"
        admit(quorum, "--readmit").expect(NOT_YET, err=refusal)
        admit(quorum, "--readmit", "--forget", quorum.uris[1]).expect(NOT_YET, err=refusal)
        equal(states(quorum), ["", "", "sound"], "states")
        admit(quorum, "--readmit", "--forget", quorum.uris[0], "--forget", quorum.uris[1]).expect(
            0, err=ADMITTED)
        equal(states(quorum), ["sound"] * 3, "states")
        equal(promises(quorum), ["d"] * 3, "promises")


def sole():
    """An observer is the client that knew all nodes."""
    with Quorum(3) as quorum:
        found(quorum, *SHORT, "--promise", "sole")
        observer = lab.start("elect", "--observe", "job", env=on(quorum))
        observer.stdout.readline()
        restart(quorum)
        fence(quorum, wait="3m").expect(0)
        equal(promises(quorum), ["s"] * 3, "promises")
        observer.terminate()
        lab.finish(observer)


def replaced():
    """The replaced server is alive: a client with the old list does not get its vote."""
    with Quorum(3) as quorum, Quorum(1) as spare:
        found(quorum, *SHORT, "--promise", "sole")
        redlock("admit", "--replace", f"{quorum.uris[2]}={spare.uris[0]}",
                env=on(quorum)).expect(0, err=ADMITTED)
        equal(promises(quorum), ["s", "s", "Rs"], "promises")
        quorum.kill(0, 1)
        quorum.start()
        redlock("run", "--fence", "-n", "k", "--", "true", env=on(quorum)).expect(69)
        admit(quorum, "--readmit").expect(CONFIG, err=r"3\.sock")


def replaced_and_dead():
    with Quorum(3) as quorum, Quorum(1) as spare:
        found(quorum, *SHORT)
        quorum.kill(2)
        redlock("admit", "--replace", f"{quorum.uris[2]}={spare.uris[0]}",
                env=on(quorum)).expect(0, err=r"3\.sock: it was replaced, and .*: stop it for good")


def leads_to(quorum, index, server):
    """From now on the address of the node leads to another server."""
    quorum.kill(index)
    path = quorum[index].uri.split("://")[1]
    if os.path.lexists(path):
        os.unlink(path)
    os.symlink(server.uri.split("://")[1], path)


@case("--replace: where OLD's address leads to a node of the new list, it keeps its vote")
def _(_):
    for other in ("the new one", "another member", "another deployment"):
        with Quorum(3) as quorum, Quorum(1) as spare, Quorum(1) as foreign:
            found(quorum, *SHORT)
            found(foreign, *SHORT)
            leads_to(quorum, 2, spare[0] if other == "the new one" else
                     quorum[1] if other == "another member" else foreign[0])
            redlock("admit", "--replace", f"{quorum.uris[2]}={spare.uris[0]}",
                    env=on(quorum)).expect(0, err=None)
            said = [(marker(server).split() + ["-"] * 6)[PROMISES]
                    for server in (quorum[0], quorum[1], spare[0], foreign[0])]
            equal(said, ["-"] * 4, f"promises, {other}")


@case("a later release's letter is kept and has no effect; its capital or its word takes the vote")
def _(quorum):
    found(quorum, *SHORT)
    for server in quorum.servers:
        server.call("SET", "!marker", marker(server).replace(" - ", " q "))
    quorum[1].call("FLUSHALL")
    admit(quorum, "--readmit").expect(0, err=ADMITTED)
    equal(promises(quorum), ["q"] * 3, "promises, one of them written again")
    fence(quorum).expect(0)
    known = marker(quorum[2])
    for later in (known.replace(" q ", " Qq "), known.replace(" q ", " R Q "), known + " q"):
        quorum[2].call("SET", "!marker", later)
        before = quorum[2].call("GET", "k!fence")
        out_of_vote(quorum, 2, "other_deployment")
        fence(quorum).expect(0)
        equal(quorum[2].call("GET", "k!fence"), before, "the fence where the vote is gone")
        admit(quorum, "--readmit").expect(CONFIG, err=r"3\.sock")
        equal(marker(quorum[2]), later, "the marker of a later release")


@case("sole: all nodes forget, and an observer brings them back; a replaced server is retired")
def _(_):
    together(sole, replaced, replaced_and_dead)


lab.main(servers=3)
