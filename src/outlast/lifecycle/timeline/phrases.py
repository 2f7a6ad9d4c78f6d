"""Short forms of values, names and durations, for texts that fit on one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Raw

from outlast.errors import CODES
from outlast.history.events import Failure, Value
from outlast.history.ids import question_of
from outlast.lifecycle.state import Wait

SECOND = 1_000_000
MAX_VALUE = 90
"""Characters of a value or message in a sentence."""
MAX_NAMES = 3
"""Names that a list shows before it counts the rest."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNT = re.compile(r"#[0-9]+$|\[.*\]$", re.DOTALL)
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_LARGE = re.compile(rb'\{"\$":"int","v":"(-?0x[0-9a-f]{1,3000})"\}')
_FRAME = re.compile(r'File "([^"]+)", line ([0-9]+), in (\S+)')
_LIBRARY = re.compile(r"[\\/](?:site-packages|dist-packages)[\\/]|[\\/]lib[\\/]python3|^<")


def moment(time: int) -> datetime | None:
    """A time in microseconds since 1970 as a datetime in UTC; None if datetime cannot represent it."""
    try:
        return _EPOCH + timedelta(microseconds=time)
    except OverflowError:
        return None


def duration(time: float) -> str:
    """A duration in microseconds: 0.4 ms, 95 ms, 1.6 s, 3 min 20 s, 5 h 10 min, 9 d 4 h."""
    seconds = max(0.0, time / SECOND)
    if seconds < 59.95:
        unit, amount = ("s", seconds) if seconds >= 0.9995 or not seconds else ("ms", seconds * 1000)
        return f"{amount:.3g} {unit}"
    whole = round(seconds)
    at = next(place for place, (_, size) in enumerate(_UNITS) if whole >= size)
    (unit, size), (smaller, part) = _UNITS[at : at + 2]
    rest = whole % size // part
    return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")


def counted(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def plain(text: str, *, keep_indent: bool = False) -> str:
    """The text on one line without effect on a terminal: white space becomes a space, control characters are escaped."""
    if text.isprintable() and "  " not in text and text[:1] != " " and text[-1:] != " ":  # nearly always
        return text
    words = text if keep_indent else " ".join(text.split())
    if words.isprintable():
        return words
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in words)


def cropped(text: str, length: int = MAX_VALUE) -> str:
    """`plain`, cut to `length` characters."""
    words = plain(text[: 4 * length])
    return words if len(words) <= length and len(text) <= 4 * length else words[: length - 1] + "…"


def name(node: str, length: int = MAX_VALUE) -> str:
    """The name of a node or a question for a person: without the mark of its branch, `ask` for `ask~b3`."""
    return cropped(question_of(node), length)


def listed(names: Sequence[object]) -> str:
    """`a`, `a and b`, `a, b, c and 12 more`."""
    shown = [name(str(each), 60) for each in names[:MAX_NAMES]]
    if len(names) > MAX_NAMES:
        shown.append(f"{len(names) - MAX_NAMES:,} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def plain_numbers(raw: Value) -> Value:
    """A value's JSON with integers of more than 64 bits as decimal numbers; they are stored in hexadecimal."""
    data = bytes(raw)
    return Raw(_LARGE.sub(lambda found: b"%d" % int(found[1], 16), data)) if b'{"$":"int"' in data else raw


def value(raw: Value, length: int = MAX_VALUE) -> str:
    """A user's value as its own JSON; empty for null, and the size of a value that is stored in a blob."""
    text = bytes(plain_numbers(Raw(memoryview(raw)[: 8 * length]))).decode(errors="replace")
    if text.startswith('{"$":"blob"'):
        try:
            return f"a value of {msgspec.json.decode(raw)['size']:,} bytes"
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            return "a large value"
    return "" if text == "null" else cropped(text, length)


def failure(error: Failure) -> str:
    """`ValueError: message`, with the module of a class that is not a builtin; a code without a class gives the message."""
    if known := CODES.get(error.kind):
        kind = known.error.__name__ if known.error is not None else ""
    else:
        module, _, name = error.kind.rpartition(":")
        kind = name if module in ("", "builtins", "__main__") else f"{module}.{name}"
    return ": ".join(filter(None, (kind, error.message))) or error.kind


def user_frame(error: Failure) -> str:
    """The innermost frame of the user's code in a recorded traceback: `flows.py:12 in fetch`. Frames of libraries count only
    if there are no others. Empty if there is no traceback."""
    frames = _FRAME.findall(error.trace)
    frames = [frame for frame in frames if not _LIBRARY.search(frame[0])] or frames
    return "{}:{} in {}".format(*frames[-1]) if frames else ""


def base(node: str) -> str:
    """The common part of names of one kind: `fetch#2` and `fetch[x]` give `fetch`, `read/read/17` gives `read/read/*`."""
    cut = _COUNT.sub("", node)
    if "/" not in cut:
        return cut
    return "/".join("*" if part.isdecimal() else _COUNT.sub("", part) for part in cut.split("/"))


def label(pattern: str) -> str:
    """A pattern of `base` for display: without the stars at either end."""
    shown = pattern.removesuffix("/*")
    while shown.startswith("*/"):
        shown = shown.removeprefix("*/")
    return cropped(shown.replace("*", "…"), 60)


def wait_text(wait: Wait, now: int, length: int = 80) -> str:
    """A wait of the run, with the remaining time."""
    when = ""
    if wait.due is not None:
        when = f" in {duration(wait.due - now)}" if wait.due > now else f" due {duration(now - wait.due)} ago"
    text, id = cropped(wait.text, length), name(wait.id, 60)
    match wait.kind:
        case "interaction":
            return f"answer to “{text or id}”" + (f" (expires{when})" if when else "")
        case "timer" if wait.id == f"retry:{wait.node}":
            return f"retry of {cropped(wait.node, 60)}{when}" + (f" after “{text}”" if text else "")
        case "timer":
            return f"timer {id}{when}"
        case "child":
            return " ".join(filter(None, ("child", text, id)))
        case "signal" | "outbox" | "trigger":
            return f"{wait.kind} {text or id}"
