"""The forms in which the value of a secret can appear, and the values that are searched for.

A value is searched for as it is, as JSON escapes it, and in base64, the stored form of bytes. The forms are computed once,
when the value is revealed in this process, and are searched for from then on. While no value is revealed, the search costs
one look at an empty table.
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
"""Shorter values are not searched for: they would match unrelated text."""
SHORTEST_LINE = 8
"""Shorter lines of a value of many lines are not searched for by themselves."""
SHORTEST_REFUSED = 8
LONGEST_WORD = 15
"""A result that contains a value is refused only if the value is unlikely to occur by chance: it has at least
`SHORTEST_REFUSED` characters, and is not a word like `postgres`, of letters only and at most `LONGEST_WORD` long.
"""
MOST_KNOWN = 1000
"""How many values are known at a time, the newest ones: attempts that each get a new key must not fill the memory."""

known: dict[str, SecretPatterns] = {}
"""The values revealed in this process, with their forms. The dict is replaced, never changed: other threads may be
reading it.
"""
revealed_here: ContextVar[set[str] | None] = ContextVar("outlast_revealed_here", default=None)
"""The values that the workflow code of this context has revealed; None elsewhere. Only these count in workflow code:
otherwise a replay would depend on what other runs have revealed in the same process.
"""

_lock = threading.Lock()


class SecretPatterns:
    """One value in all its forms."""

    __slots__ = ("base64", "is_refused", "lines", "plain", "shortest", "written")

    def __init__(self, value: str) -> None:
        core = value.strip()  # a file often ends in a line break, which its users remove
        is_known = len(core) >= SHORTEST_MASKED
        self.plain = _escaped(core) if is_known else ()
        """In text."""
        lines = [line.strip() for line in core.splitlines()] if "\n" in core else []
        self.lines = tuple(form for line in lines if len(line) >= SHORTEST_LINE for form in _escaped(line))
        """In text, line by line: a traceback of a group adds a margin to each line."""
        self.base64 = _encoded(core) if is_known else ()
        """In base64, for each offset at which the value may begin."""
        self.written = _as_json((*self.plain, *self.base64))
        """In stored JSON."""
        self.shortest = min(map(len, self.written), default=0)
        self.is_refused = len(core) >= SHORTEST_REFUSED and not (core.isalpha() and len(core) <= LONGEST_WORD)

    def is_in(self, body: bytes) -> bool:
        """Whether the JSON contains the value."""
        for form in self.written:  # noqa: SIM110 - three times as fast, and every stored value is searched
            if form in body:
                return True
        return False


def remember(value: str) -> None:
    """Search for this value from now on."""
    global known
    if (own := revealed_here.get()) is not None:
        own.add(value)
    with _lock:
        patterns = known.get(value) or SecretPatterns(value)
        others = {each: its for each, its in known.items() if each != value}
        known = {**dict(islice(others.items(), max(0, len(others) + 1 - MOST_KNOWN), None)), value: patterns}


def masked(text: str) -> str:
    """The text with every value revealed in this process replaced by `***`, as it is and as JSON escapes it, whole or by
    lines."""
    if not known:
        return text
    for form in sorted({form for each in known.values() for form in (*each.plain, *each.lines)}, key=len, reverse=True):
        text = text.replace(form, "***")
    return text


def is_given_away(body: bytes) -> bool:
    """Whether the JSON of an optional part contains a value revealed in this process."""
    return any(each.is_in(body) for each in known.values())


def refused_in(body: bytes) -> list[SecretPatterns]:
    """The values that occur in the JSON, possibly inside a number: it may have to be refused because of them."""
    size, found = len(body), []
    for value, each in known.items():
        if each.is_refused and each.shortest <= size and each.is_in(body):
            own = revealed_here.get()
            if own is None or value in own:
                found.append(each)
    return found


# --- the forms ---------------------------------------------------------------------------------------------------------


def _escaped(text: str) -> tuple[str, ...]:
    """A text as it is, and as JSON escapes it."""
    import json  # imported at first use: many programs reveal no secret

    return tuple(dict.fromkeys((text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])))


def _encoded(text: str) -> tuple[str, ...]:
    """The part of its base64 that does not depend on the text around it, for each offset at which it may begin."""
    body = _utf8(text)
    forms = []
    for before in range(3):
        code = b64encode(bytes(before) + body).decode()
        forms.append(code[-(-before * 8 // 6) : (before + len(body)) * 8 // 6])
    return tuple(forms)


def _as_json(forms: Iterable[str]) -> tuple[bytes, ...]:
    written: dict[bytes, None] = {}
    for form in forms:
        with suppress(UnicodeEncodeError):  # text with a lone surrogate cannot be stored anyway
            written[msgspec.json.encode(form)[1:-1]] = None
    return tuple(written)


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
