"""A bar on a terminal; elsewhere a line every ten seconds."""
import math
import sys
import time

from .errors import printable


def write_at_once(text):
    """print() writes a line and its end one after the other: what an interrupt says could come between them."""
    sys.stderr.write(text)
    sys.stderr.flush()


def say(line, quiet=False):
    """A line on stderr. What a terminal would obey in it, such as in a name that a file gives, is shown instead."""
    if not quiet:
        write_at_once(printable(line) + "\n")


class Progress:
    """`unit` in the plural; `scale`: how many of what is counted are one of it. `found`: what was done before."""

    def __init__(self, total, unit, quiet, scale=1, found=0):
        self.total, self.unit, self.quiet, self.scale = total, unit, quiet, scale
        self.done = self.found = found
        self.terminal, self.bar_shown = sys.stderr.isatty(), False
        self.interval = 0.1 if self.terminal else 10
        self.start, self.last = time.monotonic(), -math.inf

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end_bar()

    def end_bar(self):
        """Ends its line, before another line is printed."""
        if self.bar_shown:
            print(file=sys.stderr)
        self.bar_shown = False

    def seconds(self):
        """Since the progress began."""
        return time.monotonic() - self.start

    def __call__(self, amount):
        """`amount` more is done."""
        self.done += amount
        now = time.monotonic()
        if self.quiet or (self.done < self.total and now - self.last < self.interval):
            return
        self.last = now
        rate = (self.done - self.found) / max(self.seconds(), 1e-9)
        text = f"{self.done // self.scale} of {self.total // self.scale} {self.unit}"
        if rate:
            speed = rate / self.scale
            text += f", {speed:.{2 if speed < 10 and self.scale == 1 else 0}f} {self.unit}/s"
        if rate and self.done < self.total:
            left = math.ceil((self.total - self.done) / rate)
            text += f", {left // 60}:{left % 60:02} left"
        if self.terminal:
            filled = 30 * self.done // max(self.total, 1)
            text = f"\r\033[K[{'#' * filled}{'.' * (30 - filled)}] {text}"
            self.bar_shown = True
        write_at_once(text if self.terminal else text + "\n")

    def say(self, line):
        """A line of its own above the bar."""
        if not self.quiet:
            write_at_once(("\r\033[K" if self.bar_shown else "") + line + "\n")
