"""Small phrases: lengths of time, counts, lists of names, values and failures, each short enough to stand in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from outlast.errors import CODES
from outlast.history.events import Failure, Value

SECOND = 1_000_000
LONGEST = 90
"""More of a value or a message does not belong into a sentence."""
NAMED = 3
"""So many names are given before the rest is counted."""

_COUNT = re.compile(r"#[0-9]+$|\[.*\]$", re.DOTALL)
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def duration(time: float) -> str:
    """A length of time, given in microseconds, as people say it: 0.4 ms, 95 ms, 1.6 s, 3 min 20 s, 5 h 10 min, 9 d 4 h."""
    seconds = max(0.0, time / SECOND)
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms" if seconds else "0 s"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    at = next(place for place, (_, size) in enumerate(_UNITS) if whole >= size)
    parts = []
    for unit, size in _UNITS[at : at + 2]:
        parts.append(f"{whole // size} {unit}" if whole >= size else "")
        whole %= size
    return " ".join(filter(None, parts))


def moment(time: int) -> str:
    """A place in time, seen from the start: no more exact than a reader wants it."""
    if time < SECOND:
        return f"{time // 1000} ms" if time >= 1000 else "0 s"
    return f"{time / SECOND:.1f} s" if time < 59.95 * SECOND else duration(time)


def counted(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def cropped(text: str, length: int = LONGEST) -> str:
    """The text on one line, and not longer than that."""
    words = " ".join(text[: 4 * length].split())
    return words if len(words) <= length and len(text) <= 4 * length else words[: length - 1] + "…"


def quoted(text: str) -> str:
    return f"“{cropped(text)}”"


def listed(names: Iterable[str], total: int = 0) -> str:
    """`a`, `a and b`, `a, b, c and 12 more`; `total` says how many there are if not all are given."""
    shown = [cropped(name, 60) for name in islice(names, NAMED + 1)]
    total = max(total, len(shown))
    if len(shown) > NAMED:
        total, shown = max(total, NAMED + 1), shown[:NAMED]
    more = total - len(shown)
    if more:
        return f"{', '.join(shown)} and {more:,} more" if shown else f"{more:,}"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def names(nodes: Sequence[str]) -> str:
    return listed(nodes, len(nodes))


def value(raw: Value, length: int = LONGEST) -> str:
    """A user's value as its own JSON; nothing for null, and only the size of what is kept in a blob."""
    text = bytes(memoryview(raw)[: 8 * length]).decode(errors="replace")
    if text == "null":
        return ""
    if text.startswith('{"$":"blob"'):
        return _blob(raw)
    return cropped(text, length)


def _blob(raw: Value) -> str:
    try:
        return f"a value of {msgspec.json.decode(raw)['size']:,} bytes"
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return "a large value"


def failure(error: Failure) -> str:
    """`ValueError: message`, with the module of a class where it is not obvious. A code without a class says nothing more
    than its message."""
    if known := CODES.get(error.kind):
        kind = known.error.__name__ if known.error is not None else ""
    else:
        module, _, name = error.kind.rpartition(":")
        kind = name if module in ("", "builtins", "__main__") else f"{module}.{name}"
    return ": ".join(filter(None, (kind, error.message))) or error.kind


def short(error: Failure) -> str:
    return cropped(failure(error), 140)


def ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def base(node: str) -> str:
    """What nodes of one kind have in common: numbers of tasks and items become a star, counts and keys are left away.

    `fetch#2` and `fetch[x]` are `fetch`, `read/read/17` is `read/read/*`, `3/fetch` is `*/fetch`."""
    cut = _COUNT.sub("", node)
    if "/" not in cut:
        return cut
    return "/".join("*" if part.isdecimal() else _COUNT.sub("", part) for part in cut.split("/"))


def label(pattern: str) -> str:
    """A kind of nodes for people."""
    shown = pattern.removesuffix("/*")
    while shown.startswith("*/"):
        shown = shown.removeprefix("*/")
    return cropped(shown.replace("*", "…"), 60)


def sentence(*parts: str) -> str:
    """The parts on one line, with semicolons between them and a full stop at the end."""
    text = " ".join("; ".join(filter(None, parts)).split())
    return text if text.endswith((".", "…", "?", "!")) else f"{text}."
