#!/usr/bin/env python3
"""redlock run and redlock local on a terminal: keys, job control and the foreground group."""
import os
import re
import shutil
import signal
import subprocess

import lab
from lab import case, check, equal, on
from terminal import Terminal

PROMPT = "prompt> "


def run(quorum, *words):
    """redlock run, directly on a terminal."""
    return Terminal([lab.program, "run", *words], on(quorum))


class Shell(Terminal):
    """An interactive shell, which does job control."""

    def __init__(self, quorum):
        bash = shutil.which("bash")
        super().__init__([bash, "--norc", "--noprofile", "--noediting", "-i"],
                         on(quorum, PS1=PROMPT, R=lab.program, HISTFILE="/dev/null"))
        self.expect(PROMPT)

    def do(self, line):
        """Types a line and waits for its echo."""
        self.type(line + "\n")
        self.expect(re.escape(line) + "\n")

    def code(self):
        self.do("echo code=$?")
        return int(self.expect(r"code=(\d+)\n" + PROMPT)[1])

    def wait_for_job(self, pid):
        """Waits until the command has the foreground and runs: earlier keys would be lost."""
        lab.wait_for(lambda: self.foreground() == pid and lab.state(pid) != "T", "the job in front")

    def check_foreground(self):
        lab.wait_for(lambda: self.foreground() == self.process.pid, "the shell in the foreground")


# --- redlock is the only process there ---

@case("Ctrl-C reaches the command, which decides; it has the foreground")
def _(quorum):
    script = "trap 'echo heard; exit 7' INT; echo group=$$; while :; do sleep 0.05; done"
    with run(quorum, "k", "sh", "-c", script) as terminal:
        group = int(terminal.expect(r"group=(\d+)\n")[1])
        equal(terminal.foreground(), group, "foreground group")
        terminal.type("\x03")
        terminal.expect("heard\n")
        terminal.end(7)
    equal(quorum.keys(), 0, "keys")


@case("Ctrl-C ends a plain command: 130; Ctrl-\\ gives 131")
def _(quorum):
    for key, number in (("\x03", signal.SIGINT), ("\x1c", signal.SIGQUIT)):
        with run(quorum, "k", "sh", "-c", "ulimit -c 0; echo ready; exec sleep 300") as terminal:
            terminal.expect("ready\n")
            terminal.type(key)
            terminal.end(128 + number)
        equal(quorum.keys(), 0, "keys")


@case("Ctrl-C while it waits for the lock ends it: 130")
def _(quorum):
    quorum.occupy("k")
    before = quorum.attempts()
    with run(quorum, "k", "echo", "ran") as terminal:
        lab.wait_for(lambda: quorum.attempts() > before, "an attempt")
        terminal.type("\x03")
        terminal.expect("the lock is not held")
        terminal.end(130)


@case("the command reads and writes the terminal")
def _(quorum):
    with run(quorum, "k", "sh", "-c", "test -t 0 && test -t 1 && read x; echo \"got <$x>\"") as terminal:
        terminal.type("some words\n")
        terminal.expect("got <some words>\n")
        terminal.end(0)


@case("the terminal hangs up: the command ends, and nothing is left")
def _(quorum):
    with run(quorum, "k", "sh", "-c", "echo ready; sleep 999 & sleep 998; sleep 997") as terminal:
        terminal.expect("ready\n")
        terminal.hang_up()
        terminal.process.wait(15)
        lab.nothing_is_left()
    lab.wait_for(lambda: quorum.keys() == 0, "the release")


# --- under a shell with job control ---

@case("after the end the shell has the foreground again, however it ended")
def _(quorum):
    with Shell(quorum) as shell:
        for words, code in (("true", 0), ("sh -c 'exit 9'", 9), ("sh -c 'kill -9 $$'", 137),
                            ("no-such-program", 127)):
            shell.do(f"$R run k -- {words}")
            shell.expect(PROMPT)
            equal(shell.code(), code, f"exit code of {words}")
            shell.check_foreground()
        shell.do("read line; echo \"got <$line>\"")
        shell.type("typed\n")
        shell.expect("got <typed>\n")


@case("Ctrl-Z stops it, the shell gets the terminal; fg continues it, with the lock")
def _(quorum):
    with Shell(quorum) as shell:
        shell.do("$R run -t 30s k -- sh -c 'echo ready; read x; echo \"got <$x>\"; exit 6'")
        shell.expect("ready\n")
        shell.type("\x1a")
        shell.expect("Stopped")
        shell.expect(PROMPT)
        shell.check_foreground()
        check(None not in quorum.values("k"), "the lock was lost when the command stopped")
        shell.do("fg")
        shell.expect("read x")
        shell.type("hello\n")
        shell.expect("got <hello>\n")
        shell.expect(PROMPT)
        equal(shell.code(), 6, "exit code")
        shell.check_foreground()
    equal(quorum.keys(), 0, "keys")


@case("Ctrl-Z twice, and bg: the command continues in the background and ends")
def _(quorum):
    path = lab.temporary("go")
    os.mkfifo(path)  # a command to wait for: a shell that is stopped while it forks does not stop
    with Shell(quorum) as shell:
        shell.do(f"$R run k -- sh -c 'echo $$ ready; read x <{path}; echo \"got <$x>\"'")
        pid = int(shell.expect(r"(\d+) ready\n")[1])
        for _ in range(2):
            shell.type("\x1a")
            shell.expect("Stopped")
            shell.expect(PROMPT)
            shell.do("fg")
            shell.expect("read x")
            shell.wait_for_job(pid)
        shell.type("\x1a")
        shell.expect("Stopped")
        shell.expect(PROMPT)
        shell.do("bg")
        shell.expect(PROMPT)
        lab.write(path, "some words\n")
        shell.expect("got <some words>\n")
        shell.do("wait %1; echo over=$?")
        shell.expect(r"over=\d+\n")
    lab.wait_for(lambda: quorum.keys() == 0, "the release")


