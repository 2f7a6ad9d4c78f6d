"""Where output goes: people's tables and lines through Rich, programs' bytes straight to stdout, remarks to stderr."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from outlast.cli.streams import own
from outlast.views.lines import Line, fitted
from outlast.views.texts import plain

WIDE = 120
"""From this width on, ids and digests are shown whole."""
_CODES = {"bold": "1", "dim": "2"} | {
    name: str(code) for code, name in enumerate(("red", "green", "yellow", "blue", "magenta", "cyan"), 31)
}
UNLIMITED = 100_000
"""The width of a pipe: nothing is cropped unless a person's screen asks for it."""


def screen() -> Console:
    """Stdout for people: as wide as the terminal, or as COLUMNS says, or as it takes. Measured once: that is slow."""
    out = own()
    is_measured = out.isatty() or os.environ.get("COLUMNS", "").strip("0").isdecimal()
    width, height = Console(file=out).size if is_measured else (UNLIMITED, 25)
    return Console(file=out, highlight=False, markup=False, emoji=False, width=width, height=height)


def width() -> int:
    """The columns of stdout: of the terminal, or as COLUMNS says, else unlimited."""
    is_measured = own().isatty() or os.environ.get("COLUMNS")
    return shutil.get_terminal_size().columns if is_measured else UNLIMITED


def show_lines(lines: Iterable[Line]) -> None:
    """Lines of a text form, fitted to the screen; with colours on a terminal."""
    out = own()
    paint = has_colours(out)
    for each in fitted(lines, width()):
        out.write("".join(_painted(text, style) for text, style in each.spans) if paint else each.text)
        out.write("\n")


def has_colours(out: TextIO) -> bool:
    """Whether this output is a terminal that takes colours, and nobody has turned them off."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (out.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"))


def _painted(text: str, style: str) -> str:
    codes = ";".join(_CODES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text


def rich_text(line: Line) -> Text:
    """The line for Rich."""
    return Text.assemble(*line.spans)


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
    return console.width >= WIDE


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
