#!/usr/bin/env python3
"""What TLS costs beside plain text: tls.py BUILD [--json FILE] [--rounds N] [--seconds S]

Five private servers with two ports each; the two clients take turns with 1 cycle in flight
and with 64. Then one server closes its connections, again and again: how soon it grants the
client's next lock, in plain text, by TLS with the session resumed, and with a whole handshake
(the server keeps no sessions).
"""
import pathlib
import statistics
import sys
import time

sys.dont_write_bytecode = True
import race  # noqa: E402
from race import lab  # noqa: E402
from certificates import Authority, serve  # noqa: E402

MANY = 64
RECONNECTS = 30
GOALS = {"tls_c1_p50": (None, 1.3), "tls_c64_throughput": (0.6, None)}

# name: (entry, the entry that it is compared with, figure)
RATIOS = {"tls_c1_p50": ("tls_c1", "plain_c1", "p50_us"),
          "tls_c64_throughput": ("tls_c64", "plain_c64", "cycles_per_s")}


def reconnect_ms(racer, server):
    """The median time from the end of all connections of node 0 to its next grant."""
    def once():
        begun = []

        def close():
            begun.append(time.monotonic())
            server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        return 1000 * (racer.lap(1, "0+", close)["over_s"] - begun[0])
    return statistics.median(once() for _ in range(RECONNECTS))


def use_sessions(server, word):
    server.call("CONFIG", "SET", "tls-session-caching", word)


def run(options):
    build = pathlib.Path(options.build).resolve()
    lab.program = str(build / "src/cli/redlock")
    with lab.Quorum(5) as quorum:
        authority = Authority("bench")
        pair = authority.sign("server")
        ports = [serve(server, authority, pair, clients="no") for server in quorum.servers]
        nodes = {"REDLOCK_NODES": ",".join(f"rediss://127.0.0.1:{port}" for port in ports)}
        cycle = [build / "bench/cycle", "async", race.PATIENT]
        plain = race.Racer("plain", cycle, quorum)
        tls = race.Racer("tls", [*cycle, f"cacert={authority.cert}"], quorum, env=nodes)
        entries = {f"{racer.name}_c{lanes}": (racer, lanes)
                   for lanes in (1, MANY) for racer in (plain, tls)}
        the_race = race.Race(entries, options.seconds)
        the_race.run(options.rounds)
        figures = {name: the_race.ratio(*where)[0] for name, where in RATIOS.items()}
        figures["reconnect_plain_ms"] = reconnect_ms(plain, quorum[0])
        figures["reconnect_resumed_ms"] = reconnect_ms(tls, quorum[0])
        use_sessions(quorum[0], "no")
        figures["reconnect_whole_ms"] = reconnect_ms(tls, quorum[0])
        plain.close()
        tls.close()
    figures["ranges"] = {name: the_race.ratio(*where)[1:] for name, where in RATIOS.items()}
    figures["medians"] = the_race.medians()
    race.show(the_race, RATIOS, GOALS)
    for name in ("plain", "resumed", "whole"):
        print(f"{f'reconnect_{name}_ms':24} {figures[f'reconnect_{name}_ms']:.1f}")
    race.write_json(options.json, figures)
    return 0 if race.judge(figures, GOALS) else 1


if __name__ == "__main__":
    words = race.arguments("tls", rounds=14, seconds=0.5)
    words.add_argument("build")
    race.main(run, "tls", words.parse_args())
