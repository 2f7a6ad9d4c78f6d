"""A log of times outside of every store: node bodies and processes write to it, the measuring process reads it.

A line is appended with one write, so it survives any end of the process. Times are those of the machine's monotonic
clock, which all processes share.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Said(NamedTuple):
    """One line: the kind, the run, a number and the time."""

    word: str
    run: str
    number: int
    moment: float


def file_of(place: Path) -> Path:
    return place / "witness.log"


class Witness:
    """Writes lines for one process."""

    def __init__(self, place: Path) -> None:
        self._file = os.open(file_of(place), os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def tell(self, word: str, run: str = "-", number: int = 0) -> None:
        os.write(self._file, f"{word} {run} {number} {time.monotonic():.6f}\n".encode())


class Listener:
    """Reads new lines, so that reading costs the measured process little."""

    def __init__(self, place: Path) -> None:
        self.lines: list[Said] = []
        self.words: Counter[str] = Counter()
        self._file = os.open(file_of(place), os.O_CREAT | os.O_RDONLY)
        self._rest = b""

    def hear(self) -> None:
        while piece := os.read(self._file, 1 << 20):
            *whole, self._rest = (self._rest + piece).split(b"\n")
            for line in whole:
                word, run, number, moment = line.decode().split()
                self.lines.append(Said(word, run, int(number), float(moment)))
                self.words[word] += 1

    def wait(self, is_so: Callable[[Counter[str]], bool], is_alive: Callable[[], bool], seconds: float) -> None:
        """Wait until there are enough lines. Fails when the writing process is dead, or after the timeout."""
        give_up = time.monotonic() + seconds
        while True:
            was_alive = is_alive()
            self.hear()
            if is_so(self.words):
                return
            if not was_alive:
                raise RuntimeError("the measured process ended before it was done")
            if time.monotonic() > give_up:
                raise TimeoutError(f"the measured process was not done within {seconds:.0f} s")
            time.sleep(0.01)

    def said(self, word: str, since: int = 0) -> list[Said]:
        """The lines of this kind, from this line number on."""
        return [line for line in self.lines[since:] if line.word == word]
