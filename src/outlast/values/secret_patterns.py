"""The forms in which the value of a secret can show, and which values are looked for.

A value is searched for as it is, as JSON escapes it, and in base64, as which bytes are stored. These forms are made once,
when the value is revealed, and are searched for from then on, in this process. While none was revealed, that costs one look
at an empty table.
"""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from itertools import islice

import msgspec

SHORTEST_MASKED = 4
"""Shorter values are not searched for: they would be found in innocent text."""
SHORTEST_LINE = 8
"""Shorter lines of a value of many lines are not searched for by themselves."""
SHORTEST_REFUSED = 8
LONGEST_WORD = 15
"""A value is only a reason to refuse a result if nobody says it by chance: it has as many characters as the one, and is not
a mere word like `postgres`, of letters alone and no longer than the other."""
MOST_KNOWN = 1000
"""How many values are known at a time, the newest: where each attempt is given a key of its own, they never end."""

known: dict[str, SecretPatterns] = {}
"""What was revealed in this process, by value. It is replaced, never changed: others may be looking through it."""
revealed_here: ContextVar[set[str] | None] = ContextVar("outlast_revealed_here", default=None)
"""What the workflow code of this context has revealed; None elsewhere. Such code is held to its own secrets alone, or a
replay would depend on what other runs have revealed in the same process."""

_lock = threading.Lock()


class SecretPatterns:
    """One value in all its forms."""

    __slots__ = ("coded", "is_refused", "lines", "said", "shortest", "written")

    def __init__(self, value: str) -> None:
        core = value.strip()  # a file often ends in a line break, and whoever uses its content takes that off
        is_known = len(core) >= SHORTEST_MASKED
        self.said = _escaped(core) if is_known else ()
        """In text."""
        lines = [line.strip() for line in core.splitlines()] if "\n" in core else []
        self.lines = tuple(form for line in lines if len(line) >= SHORTEST_LINE for form in _escaped(line))
        """In text, line by line: a traceback of a group puts a margin before each."""
        self.coded = _encoded(core) if is_known else ()
        """In base64, wherever in it the value begins."""
        self.written = _as_json((*self.said, *self.coded))
        """In what is about to be stored."""
        self.shortest = min(map(len, self.written), default=0)
        self.is_refused = len(core) >= SHORTEST_REFUSED and not (core.isalpha() and len(core) <= LONGEST_WORD)

    def is_in(self, body: bytes) -> bool:
        """Whether JSON holds it."""
        for form in self.written:  # noqa: SIM110 - in a third of the time: every value that is stored passes here
            if form in body:
                return True
        return False


def remember(value: str) -> None:
    """From now on this value is searched for."""
    global known
    if (require_scope := revealed_here.get()) is not None:
        require_scope.add(value)
    with _lock:
        disguise = known.get(value) or SecretPatterns(value)
        others = {each: its for each, its in known.items() if each != value}
        known = {**dict(islice(others.items(), max(0, len(others) + 1 - MOST_KNOWN), None)), value: disguise}


def masked(text: str) -> str:
    """The text with every value this process has revealed replaced by `***`, as it is and as JSON escapes it, whole or by
    lines."""
    if not known:
        return text
    for form in sorted({form for each in known.values() for form in (*each.said, *each.lines)}, key=len, reverse=True):
        text = text.replace(form, "***")
    return text


def is_given_away(body: bytes) -> bool:
    """Whether JSON that nobody needs to have holds a value that this process has revealed."""
    return any(each.is_in(body) for each in known.values())


def refused_in(body: bytes) -> list[SecretPatterns]:
    """The values on whose account JSON may have to be refused: it holds them, though perhaps in a number."""
    size, found = len(body), []
    for value, each in known.items():
        if each.is_refused and each.shortest <= size and each.is_in(body):
            own = revealed_here.get()
            if own is None or value in own:
                found.append(each)
    return found


# --- the forms ---------------------------------------------------------------------------------------------------------


def _escaped(text: str) -> tuple[str, ...]:
    """A text as it is, and as it stands in JSON."""
    import json  # by whoever first reveals something: a program without secrets does without it

    return tuple(dict.fromkeys((text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])))


def _encoded(text: str) -> tuple[str, ...]:
    """What of its base64 does not depend on what stands before and after it, for each place it may begin at."""
    body = _utf8(text)
    forms = []
    for before in range(3):
        code = b64encode(bytes(before) + body).decode()
        forms.append(code[-(-before * 8 // 6) : (before + len(body)) * 8 // 6])
    return tuple(forms)


def _as_json(forms: Iterable[str]) -> tuple[bytes, ...]:
    written: dict[bytes, None] = {}
    for form in forms:
        with suppress(UnicodeEncodeError):  # with a lone surrogate it cannot be stored anyway
            written[msgspec.json.encode(form)[1:-1]] = None
    return tuple(written)


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
