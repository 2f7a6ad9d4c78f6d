"""Where output goes: people's tables and lines through Rich, programs' bytes straight to stdout, remarks to stderr."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from outlast.cli.streams import own
from outlast.cli.texts import plain

UNLIMITED = 100_000
"""The width of a pipe: nothing is cropped unless a person's screen asks for it."""


def screen() -> Console:
    """Stdout for people: as wide as the terminal, or as COLUMNS says, or as it takes. Measured once: that is slow."""
    out = own()
    is_measured = out.isatty() or os.environ.get("COLUMNS", "").strip("0").isdecimal()
    width, height = Console(file=out).size if is_measured else (UNLIMITED, 25)
    return Console(file=out, highlight=False, markup=False, emoji=False, width=width, height=height)


def show_columns(console: Console, rows: Sequence[Sequence[Text]]) -> None:
    """Rows of cells below each other; what does not fit on the screen is cut off at the end of the line."""
    for line in columns(rows):
        show_line(console, line)


def columns(rows: Sequence[Sequence[Text]]) -> Iterator[Text]:
    """Rows of cells as lines, each cell as wide as the widest of its column."""
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            line.append_text(cell).append(" " * (width - cell.cell_len + 2))
        line.rstrip()
        yield line


def show_text(console: Console, text: str) -> None:
    """All lines of a text from anywhere, with their indents and without effect on the terminal."""
    for line in text.split("\n"):
        console.print(Text(plain(line.expandtabs(), keep_indent=True)), soft_wrap=True)


def show_wrapped(console: Console, margin: str, text: Text, note: str = "") -> None:
    """A text behind a margin, wrapped at words to the width of the screen. A text with a note is not wrapped: the note
    follows it, or stands below it if the line is too long."""
    width = len(margin) + text.cell_len + (len(note) + 2 if note else 0)
    if note and width > console.width:
        text.rstrip()
        console.print(Text.assemble(margin, text), soft_wrap=True)
        margin, text, note = margin + "  ", Text(note), ""
    parts = text.wrap(console, max(20, console.width - len(margin))) if width > console.width else [text]
    for part in parts:
        if not note:
            part.rstrip()
        console.print(Text.assemble((margin, "dim"), part, f"  {note}" if note else ""), soft_wrap=True)
        margin = " " * len(margin)


def show_line(console: Console, line: Text) -> None:
    """One line, whole or with an ellipsis, never wrapped."""
    line.rstrip()
    line.truncate(console.width, overflow="ellipsis")
    if console.is_terminal:
        console.print(line, no_wrap=True, crop=False)
    else:  # without colours ten times as fast: logs are long
        console.file.write(f"{line.plain}\n")


def is_wide(console: Console) -> bool:
    """Whether there is room for whole ids and digests."""
    return console.width >= 120


def notice(*lines: str, style: str = "dim") -> None:
    """Remarks beside the output, on stderr; the first line in the given style."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    for line in "\n".join(filter(None, lines)).split("\n"):
        console.print(Text(plain(line, keep_indent=True), style=style), soft_wrap=True)
        style = "dim"


def write_json(value: Any, *, pretty: bool = False) -> None:
    """One JSON value and a line end, as UTF-8 whatever the terminal's encoding; on one line unless `pretty`."""
    encoded = msgspec.json.format(msgspec.json.encode(value), indent=2 if pretty else -1)
    write_bytes(encoded + b"\n")


def write_bytes(data: bytes) -> None:
    out = own()
    out.flush()
    out.buffer.write(data)
    out.buffer.flush()
