"""Lines of text with styles: what text forms are made of, for a terminal, a pipe or a notebook."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

Span: TypeAlias = tuple[str, str]
"""A text and its style: words such as `bold red`."""


class Line(Struct, frozen=True):
    """One line. If it does not fit, its end is cut off (`cut`), it is wrapped between words (`wrap`), or it is left whole
    because it is to be copied (`copy`)."""

    spans: tuple[Span, ...] = ()
    fit: Literal["cut", "wrap", "copy"] = "cut"

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.spans)


def line(*spans: Span | str, fit: Literal["cut", "wrap", "copy"] = "cut") -> Line:
    """A line of texts and styled texts."""
    return Line(tuple((each, "") if isinstance(each, str) else each for each in spans), fit)


def table(rows: Sequence[Sequence[Span | str]], *, indent: str = "") -> Iterator[Line]:
    """Rows of cells, each as wide as the widest of its column."""
    cells = [[(each, "") if isinstance(each, str) else each for each in row] for row in rows]
    widths = [max(width_of(text) for text, _ in column) for column in zip(*cells, strict=True)]
    for row in cells:
        last = max((place for place, (text, _) in enumerate(row) if text), default=0)
        padded = [
            (text if place == last else text + " " * (width - width_of(text) + 2), style)
            for place, ((text, style), width) in enumerate(zip(row[: last + 1], widths, strict=False))
        ]
        yield Line(((indent, ""), *padded) if indent else tuple(padded))


def fitted(lines: Iterable[Line], width: int) -> Iterator[Line]:
    """The lines on a screen of that width."""
    for each in lines:
        if width_of(each.text) <= width or each.fit == "copy":
            yield each
        elif each.fit == "cut":
            yield _cut(each, width)
        else:
            yield from _wrapped(each, width)


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_width(each) for each in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cut(whole: Line, width: int) -> Line:
    spans: list[Span] = []
    left = width - 1
    for text, style in whole.spans:
        shown = text
        while width_of(shown) > left:
            shown = shown[:-1] if width_of(shown) - left < 8 else shown[: -(width_of(shown) - left) // 2]
        left -= width_of(shown)
        spans.append((shown, style))
        if shown != text:
            break
    return Line((*spans, ("…", "")), "copy")


def _wrapped(whole: Line, width: int) -> Iterator[Line]:
    """The line in several, of one style, below its first word. A word that is longer than the screen is left whole."""
    text, style = whole.text, next((style for _, style in whole.spans if style), "")
    indent = text[: len(text) - len(text.lstrip())]
    for part in textwrap.wrap(
        text.strip(), max(20, width - len(indent)), break_long_words=False, break_on_hyphens=False
    ):
        yield Line(((indent + part, style),), "copy")
