"""The steps of a trace in docs/model/round.pml."""
import re

from steps import SLACK, Step, Trace

RELEASED_AGAIN = 1000  # ms, at most, if nothing else makes its client send a release again
SET, DEL = 0, 1
COMMANDS = {"acquire": SET, "release": DEL}
PATTERNS = [(name, re.compile(pattern)) for name, pattern in (
    ("writes", r"client (\d+): (acquire|release|extend) of (\w+) to node (\d+)"),
    ("executes", r"server (\d+): (acquire|release|extend) of (\w+) by client (\d+): (\w+)"),
    ("greets", r"client (\d+) reads: greeting of  by node (\d+): granted"),
    ("reads", r"client (\d+) reads: (acquire|release|extend) of (\w+) by node (\d+): (\w+)"),
    ("leaves", r"client (\d+) ends its connection to node (\d+)"),
    ("wants", r"client (\d+), user 1 wants \S+ for (\d+) ms"),
    ("acquired", r"client (\d+), user 1, acquire of (\w*): (\w+), valid for (\d+)"),
    ("lost", r"client (\d+), user 1, loss of (\w+)"),
    ("released", r"client (\d+), user 1, release of (\w+)"),
    ("gives_back", r"client (\d+), user 1 (?:releases|frees|lets expire) (\w+)"),
    ("cancels", r"client (\d+), user 1 cancels"),
    ("ends", r"--- the clients are freed"))]


class Attempt:
    def __init__(self, number, client, ttl):
        self.number, self.client, self.ttl, self.state = number, client, ttl, "acquiring"
        self.is_lost = False
        self.over_since = float("inf")  # the next attempt begins, or the user knows the outcome
        self.written = set()  # the nodes to which its SET was


class Rounds(Trace):
    PATTERNS = PATTERNS

    def begin(self, events):
        self.attempts = {}  # by token
        self.current, self.ttl, self.left, self.erred = {}, {}, {}, {}  # of each client
        self.sent, self.last_write = addressees(events), last_writes(events)

    def add(self, what, attempt=None, **rest):
        if attempt:
            rest = {"attempt": attempt.number, "client": attempt.client, **rest}
        self.add_step(Step(what, **rest))

    def lose(self, attempt):
        if attempt and attempt.state == "acquiring":
            attempt.state = "over"
            self.add("l", attempt)

    def lose_hold(self, attempt):
        if attempt.state == "held" and not attempt.is_lost:
            attempt.is_lost = True
            self.add("t", attempt)

    def give_back(self, attempt):
        if attempt.state == "held":
            attempt.state = "over"
            self.add("f", attempt)

    def writes(self, client, command, token, node):
        if command == "acquire":
            self.writes_set(int(client) - 1, token, int(node) - 1)
        elif token in self.attempts:
            attempt = self.attempts[token]
            self.lose(attempt)
            self.give_back(attempt)
            self.add("d", attempt, node=int(node) - 1)

    def writes_set(self, client, token, node):
        attempt = self.attempts.get(token)
        if not attempt:
            if client in self.current:
                self.current[client].over_since = min(self.now, self.current[client].over_since)
            self.lose(self.current.get(client))
            attempt = Attempt(len(self.attempts), client, self.ttl[client])
            self.attempts[token] = self.current[client] = attempt
        is_of_round = attempt.state == "acquiring" and node not in attempt.written
        attempt.written.add(node)
        if is_of_round and self.at != self.last_write[token]:
            return  # the model sends all of a round at once
        left = self.left_now(client)
        asked = [step for step in left if self.sent[token] >> step.node & 1]
        for step in asked:  # it asked there, and could not write
            at = len(self.steps) - 1 - self.steps[::-1].index(step)
            del self.steps[at], self.lines[at]
        self.add("b", attempt, nodes=self.sent[token], node=sum(1 << step.node for step in left))
        for step in asked:
            self.add_step(step)
        self.after(2 * SLACK * attempt.ttl, lambda: self.add("o", attempt))

    def executes(self, server, command, token, client, truth):
        attempt = self.attempts.get(token)
        if not attempt:
            return  # the release of an attempt that sent no SET
        rest = {"node": int(server) - 1, "command": COMMANDS[command]}
        if truth == "error":
            self.add("n", attempt, **rest)
            return
        self.add("x", attempt, done=int(truth == "granted"), **rest)
        if command == "acquire" and truth == "granted":
            self.after(SLACK * attempt.ttl, lambda: self.add("k", attempt, node=rest["node"]))

    def reads(self, client, command, token, node, truth):
        attempt = self.attempts.get(token)
        if attempt:
            is_unsure = self.erred.get((client, node)) == self.now
            is_error = command == "release" and truth == "error"
            self.add("e" if is_error else "u" if is_unsure else "r", attempt, node=int(node) - 1,
                     command=COMMANDS[command], done=int(truth == "granted"))
        if truth == "error":
            self.erred[client, node] = self.now

    def greets(self, client, node):
        self.add("g", client=int(client) - 1, node=int(node) - 1)

    def leaves(self, client, node):
        client, node = int(client) - 1, int(node) - 1
        self.left[client] = self.now, [*self.left_now(client), Step("c", client=client, node=node)]
        self.add("c", client=client, node=node)

    def left_now(self, client):
        """The steps by which its connections ended in this iteration of its loop."""
        at, steps = self.left.get(client, (0, []))
        return steps if at == self.now else []

    def wants(self, client, ttl):
        self.ttl[int(client) - 1] = int(ttl)

    def acquired(self, client, token, code, valid):
        attempt = self.attempts.get(token)
        if attempt and code == "OK":
            attempt.state = "held"
            self.add("w", attempt)
            self.after(SLACK * int(valid), lambda: self.lose_hold(attempt))
        elif attempt:
            attempt.over_since = self.now
            self.lose(attempt)
            if code == "EXPIRED":  # it was stopped before it wrote, for two TTLs perhaps
                self.add("o", attempt)

    def lost(self, client, token):
        self.lose_hold(self.attempts[token])

    def released(self, client, token):
        self.attempts[token].over_since = self.now

    def gives_back(self, client, token):
        self.give_back(self.attempts[token])

    def cancels(self, client):
        self.lose(self.current.get(int(client) - 1))

    def ends(self):
        for attempt in self.attempts.values():
            if self.now - attempt.over_since < RELEASED_AGAIN:
                self.add("o", attempt)
        self.add(".")
        self.is_ended = True


def addressees(events):
    """{token: the nodes that its round was written to}. A release is also written to a node
    whose connection ended before the round was."""
    sent = {}
    for _, _, name, words in events:
        if name == "writes":
            _, _, token, node = words
            sent[token] = sent.get(token, 0) | 1 << int(node) - 1
    return sent


def last_writes(events):
    """{token: the last event that writes its SET before anything else happens to its client}."""
    last, open_rounds = {}, {}
    for at, (_, _, name, words) in enumerate(events):
        client = words[3] if name == "executes" else words[0] if words else None
        if name == "writes" and words[1] == "acquire":
            token = words[2]
            if token not in last:
                open_rounds[client] = token
            if open_rounds.get(client) == token:
                last[token] = at
        elif name != "writes":
            open_rounds.pop(client, None)
    return last
