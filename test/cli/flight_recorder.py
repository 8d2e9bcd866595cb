#!/usr/bin/env python3
"""redlock -vv: the client's last events on stderr when a lock is lost, and only then."""
import re

import lab
from lab import PATIENT, case, check, equal, lose, on, redlock

TTL = "3s"
LINE = re.compile(r"redlock: (\d+) ([a-z]+)((?: [a-z_]+=\S*)+)")
STATES = ("record", "client", "lease", "node")


class Line:
    def __init__(self, text):
        found = LINE.fullmatch(text)
        check(found, f"not a regular line: {text!r}")
        self.at, self.name = int(found[1]), found[2]
        self.values = dict(pair.split("=", 1) for pair in found[3].split())

    def __getitem__(self, name):
        return self.values[name]


def recorded(text):
    """The lines of the flight recorder, which come after the command's own."""
    lines = text.splitlines()
    begins = [i for i, line in enumerate(lines) if re.match(r"redlock: \d+ record ", line)]
    equal(len(begins), 1, f"records in {text}")
    return [Line(line) for line in lines[begins[0]:]]


def named(lines, name):
    return [line for line in lines if line.name == name]


@case("three of five nodes are killed during a run: the loss, its cause, and the nodes' faults")
def _(quorum):
    token, text = lose(quorum, "-vv", ttl=TTL)
    lines = recorded(text)
    events = [line for line in lines if line.name not in STATES]
    times = [line.at for line in events]
    equal(times, sorted(times), "times")
    lost, told, *nodes = lines[-7:]
    equal([lost.name, lost["lease"], lost["of"], lost["cause"]],
          ["result", "1", "loss", "EXPIRED"], "the loss")
    equal([told.name, told["what"], told["code"]], ["told", "loss", "EXPIRED"], "what was told")
    equal([(line.name, line["node"], line["uri"]) for line in nodes],
          [("node", str(i), uri) for i, uri in enumerate(quorum.uris)], "nodes")
    for line in nodes[:3]:
        check(line["state"] in ("down", "connecting") and line["fault"] == "connect",
              line.values)
    for line in nodes[3:]:
        equal([line["state"], line["fault"]], ["ready", "none"], "a node that lives")
    for index in "012":
        downs = [line for line in named(events, "link")
                 if line["node"] == index and line["by"] == "failed"]
        check(downs and downs[0]["fault"] == "closed", f"the end of node {index}: {text}")
    [began] = [line for line in named(events, "sent") if line["command"] == "acquire"]
    equal([began["nodes"], began["key_end"]], ["0,1,2,3,4", "k"], "the acquire")
    [lease] = named(lines, "lease")
    equal(lease["token"], token[2:6], "of the token, four bytes")
    check(token[2:7] not in text, "more of the token")
    equal([lease["key"], lease["ttl_ms"], lease["state"]], ["k", "3000", "lost"], "the lease")
    equal(lease["votes"], ",".join(["absent:connect"] * 3 + ["granted"] * 2),
          "votes: no extension was sent any more")
    causes = [line["cause"] for line in named(events, "step") if line["by"] == "tick"]
    check("NO_QUORUM" in causes, f"why it was not extended: {causes}")


@case("-v prints no events; -q neither")
def _(quorum):
    for word in "-v", "-vvq":
        with lab.Quorum() as others:
            _, text = lose(others, word, ttl=TTL)
            check(" record " not in text and " sent lease=" not in text, text)


@case("a lock that is not lost prints no events")
def _(quorum):
    ended = redlock("-vv", "run", *PATIENT, "k", "true", env=on(quorum)).expect(0)
    check(" record " not in ended.err, ended.err)


@case("an extension that finds the lock gone prints them")
def _(quorum):
    token = redlock("acquire", *PATIENT, "k", env=on(quorum)).expect(0).out.strip()
    for server in quorum.servers:
        server.call("DEL", "k")
    ended = redlock("-vv", "extend", *PATIENT, "k", text=token, env=on(quorum)).expect(1)
    lines = recorded(ended.err)
    [told] = named(lines, "told")
    equal([told["what"], told["code"]], ["extend", "GONE"], "what was told")
    equal({line["vote"] for line in named(lines, "reply")}, {"gone"}, "votes")
    check(token[2:7] not in ended.err, "the token")


@case("passwords are not printed")
def _(_):
    with lab.Quorum(options=("--requirepass", "correct-horse")) as guarded:
        uris = [uri.replace("unix://", "unix://:correct-horse@") for uri in guarded.uris]
        token = "p" + "a" * 32
        ended = redlock("-vv", "extend", *PATIENT, "k", text=token,
                        env={"REDLOCK_NODES": ",".join(uris)}).expect(1)
        equal(len(named(recorded(ended.err), "node")), 5, "nodes")
        check("horse" not in ended.err, ended.err)


lab.main()
