"""Progress of an import, on stderr."""
import math
import sys
import time


class Progress:
    """Progress of the writing: a bar on a terminal, an occasional line elsewhere."""

    def __init__(self, total_bytes, quiet):
        self.total, self.quiet, self.done = total_bytes, quiet, 0
        self.bar_shown = False
        self.terminal = sys.stderr.isatty()
        self.interval = 0.1 if self.terminal else 10
        self.start, self.last = time.monotonic(), -math.inf

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.bar_shown:  # ends the bar's line
            print(file=sys.stderr)

    def seconds(self):
        return time.monotonic() - self.start

    def __call__(self, size):
        self.done += size
        now = time.monotonic()
        if self.quiet or (self.done < self.total and now - self.last < self.interval):
            return
        self.last = now
        rate = self.done / max(self.seconds(), 1e-9)
        text = f"{self.done // 10**6} of {self.total // 10**6} MB, {rate / 1e6:.0f} MB/s"
        if self.done < self.total:
            left = math.ceil((self.total - self.done) / rate)
            text += f", {left // 60}:{left % 60:02} left"
        if self.terminal:
            filled = 30 * self.done // self.total
            text = f"\r\033[K[{'#' * filled}{'.' * (30 - filled)}] {text}"
            self.bar_shown = True
        print(text, end="" if self.terminal else "\n", file=sys.stderr, flush=True)
