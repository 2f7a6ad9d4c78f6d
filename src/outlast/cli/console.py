"""Where output goes: people's lines with colours on a terminal, programs' bytes straight to stdout, remarks to stderr.

Rich is imported only by commands that draw with it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from outlast.cli.streams import own
from outlast.views.lines import Line, fitted, line
from outlast.views.texts import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

UNLIMITED = 100_000
"""The width of a pipe: nothing is cut."""
WIDE = 120
"""From this width on, ids and digests are shown whole."""
_CODES = {"bold": "1", "dim": "2"} | {
    name: str(code) for code, name in enumerate(("red", "green", "yellow", "blue", "magenta", "cyan"), 31)
}


def width() -> int:
    """The columns of stdout: of the terminal, or as COLUMNS says, else unlimited."""
    is_measured = own().isatty() or os.environ.get("COLUMNS")
    return shutil.get_terminal_size().columns if is_measured else UNLIMITED


def show_lines(lines: Iterable[Line]) -> None:
    """Lines of a text form, fitted to the screen; with colours on a terminal."""
    out, columns = own(), width()
    paint = has_colours(out)
    for each in fitted(lines, columns):
        out.write(painted(each) if paint else each.text)
        out.write("\n")


def has_colours(out: TextIO) -> bool:
    """Whether this output is a terminal that takes colours, and nobody has turned them off."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (out.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"))


def painted(whole: Line) -> str:
    """The line with the codes of a terminal."""
    parts = [(text, ";".join(_CODES[word] for word in style.split())) for text, style in whole.spans]
    return "".join(f"\x1b[{codes}m{text}\x1b[0m" if codes else text for text, codes in parts)


def show_text(text: str) -> None:
    """All lines of a text from anywhere, with their indents and without effect on the terminal."""
    show_lines(line(plain(each.expandtabs(), keep_indent=True), fit="copy") for each in text.split("\n"))


def notice(*lines: str, style: str = "dim") -> None:
    """Remarks beside the output, on stderr; the first line in the given style."""
    paint = has_colours(sys.stderr)
    for each in "\n".join(filter(None, lines)).split("\n"):
        said = line((plain(each, keep_indent=True), style))
        print(painted(said) if paint else said.text, file=sys.stderr)
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


# --- with Rich


def show_wrapped(console: Console, margin: str, text: Text, note: str = "") -> None:
    """A text behind a margin, wrapped at words to the width of the screen. A text with a note is not wrapped: the note
    follows it, or stands below it if the line is too long."""
    from rich.text import Text

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


def screen() -> Console:
    """Stdout for people, drawn by Rich."""
    from rich.console import Console

    size = shutil.get_terminal_size()
    return Console(file=own(), highlight=False, markup=False, emoji=False, width=width(), height=size.lines)


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


def rich_text(whole: Line) -> Text:
    """The line for Rich."""
    from rich.text import Text

    return Text.assemble(*whole.spans)
