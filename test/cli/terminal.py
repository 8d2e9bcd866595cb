"""A terminal for the program under test."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios

import lab
from lab import equal


class Terminal:
    """A process on a terminal of its own; the test has the other end."""

    def __init__(self, words, env):
        self.master, slave = pty.openpty()
        self.seen = ""

        def begin():
            lab.die_with_us()
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave,
                                        preexec_fn=begin, env=lab.environment(env))
        os.close(slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hang_up()
        self.process.kill()
        self.process.wait()

    def hang_up(self):
        if self.master >= 0:
            os.close(self.master)
        self.master = -1

    def type(self, text):
        os.write(self.master, text.encode())

    def pull(self, seconds):
        """Reads the available output; False if the terminal is closed."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            self.seen += os.read(self.master, 4096).decode(errors="replace").replace("\r", "")
        except OSError:
            return False  # the last process of the terminal has ended
        return True

    def expect(self, pattern):
        """Waits for output that matches; returns the match and drops everything up to its end."""
        def look():
            self.pull(0.02)
            return re.search(pattern, self.seen)
        try:
            found = lab.wait_for(look, f"{pattern!r} on the terminal")
        except lab.Failed as failure:
            raise lab.Failed(f"{failure}; there is {self.seen!r}") from None
        self.seen = self.seen[found.end():]
        return found

    def foreground(self):
        return os.tcgetpgrp(self.master)

    def end(self, code):
        lab.wait_for(lambda: self.pull(0.02) or self.process.poll() is not None, "the end")
        equal(self.process.wait(15), code, f"exit code, after {self.seen!r}")

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
