"""The forms in which the value of a secret can show, and which values are looked for.

A value that was put into a message, a log line or a result rarely stands there as it is: quotes and backslashes are escaped
by `repr` and by JSON, a traceback of a group puts bars before every line, bytes are stored as base64. All of these are made
once, when a value is revealed, and are searched for from then on, in this process. While none was revealed, that costs one
look at an empty table.
"""

from __future__ import annotations

import re
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from itertools import islice
from typing import TypeAlias

import msgspec

SHORTEST_MASKED = 4
"""Shorter values are not searched for: they would be found in innocent text."""
SHORTEST_LINE = 8
"""Shorter lines of a value of many lines are only blotted out where all of it stands."""
SHORTEST_REFUSED = 8
LONGEST_WORD = 15
"""A value is only a reason to refuse a result if nobody says it by chance: it has as many characters as the one, and is not
a mere word like `postgres`, of letters alone and no longer than the other."""
MOST_KNOWN = 1000
"""How many values are known at a time, the newest: where each attempt is given a key of its own, they never end."""

Escape: TypeAlias = Callable[[str], str]

known: dict[str, Disguise] = {}
"""What was revealed in this process, by value. It is replaced, never changed: others may be looking through it."""
revealed_here: ContextVar[set[str] | None] = ContextVar("outlast_revealed_here", default=None)
"""What the workflow code of this context has revealed; None elsewhere. Such code is held to its own secrets alone, or a
replay would depend on what other runs have revealed in the same process."""

_turn = threading.Lock()
_MARGIN = r"\s[\s|>]*"
"""What may stand between two lines of a value: a traceback of a group, a quotation and an indented text put something."""


class Disguise:
    """One value in all its forms."""

    __slots__ = ("coded", "is_refused", "pieces", "said", "shortest", "wrapped", "written", "written_pieces")

    def __init__(self, value: str) -> None:
        core = value.strip()  # a file often ends in a line break, and whoever uses its content takes that off
        is_known = len(core) >= SHORTEST_MASKED
        lines = [line.strip() for line in core.splitlines() if line.strip()]
        long = [line for line in lines if len(line) >= SHORTEST_LINE] if len(lines) > 1 else []
        self.said = _escaped(core) if is_known else ()
        """In text, as a whole."""
        self.pieces = tuple(dict.fromkeys(form for line in long for form in _escaped(line)))
        """In text, line by line."""
        self.wrapped = re.compile(_MARGIN.join(map(re.escape, lines))) if is_known and len(lines) > 1 else None
        """In text, with something before every line."""
        self.coded = _encoded(core) if is_known else ()
        """In base64, wherever in it the value begins."""
        self.written = _as_json((*self.said, *self.coded))
        """As a whole, in what is about to be stored."""
        self.written_pieces = _as_json(self.pieces)
        self.shortest = min(map(len, self.written), default=0)
        self.is_refused = len(core) >= SHORTEST_REFUSED and not (core.isalpha() and len(core) <= LONGEST_WORD)

    def is_in(self, body: bytes) -> bool:
        """Whether JSON holds it as a whole."""
        for form in self.written:  # noqa: SIM110 - in a third of the time: every value that is stored passes here
            if form in body:
                return True
        return False


def remember(value: str) -> None:
    """From now on this value is searched for."""
    global known
    if (here := revealed_here.get()) is not None:
        here.add(value)
    with _turn:
        disguise = known.get(value) or Disguise(value)
        others = {each: its for each, its in known.items() if each != value}
        known = {**dict(islice(others.items(), max(0, len(others) + 1 - MOST_KNOWN), None)), value: disguise}


def masked(text: str) -> str:
    """The text with every value this process has revealed blotted out, in whatever form it stands there."""
    if not known:
        return text
    disguises = list(known.values())
    for each in sorted(disguises, key=lambda each: each.shortest, reverse=True):
        if each.wrapped is not None:
            text = each.wrapped.sub("***", text)
    forms = {form for each in disguises for form in (*each.said, *each.pieces)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "***")
    return text


def is_given_away(body: bytes) -> bool:
    """Whether JSON that nobody needs to have holds a value that this process has revealed, or a line of one."""
    return any(each.is_in(body) or any(form in body for form in each.written_pieces) for each in known.values())


def refused_in(body: bytes) -> list[Disguise]:
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
    """A text as it is, as it stands in a `repr` or in JSON, and in a `repr` or JSON of that."""
    forms = {text: None}
    for _ in range(2):
        forms |= dict.fromkeys(escape(form) for form in list(forms) for escape in _ESCAPES)
    return tuple(forms)


def _in_repr(show: Callable[[str], str]) -> Escape:
    # With both kinds of quotes before it, single ones are escaped.
    return lambda text: show("'\"" + text)[4:-1]


def _in_bytes(text: str) -> str:
    return repr(b"'\"" + _utf8(text))[5:-1]


def _with_quotes(escape: Escape) -> Escape:
    """The same in a `repr` that has double quotes around it."""
    return lambda text: escape(text).replace("\\'", "'")


def _in_json(is_ascii: bool) -> Escape:
    def escape(text: str) -> str:
        import json  # by whoever first reveals something: a program without secrets does without it

        return json.dumps(text, ensure_ascii=is_ascii)[1:-1]

    return escape


_REPRS: tuple[Escape, ...] = (_in_repr(repr), _in_repr(ascii), _in_bytes)
_ESCAPES: tuple[Escape, ...] = (*_REPRS, *map(_with_quotes, _REPRS), _in_json(is_ascii=False), _in_json(is_ascii=True))


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
