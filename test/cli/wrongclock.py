"""A time of day that is wrong as the test directs, for programs under the clock shim.

test/support/clockshim.c reads what this writes, while the program runs.
"""
import os
import struct
import time

STANDS_STILL = -1000000  # ppm: it loses all that the true clock gains


class WrongClock:
    """Correct until a method changes it. One thread of one process may change it.

    `clocks`: instead of the time of day, those that stand still while a host is "suspended", or
    "all", as in a virtual machine that is paused; these may only jump(). "slewed": all but
    CLOCK_MONOTONIC_RAW, as a time daemon has them.
    """

    def __init__(self, path, clocks=None):
        self.path, self.clocks = path, clocks
        self.turn = self.anchor = self.offset = self.rate = 0  # ns and ppm: see clockshim.c
        with open(path, "xb") as file:
            file.write(struct.pack("@Qqqq", 0, 0, 0, 0))

    def environment(self):
        """The environment of a program with this clock."""
        shim = os.environ.get("CLOCK_SHIM")
        if not shim:
            raise RuntimeError("CLOCK_SHIM is not set: it names what meson makes of clockshim.c")
        more = {"CLOCK_SHIM_CLOCKS": self.clocks} if self.clocks else {}
        return {"LD_PRELOAD": shim, "CLOCK_SHIM_FILE": self.path, **more}

    def jump(self, us):
        """It shows this much more from now on, or less."""
        self._change(lambda now: (self.anchor, self.offset + us * 1000, self.rate))

    def slew(self, ppm):
        """Continues from the shown time, too fast by this rate, or too slow; 0: at the true rate."""
        self._change(lambda now: (now, self._shown(now) - now, ppm))

    def freeze(self):
        """Stands still at the shown time, until a slew()."""
        self.slew(STANDS_STILL)

    def mend(self):
        """Shows the true time again, and jumps there."""
        self._change(lambda now: (0, 0, 0))

    def shown_us(self):
        """The shown time."""
        return self._shown(time.time_ns()) // 1000

    def _shown(self, true):
        return true + self.offset + (true - self.anchor) * self.rate // 1000000

    def _change(self, state_at):
        file = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            # `turn` is odd before the anchor is read, and until all of the rest is written.
            os.pwrite(file, struct.pack("@Q", self.turn + 1), 0)
            self.anchor, self.offset, self.rate = state_at(time.time_ns())
            os.pwrite(file, struct.pack("@qqq", self.anchor, self.offset, self.rate), 8)
            self.turn += 2
            os.pwrite(file, struct.pack("@Q", self.turn), 0)
        finally:
            os.close(file)
