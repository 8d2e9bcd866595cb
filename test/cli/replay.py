#!/usr/bin/env python3
"""sim --replay: what a real client has recorded ends in the simulator in the same event."""
import os
import re
import subprocess

import lab
from lab import PATIENT, case, check, equal, lose, on, redlock, wait_for

SAME, DIFFERS, BAD_DUMP, NO_FILE, NOT_PLAYABLE = 0, 1, 65, 66, 69
PREFIX = "redlock: "


def replay(text):
    """Plays a dump: the exit code, the lines on stdout, and stderr."""
    path = lab.write(lab.temporary("dump"), text)
    return replay_file(path)


def replay_file(path):
    found = os.environ.get("SIM")
    check(found, "SIM is not set: it names the simulator that meson makes")
    ended = subprocess.run([found, "--replay", path], capture_output=True, text=True,
                           timeout=lab.END_SECONDS, check=False)
    return ended.returncode, ended.stdout.splitlines(), ended.stderr


def expect_same(text, last):
    """The lines of the replay's record, whose last event matches."""
    code, lines, err = replay(text)
    equal([code, err], [SAME, ""], f"{text}\n{lines}")
    check(re.fullmatch(r"  both: +\d+ " + last, lines[-1]), lines[-1])
    return lines


def expect_refused(text, code, why):
    found, lines, err = replay(text)
    equal([found, lines], [code, []], f"the replay of {text}: {err}")
    check(re.search(why, err) and err.startswith("sim: "), err)


def without_prefix(text):
    """The lines of redlock_client_record() in what the command printed."""
    lines = [line[len(PREFIX):] for line in text.splitlines() if line.startswith(PREFIX)]
    begin = next(i for i, line in enumerate(lines) if re.match(r"\d+ record ", line))
    return "".join(line + "\n" for line in lines[begin:])


def ends_of_nodes(lines):
    """Of each node, the faults with which its connections ended."""
    found = [re.search(r" link node=(\d) by=failed .* fault=(\w+)", line) for line in lines]
    return sorted((end[1], end[2]) for end in found if end)


def changed(text, pattern, new):
    found = re.sub(pattern, new, text, count=1)
    check(found != text, f"no {pattern} in {text}")
    return found


@case("three of five nodes are killed while the lock is held: the same loss, on the same nodes")
def _(quorum):
    _, text = lose(quorum, "-vv", ttl="3s")
    lines = expect_same(text, r"told lease=1 what=loss code=EXPIRED valid_ms=\d+")
    ends = ends_of_nodes(lines)
    equal(ends, ends_of_nodes(text.splitlines()), "ends of connections")
    equal({node for node, _ in ends}, {"0", "1", "2"}, "nodes")
    expect_same(without_prefix(text), r"told lease=1 what=loss code=EXPIRED .*")


@case("after two renewals")
def _(quorum):
    path = lab.temporary("beats")
    process = lab.start("-vv", "run", "-t", "3s", "k", *lab.beat(path), env=on(quorum))
    lab.wait_for_beats(path)
    ends = set()
    wait_for(lambda: ends.add(quorum[0].call("PEXPIRETIME", "k")) or len(ends) > 2,
             "two extensions")
    quorum.kill(1, 3, 4)
    text = lab.finish(process).expect(124).err
    check(len(re.findall(" of=renew ", text)) >= 2, text)
    expect_same(text, r"told lease=1 what=loss code=EXPIRED .*")


@case("the keys of a held lock are deleted: GONE")
def _(quorum):
    path = lab.temporary("beats")
    process = lab.start("-vv", "run", "-t", "3s", "k", *lab.beat(path), env=on(quorum))
    lab.wait_for_beats(path)
    quorum.reset()
    expect_same(lab.finish(process).expect(124).err,
                r"told lease=1 what=loss code=GONE valid_ms=0")


