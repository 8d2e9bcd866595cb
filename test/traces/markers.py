"""The steps of a trace in docs/model/marker.pml."""
import re

from steps import SLACK, Step, Trace

FIRST = 3  # incarnations, one of each member index
INCARNATIONS_MAX = 28  # as in marker.pml: a trace ends before the next one
MARKER = r"(\w{16}) (\w+) (\d) (\w{16}) \d+ \S+ \w+ \w+ ([\w.]+) ([\w.]+) ([\w.]+)"
PATTERNS = [(name, re.compile(pattern)) for name, pattern in (
    ("marks", rf"server (\d+) has the marker {MARKER}"),
    ("loses", r"(?:FLUSHALL on )?server (\d+)(?: restarts.*)?$"),
    ("begins", r"client (\d+): acquire of (\S+) to node"),
    ("executes", r"server (\d+): acquire of (\S+) by client (\d+): (\w+)"),
    ("votes", r"server (\d+) votes with nonce (\w+), asked for (\w+)"),
    ("reads", r"client (\d+) reads: acquire of (\S+) by node \d+: granted, of server (\d+)"),
    ("acquired", r"client (\d+), user 1, acquire of (\S*): (\w+), valid for (\d+)"),
    ("over", r"client (\d+), user 1(?:, loss of| releases| frees| lets expire| cancels)"),
    ("releases", r"client (\d+): release of (\S+) to node"),
    ("ends", r"--- a majority is healed"))]


def bit(number):
    return 1 << number


class Markers(Trace):
    PATTERNS = PATTERNS

    def begin(self, events):
        self.number = {}  # {(index, generation, id): of an incarnation}
        self.home = {}  # its server
        self.active = set()
        self.marker = {}  # {nonce: (incarnation, its roster)}
        self.round, self.asked = {}, {}  # {client: its token}, {(token, server): incarnation}
        self.deployment = None

    def add(self, what, **rest):
        self.add_step(Step(what, **rest))

    # --- markers ---

    def roster(self, incarnations):
        """The later incarnations that one knows of: also those that are over."""
        return sum(bit(number) for (index, *order), number in self.number.items()
                   if number >= FIRST and order <= list(incarnations[index][1:]))

    def name(self, key, server=None, roster=0):
        older = sum(bit(number) for other, number in self.number.items()
                    if other[0] == key[0] and other[1:] < key[1:])
        number = self.number[key] = len(self.number)
        self.home[number] = server
        if number >= INCARNATIONS_MAX:
            self.is_ended = True
        elif number >= FIRST:
            self.add("n", attempt=number, node=key[0], nodes=roster | bit(number), more=older)
        else:
            self.active.add(number)
        return number

    def marks(self, server, nonce, state, index, deployment, *words):
        keys = [(i, *incarnation(word)) for i, word in enumerate(words)]
        own = keys[int(index)]
        if not self.deployment:
            self.deployment = deployment
            for key in keys:
                self.name(key)
        for key in keys:
            if key not in self.number and key != own:  # its server forgot it at once
                self.name(key)
        number = self.number[own] if own in self.number else self.name(
            own, server, self.roster(keys))
        if self.home[number] is None:
            self.home[number] = server
        if self.is_ended or (nonce in self.marker and self.home[number] == server):
            return
        roster = self.roster(keys)
        self.marker[nonce] = number, roster
        if self.home[number] != server or deployment != self.deployment:
            return  # a copy of another server's data
        is_lifted = state == "sound" and number not in self.active
        if is_lifted:
            self.active.add(number)
        self.add("a" if is_lifted else "m", attempt=number, nodes=roster)

    def loses(self, server):
        for number, home in self.home.items():
            if home == server:
                self.add("z", attempt=number)

    # --- rounds ---

    def end(self, client):
        if self.round.pop(client, None):
            self.add("l", client=client)

    def begins(self, client, token):
        client = int(client) - 1
        if self.round.get(client) != token and (token, None) not in self.asked:
            self.round[client] = token
            self.asked[token, None] = True
            self.add("b", client=client)

    def executes(self, server, token, client, truth):
        self.last = token, int(client) - 1, truth

    def votes(self, server, nonce, said):
        token, client, truth = self.last
        if truth != "granted" or self.round.get(client) != token:
            return
        number, _ = self.marker.get(nonce, (None, 0))
        if number is None or self.home[number] != server:
            number = INCARNATIONS_MAX  # one that the model does not have
        self.asked[token, server] = number
        _, roster = self.marker.get(said, (None, -1))
        self.add("v", attempt=number, client=client, more=roster)

    def reads(self, client, token, server):
        client = int(client) - 1
        if self.round.get(client) == token:
            self.add("h", attempt=self.asked[token, server], client=client)

    def acquired(self, client, token, code, valid):
        client = int(client) - 1
        if code != "OK" or self.round.get(client) != token:
            self.end(client)
            return
        self.add("w", client=client)
        self.after(SLACK * int(valid), lambda: self.round.get(client) == token and self.end(client))

    def over(self, client):
        self.end(int(client) - 1)

    def releases(self, client, token):
        if self.round.get(int(client) - 1) == token:
            self.end(int(client) - 1)

    def ends(self):
        self.is_ended = True


def incarnation(word):
    generation, number = word.split(".")
    return int(generation), int(number, 16)