@case("Ctrl-Z for longer than the lock lasts: the command is dead by then, fg returns 124")
def _(quorum):
    path = lab.temporary("beats")
    with Shell(quorum) as shell:
        shell.do("$R run -t 1s k -- " + " ".join(lab.beat(path)))
        lab.wait_for_beats(path)
        shell.type("\x1a")
        shell.expect("Stopped")
        shell.expect(PROMPT)
        lab.wait_for(lambda: quorum.keys() == 0, "the end of the TTL")
        lab.wait_for(lambda: not lab.named(lab.marked(), r"^\S*python\S* .*beat\.py"), "its end")
        shell.do("fg")
        shell.expect("the lock is lost")
        shell.expect(PROMPT)
        equal(shell.code(), 124, "exit code")
        shell.check_foreground()


@case("in a pipeline the command may still get the terminal")
def _(quorum):
    with Shell(quorum) as shell:
        shell.do("$R run k -- sh -c 'read x; echo \"got <$x>\"' | cat")
        shell.type("piped\n")
        shell.expect("got <piped>\n")
        shell.expect(PROMPT)
        shell.check_foreground()
    equal(quorum.keys(), 0, "keys")


@case("the same repeatedly on a busy machine: stops, starts and ends are all noticed")
def _(quorum):
    busy = [lab.spawn(["sh", "-c", "while :; do :; done"]) for _ in range(4)]
    try:
        with Shell(quorum) as shell:
            for count in range(15):
                shell.do("$R run k -- sh -c 'read x; echo \"got <$x>\"' | cat")
                shell.type(f"piped {count}\n")
                shell.expect(f"got <piped {count}>\n")
                shell.expect(PROMPT)
    finally:
        for process in busy:
            process.kill()
            process.wait()


@case("a background job that reads the terminal stops until fg")
def _(quorum):
    with Shell(quorum) as shell:
        shell.do("$R run -t 30s k -- sh -c 'read x; echo \"got <$x>\"' &")
        lab.wait_for(lambda: lab.named(lab.marked(), r"^sh -c read"), "the command")
        [reader] = lab.named(lab.marked(), r"^sh -c read")
        [redlock] = lab.named(lab.marked(), r"^\S*redlock run")
        for pid in (reader, redlock):  # a job that is about to stop does so after fg, too
            lab.wait_for(lambda: lab.state(pid) == "T", "the job to be stopped")
        shell.expect(PROMPT)
        shell.do("echo still here")
        shell.expect("still here\n")
        shell.do("fg")
        shell.expect("read x")
        shell.type("at last\n")
        shell.expect("got <at last>\n")
        shell.expect(PROMPT)
        shell.check_foreground()


@case("redlock is killed while its command has the foreground: the shell gets it back")
def _(quorum):
    with Shell(quorum) as shell:
        shell.do("$R run k -- sh -c 'echo ready; sleep 999'")
        shell.expect("ready\n")
        [redlock] = lab.named(lab.marked(), r"^\S*redlock run")
        os.kill(redlock, signal.SIGKILL)
        shell.expect(PROMPT)
        equal(shell.code(), 137, "exit code")
        shell.check_foreground()
    lab.nothing_is_left()


@case("redlock local: its command has the terminal, Ctrl-C ends it, Ctrl-Z and fg work")
def _(quorum):
    with Shell(quorum) as shell:
        shell.do("$R local -n 1 -- sh -c 'echo ready; read x; echo \"got <$x>\"; exec sleep 300'")
        shell.expect("ready\n")
        shell.type("\x1a")
        shell.expect("Stopped")
        shell.expect(PROMPT)
        shell.do("fg")
        shell.expect("read x")
        shell.type("words\n")
        shell.expect("got <words>\n")
        shell.type("\x03")
        shell.expect(PROMPT)
        equal(shell.code(), 130, "exit code")
        shell.do("$R local -n 1")
        shell.expect("1 servers run")
        shell.type("\x03")
        shell.expect(PROMPT)
        equal(shell.code(), 0, "exit code")
        shell.check_foreground()


@case("status has colours on a terminal, unless they are switched off")
def _(quorum):
    quorum.occupy("k")
    for words, env, colour in (([], {}, True), (["--color=never"], {}, False),
                               ([], {"NO_COLOR": "1"}, False), ([], {"TERM": "dumb"}, False),
                               (["--color=always"], {"NO_COLOR": "1"}, True)):
        env = on(quorum, TERM=env.pop("TERM", "xterm"), **env)
        with Terminal([lab.program, "status", *words, "k"], env) as terminal:
            terminal.expect("k: held")
        with Terminal([lab.program, "status", *words, "k"], env) as terminal:
            has = terminal.expect(r"(?s)^(.*)k: held")[1]
        equal("\033[" in has, colour, f"colours with {words} {env.get('NO_COLOR')}")
    check("\033" not in lab.redlock("status", "k", env=on(quorum)).out, "colours in a pipe")


lab.main()