@case("an extension of a token that is gone")
def _(quorum):
    token = redlock("acquire", *PATIENT, "k", env=on(quorum)).expect(0).out.strip()
    quorum.reset()
    ended = redlock("-vv", "extend", *PATIENT, "k", text=token, env=on(quorum)).expect(1)
    lines = expect_same(ended.err, r"(told|reply) lease=1 .*")
    check(any(" told lease=1 what=extend code=GONE " in line for line in lines), lines)


@case("a lock that was waited for is lost")
def _(quorum):
    token = redlock("acquire", *PATIENT, "k", env=on(quorum)).expect(0).out.strip()
    path = lab.temporary("beats")
    process = lab.start("-vv", "run", "-t", "3s", "k", *lab.beat(path), env=on(quorum))
    wait_for(lambda: quorum[0].call("EXISTS", "k!queue"), "a waiter in the queue")
    redlock("release", *PATIENT, "k", text=token, env=on(quorum)).expect(0)
    lab.wait_for_beats(path)
    quorum.kill(0, 1, 2)
    text = lab.finish(process).expect(124).err
    check(" delayed lease=1 " in text and " subscribed " in text, text)
    expect_same(text, r"told lease=1 what=loss code=EXPIRED .*")


@case("a dump that was changed differs there, with exit code 1")
def _(quorum):
    _, text = lose(quorum, "-vv", ttl="3s")
    for pattern, new, event in [
            (r"code=EXPIRED", "code=GONE", "told"),
            (r"of=loss cause=EXPIRED", "of=loss cause=TAKEN", "result"),
            (r"(of=acquire .* valid_until=)", r"\g<1>1", "result"),
            (r"(command=acquire round=1) vote=granted", r"\1 vote=held", "result"),
            (r"redlock: \d+ link node=2 by=failed state=down fault=CLOSED .*\n", "", "link"),
            (r"nodes=0,1,2,3,4 state=acquiring", "nodes=0,1,2,3 state=acquiring", "sent"),
            (r"ttl_ms=3000", "ttl_ms=4000", "result")]:
        code, lines, err = replay(changed(text, pattern, new))
        equal([code, err], [DIFFERS, ""], f"{pattern}: {lines}")
        [at] = [i for i, line in enumerate(lines) if line.startswith("difference at event ")]
        equal([line.split()[0] for line in lines[at + 1:]], ["dump:", "replay:"], lines[at:])
        check(f" {event} " in lines[at + 1], f"{pattern}: {lines[at:]}")


@case("what is no dump is refused")
def _(quorum):
    _, text = lose(quorum, "-vv", ttl="3s")
    code, lines, err = replay_file(os.path.join(lab.folder, "no such file"))
    equal([code, lines], [NO_FILE, []], err)
    expect_refused("", BAD_DUMP, "its beginning is missing")
    expect_refused("k: the lock is lost\n", BAD_DUMP, "its beginning is missing")
    for pattern, new, why in [
            (r".* record .*\n", "", "its beginning is missing"),
            (r"format=1", "format=2", r"line \d+: another format"),
            (r".* client .*\n", "", r"line \d+: .* no line \"client\" before"),
            (r"client nodes=5", "client nodes=0", "no number of nodes"),
            (r"client nodes=5", "client nodes=33", "no number of nodes"),
            (r"client nodes=5 quorum=3", "client nodes=5 quorum=2", "quorum"),
            (r".* node node=4 .*\n", "", "its end is missing"),
            (r" reply lease=1 attempt=1 node=0 ", " reply lease=1 attempt=1 node=9 ",
             "no such node"),
            (r" reply lease=1 attempt=1 ", " reply lease=1 ", "no value of attempt"),
            (r" told lease=1 ", " sold lease=1 ", "an unknown event: sold"),
            (r"\d+ startup ", "0 startup ", "earlier than the event before"),
            (r"(: \d+ )startup ", r"\1startup\n", "no value of ready")]:
        expect_refused(changed(text, pattern, new), BAD_DUMP, why)
    expect_refused(changed(text, "fenced=0", "fenced=1"), NOT_PLAYABLE, "fenced")


lab.main()
