"""What the traces of the simulator have in common, whichever model plays them."""
import re
import typing

SLACK = 0.9  # the earliest that a key can expire, or its client takes it for expired
LINE = re.compile(r" *([0-9.]+) ms  (.*)")


class Step(typing.NamedTuple):
    what: str
    attempt: int = 0
    client: int = 0
    node: int = 0
    nodes: int = 0
    command: int = 0
    done: int = 0
    more: int = 0

    def __str__(self):
        return " ".join(map(str, self))


def read(trace, patterns):
    """(time in ms, line, name of its pattern, words) of each line that has one."""
    for line in trace.splitlines():
        found = LINE.match(line)
        for name, pattern in patterns if found else ():
            match = pattern.match(found[2])
            if match:
                yield float(found[1]), line, name, match.groups()
                break


class Trace:
    """The steps of one trace. What is not in it, is not in the model either."""
    PATTERNS = ()

    def __init__(self, trace):
        self.steps, self.lines = [], []  # and the line that each step comes from
        self.later = []  # (time, function): what is possible from then on
        self.is_ended = False
        events = list(read(trace, self.PATTERNS))
        self.begin(events)
        for self.at, (self.now, self.line, name, words) in enumerate(events):
            self.pass_time()
            getattr(self, name)(*words)
            if self.is_ended:
                break

    def begin(self, events):
        pass

    def add_step(self, step):
        self.steps.append(step)
        self.lines.append(self.line)

    def after(self, span, function):
        self.later.append((self.now + span, function))

    def pass_time(self):
        due = [one for one in self.later if one[0] <= self.now]
        self.later = [one for one in self.later if one[0] > self.now]
        for _, function in sorted(due, key=lambda one: one[0]):
            function()
