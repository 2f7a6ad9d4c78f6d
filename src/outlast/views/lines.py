"""Lines of styled text: the text form of a view, for a terminal, a pipe or a notebook."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

Span: TypeAlias = tuple[str, str]
"""A text and its style, such as `bold red`."""


class Line(Struct, frozen=True):
    """One line. A line that is too long is cut (`cut`), wrapped between words (`wrap`), or kept whole so that it can be
    copied (`copy`). Wrapped text is indented by `hang` columns more. `note` follows the text, or stands below it if both
    do not fit."""

    spans: tuple[Span, ...] = ()
    fit: Literal["cut", "wrap", "copy"] = "cut"
    hang: int = 0
    note: str = ""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.spans)


def line(*spans: Span | str, fit: Literal["cut", "wrap", "copy"] = "cut", hang: int = 0, note: str = "") -> Line:
    """A line of texts, each with or without a style."""
    return Line(tuple((each, "") if isinstance(each, str) else each for each in spans), fit, hang, note)


def table(rows: Sequence[Sequence[Span | str]], *, indent: str = "") -> Iterator[Line]:
    """Rows of cells. A column is as wide as its widest cell."""
    cells = [line(*row).spans for row in rows]
    widths = [max(width_of(text) for text, _ in column) for column in zip(*cells, strict=True)]
    for row in cells:
        last = max((place for place, (text, _) in enumerate(row) if text), default=0)
        parts = [(padded(text, width) + "  ", style) for (text, style), width in zip(row[:last], widths, strict=False)]
        yield line(*([indent] if indent else []), *parts, row[last])


def padded(text: str, width: int) -> str:
    """The text in exactly so many columns: cut with an ellipsis, or followed by spaces."""
    if (columns := width_of(text)) <= width:
        return text + " " * (width - columns)
    while width_of(text) > width - 1:
        text = text[:-1]
    return padded(text + "…", width)


def fitted(lines: Iterable[Line], width: int) -> Iterator[Line]:
    """The lines on a screen of that width."""
    for each in lines:
        if each.note and width_of(each.text) + 2 + width_of(each.note) <= width:
            yield line(*each.spans, (f"  {each.note}", "dim"))
        elif each.note:
            text, style = each.spans[-1]
            yield line(*each.spans[:-1], (text.rstrip(), style), fit="copy")
            indent = " " * (len(each.text) - len(each.text.lstrip()) + 2)
            yield from fitted([line((indent + each.note, "dim"), fit="wrap")], width)
        elif width_of(each.text) <= width or each.fit == "copy":
            yield each
        else:
            yield from [_cut(each, width)] if each.fit == "cut" else _wrapped(each, width)


def width_of(text: str) -> int:
    """The columns that a text takes on a terminal."""
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
        if width_of(text) > left:
            spans.append((padded(text[: width + 1], left + 1), style))
            break
        left -= width_of(text)
        spans.append((text, style))
    return Line(tuple(spans), "copy")


def _wrapped(whole: Line, width: int) -> Iterator[Line]:
    """The line in several lines of one style. A word that is longer than the screen is kept whole, so that
    it can be copied, except in a line that hangs."""
    text, style = whole.text, next((style for _, style in whole.spans if style), "")
    indent = text[: len(text) - len(text.lstrip())]
    below = indent + " " * whole.hang
    width = max(20 + len(below), width)
    wrap = textwrap.TextWrapper(width, indent, below, break_long_words=whole.hang > 0, break_on_hyphens=False)
    for part in wrap.wrap(text.strip()):
        yield Line(((part, style),), "copy")
